#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>
#include <new>
#include <utility>

#include "ansorc/runtime.h"
#include "machine.h"

namespace ansorc {

struct Shared {
  volatile Outcome outcome;
  volatile Stage stage;
  volatile uint32_t value, program, has_outputs;
  Times times[kMostPrograms];
  uint64_t digests[kMostPrograms][kMostOutputs][2];
  uint64_t offsets[kMostOutputs], bytes[kMostOutputs];
};

namespace {

constexpr int kRousings = 3;
constexpr int64_t kRousingSteps = 5000;

[[noreturn]] void end(Shared* shared, Outcome outcome, uint32_t value) {
  shared->value = value;
  shared->outcome = outcome;
  _exit(0);
}

// A kernel takes pointers, then the workspace and the number of threads. Calling conventions of the
// three machines let a caller pass more than the callee takes, in registers and on the stack.
template <size_t... Index>
int32_t called(void* function, const uintptr_t* words, std::index_sequence<Index...>) {
  using Kernel = int32_t (*)(decltype(static_cast<void>(Index), uintptr_t{})...);
  return reinterpret_cast<Kernel>(function)(words[Index]...);
}

class BoundProgram final : public Subject {
 public:
  // Its outputs and workspace are made here, in the child; `outputs` are shared by all programs.
  void bind(const Trial& trial, const Program& program, GuardedArray* outputs, Shared* shared) {
    trial_ = &trial;
    program_ = &program;
    shared_ = shared;
    outputs_ = outputs;
    for (uint32_t n = 0; n < program.count; ++n) {
      const Argument& one = program.arguments[n];
      const GuardedArray& array = one.kind == Argument::kOutput ? outputs[one.output] : *one.input;
      words_[n] = reinterpret_cast<uintptr_t>(array.begin());
    }
    if (program.workspace_bytes > 0) {
      if (program.workspace_bytes > SIZE_MAX || !workspace_.allocate(static_cast<size_t>(program.workspace_bytes))) {
        end(shared, Outcome::kNoMemory, 0);
      }
      words_[program.count] = reinterpret_cast<uintptr_t>(workspace_.begin());
    }
    words_[program.count + 1] = static_cast<uint32_t>(trial.threads);
  }

  void call(uint64_t count) override {
    const bool is_small = program_->count + 2 <= 8;
    int32_t status = 0;
    for (uint64_t n = 0; n < count && status == 0; ++n) {
      status = is_small ? called(program_->function, words_, std::make_index_sequence<8>())
                        : called(program_->function, words_, std::make_index_sequence<kMostArguments + 2>());
    }
    if (status != 0) end(shared_, Outcome::kStatus, static_cast<uint32_t>(status));
  }

  double timed(uint64_t count) override {
    if (!is_warm()) empty_caches();
    const bool has_team = trial_->caches == Caches::kColdWeights && trial_->threads != 1;
    if (has_team) {
      ansorc_team_begin(trial_->threads);
      for (int n = 0; n < kRousings; ++n) ansorc_parallel_for(rouse, nullptr, ansorc_num_threads(), trial_->threads);
    }
    const double begin = now_s();
    call(count);
    const double taken = now_s() - begin;
    if (has_team) ansorc_team_end();
    return taken;
  }

  bool is_warm() const override {
    return trial_->caches == Caches::kWarm || (trial_->caches == Caches::kColdWeights && !has_constants());
  }
  bool evicts_all() const override { return trial_->caches == Caches::kCold; }

  void require_intact() const {
    for (uint32_t n = 0; n < trial_->outputs; ++n) {
      if (!outputs_[n].is_intact()) end(shared_, Outcome::kOutside, n);
    }
    if (program_->workspace_bytes > 0 && !workspace_.is_intact()) end(shared_, Outcome::kOutside, kWorkspace);
  }

 private:
  static void rouse(void*, int64_t, int64_t) { steady_work(kRousingSteps); }

  bool has_constants() const {
    for (uint32_t n = 0; n < program_->count; ++n) {
      if (program_->arguments[n].kind == Argument::kConstant) return true;
    }
    return false;
  }

  void empty_caches() const {
    const bool all = trial_->caches == Caches::kCold;
    for (uint32_t n = 0; n < program_->count; ++n) {
      const Argument& one = program_->arguments[n];
      if (!all && one.kind != Argument::kConstant) continue;
      const GuardedArray& array = one.kind == Argument::kOutput ? outputs_[one.output] : *one.input;
      evict(array.begin(), array.bytes());
    }
    if (all && program_->workspace_bytes > 0) evict(workspace_.begin(), workspace_.bytes());
  }

  const Trial* trial_ = nullptr;
  const Program* program_ = nullptr;
  Shared* shared_ = nullptr;
  GuardedArray* outputs_ = nullptr;
  GuardedArray workspace_;
  uintptr_t words_[kMostArguments + 2] = {};
};

GuardedArray* poisoned_outputs(const Trial& trial, Shared* shared) {
  static GuardedArray outputs[kMostOutputs];
  for (uint32_t n = 0; n < trial.outputs; ++n) {
    if (!outputs[n].allocate(static_cast<size_t>(trial.output[n].bytes))) end(shared, Outcome::kNoMemory, 0);
  }
  return outputs;
}

// Poisons the outputs, calls the program once, and leaves what it wrote where the parent sees it.
void call_first(const Trial& trial, uint32_t number, BoundProgram& bound, GuardedArray* outputs, Shared* shared) {
  for (uint32_t n = 0; n < trial.outputs; ++n) {
    memset(outputs[n].begin(), static_cast<int>(trial.output[n].fill), outputs[n].bytes());
  }
  shared->program = number;
  shared->stage = Stage::kFirstCall;
  const double begin = now_s();
  bound.call(1);
  shared->times[number].first_s = now_s() - begin;
  bound.require_intact();
  for (uint32_t n = 0; n < trial.outputs; ++n) {
    digest(outputs[n].begin(), outputs[n].bytes(), shared->digests[number][n]);
    memcpy(reinterpret_cast<uint8_t*>(shared) + shared->offsets[n], outputs[n].begin(), outputs[n].bytes());
  }
  shared->has_outputs = 1;
}

[[noreturn]] void work(const Trial& trial, Shared* shared) {
  for (uint32_t p = 0; p < trial.programs; ++p) {
    const Program& program = trial.program[p];
    for (uint32_t n = 0; n < program.count; ++n) {
      if (program.arguments[n].kind != Argument::kOutput) program.arguments[n].input->freeze();
    }
  }
  GuardedArray* outputs = poisoned_outputs(trial, shared);
  static BoundProgram bound[kMostPrograms];
  Subject* subjects[kMostPrograms];
  for (uint32_t p = 0; p < trial.programs; ++p) {
    shared->program = p;
    bound[p].bind(trial, trial.program[p], outputs, shared);
    subjects[p] = &bound[p];
  }
  for (uint32_t p = 0; p < trial.programs; ++p) call_first(trial, p, bound[p], outputs, shared);
  shared->stage = Stage::kTiming;
  if (trial.is_ranked) {
    interleave(subjects, trial.programs, trial.timing, shared->times);
  } else if (trial.is_timed) {
    for (uint32_t p = 0; p < trial.programs; ++p) {
      shared->program = p;
      sample(*subjects[p], trial.timing, &shared->times[p]);
    }
  }
  end(shared, Outcome::kDone, 0);
}

// What a child does before anything else: it dies with the runner, and has not its pipe.
void settle_in() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int descriptor : {0, 1}) dup2(nothing, descriptor);
  const int adjustment = open("/proc/self/oom_score_adj", O_WRONLY);
  if (adjustment >= 0) {
    const ssize_t written = write(adjustment, "1000", 4);  // where memory ends, this process does
    (void)written;
    close(adjustment);
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
}

// Waits for the child until `deadline`, kills it then; returns false if it had to.
bool wait_for(pid_t child, double deadline, int* status) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (;;) {
    if (waitpid(child, status, WNOHANG) == child) return true;
    const double left = deadline - now_s();
    if (left <= 0) break;
    const auto seconds = static_cast<time_t>(left);
    const timespec time = {seconds, static_cast<long>((left - static_cast<double>(seconds)) * 1e9)};
    sigtimedwait(&signals, nullptr, &time);
  }
  kill(child, SIGKILL);
  waitpid(child, status, 0);
  return false;
}

}  // namespace

const Times& Report::times(uint32_t program) const { return shared_->times[program]; }

const uint64_t* Report::digest(uint32_t program, uint32_t output) const { return shared_->digests[program][output]; }

const uint8_t* Report::output(uint32_t n, size_t* bytes) const {
  if (shared_ == nullptr || !shared_->has_outputs || n >= kMostOutputs) return nullptr;
  *bytes = static_cast<size_t>(shared_->bytes[n]);
  return reinterpret_cast<const uint8_t*>(shared_) + shared_->offsets[n];
}

void Report::release() {
  if (shared_ != nullptr) munmap(shared_, bytes_);
  shared_ = nullptr;
}

void run_trial(const Trial& trial, Report* report) {
  report->release();
  uint64_t size = round_up(sizeof(Shared), kAlignment);
  uint64_t offsets[kMostOutputs] = {};
  for (uint32_t n = 0; n < trial.outputs; ++n) {
    offsets[n] = size;
    size += (trial.output[n].bytes + kAlignment) / kAlignment * kAlignment;
  }
  *report = Report();
  report->outcome = Outcome::kNoMemory;
  if (size > SIZE_MAX / 4) return;
  report->bytes_ = static_cast<size_t>(size);
  void* memory = mmap(nullptr, report->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto* shared = report->shared_ = new (memory) Shared();
  shared->outcome = Outcome::kEnded;
  for (uint32_t n = 0; n < trial.outputs; ++n) {
    shared->offsets[n] = offsets[n];
    shared->bytes[n] = trial.output[n].bytes;
  }
  const double deadline = now_s() + trial.limit_s;
  const pid_t child = fork();
  if (child == 0) {
    settle_in();
    work(trial, shared);
  }
  int status = 0;
  if (child < 0) {
    report->outcome = Outcome::kNoProcess;
    report->value = static_cast<uint32_t>(errno);
    return;
  }
  const bool is_in_time = wait_for(child, deadline, &status);
  report->stage = shared->stage;
  report->program = shared->program < trial.programs ? shared->program : 0;
  report->outcome = shared->outcome;
  report->value = shared->value;
  if (!is_in_time) {
    report->outcome = Outcome::kTimeout;
  } else if (WIFSIGNALED(status)) {
    report->outcome = Outcome::kSignal;
    report->value = static_cast<uint32_t>(WTERMSIG(status));
  }
}

}  // namespace ansorc
