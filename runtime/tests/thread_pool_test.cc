// Checks of the thread pool; prints one line for each and returns the number that failed.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../src/cores.h"
#include "ansorc/runtime.h"
#include "checks.h"

namespace {

int64_t threads_of_process() {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  long count = -1;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (strncmp(line, "Threads:", 8) == 0) count = strtol(line + 8, nullptr, 10);
  }
  fclose(file);
  return count;
}

// Whether the process has at most `count` threads. A thread that was joined may be listed for a moment
// after its join, so the list is read again for up to two seconds.
bool has_at_most_threads(int64_t count) {
  for (int attempt = 0; attempt < 200 && threads_of_process() > count; ++attempt) usleep(10000);
  return threads_of_process() <= count;
}

struct Counts {
  std::vector<std::atomic<int>> visits;
  std::atomic<int> parts{0};
  std::atomic<int64_t> shortest{INT64_MAX}, longest{0};
  explicit Counts(int64_t extent) : visits(extent) {}
};

void count_visits(void* closure, int64_t begin, int64_t end) {
  auto& counts = *static_cast<Counts*>(closure);
  ++counts.parts;
  for (int64_t i = begin; i < end; ++i) ++counts.visits[i];
  if (end - begin < counts.shortest) counts.shortest = end - begin;
  if (end - begin > counts.longest) counts.longest = end - begin;
}

bool visits_each_once(int64_t extent, int32_t threads) {
  Counts counts(extent);
  if (ansorc_parallel_for(count_visits, &counts, extent, threads) != 0) return false;
  for (auto& visits : counts.visits) {
    if (visits != 1) return false;
  }
  const bool is_shared_out = counts.parts <= threads && counts.longest - counts.shortest <= 1;
  // a worker that sleeps comes late, so there are more parts, the last one maybe shorter
  const int64_t whole = extent == 0 ? 0 : (extent + 4 * threads - 1) / (4 * threads);
  return extent == 0 || is_shared_out || (counts.longest == whole && counts.parts <= 4 * threads);
}

void check_parts_of_sleepers() {
  ansorc_set_spin_us(0);
  bool good = true;
  int64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    usleep(200);
    Counts counts(64);
    ansorc_parallel_for(count_visits, &counts, 64, 2);
    for (auto& visits : counts.visits) good = good && visits == 1;
    if (counts.parts > most) most = counts.parts;
  }
  ansorc_set_spin_us(-1);
  check(good && most == 8, "who is awake goes on with what a sleeper has not begun");
}

void check_one_thread_makes_none() {
  const int64_t before = threads_of_process();
  Counts counts(100);
  ansorc_parallel_for(count_visits, &counts, 100, 1);
  check(counts.parts == 1 && threads_of_process() == before, "one thread needs no pool");
}

void check_visits() {
  bool good = true;
  for (int64_t extent : {0, 1, 2, 3, 7, 64, 1001}) {
    for (int32_t threads : {1, 2, 3, 5, 16}) good = good && visits_each_once(extent, threads);
  }
  check(good, "each iteration runs once, in parts of nearly equal length");
}

bool chunks_visit_each_once(int64_t extent, int64_t chunk, int32_t threads) {
  Counts counts(extent);
  if (ansorc_parallel_for_dynamic(count_visits, &counts, extent, chunk, threads) != 0) return false;
  for (auto& visits : counts.visits) {
    if (visits != 1) return false;
  }
  const int64_t length = chunk < 1 ? 1 : chunk;
  if (threads > 1 && extent > length) return counts.longest == length;
  return counts.parts == (extent > 0 ? 1 : 0);  // one thread, or one chunk: in one go
}

void check_chunks() {
  bool good = true;
  for (int64_t extent : {0, 1, 2, 3, 7, 64, 1001}) {
    for (int64_t chunk : {-1, 1, 2, 5, 64, 2000}) {
      for (int32_t threads : {1, 2, 3, 4, 5, 16}) {
        good = good && chunks_visit_each_once(extent, chunk, threads);
      }
    }
  }
  check(good, "each iteration runs once in chunks of the length asked for");
  check(chunks_visit_each_once(5, INT64_MAX, 3), "a chunk may be longer than any loop");
}

struct Waits {
  std::atomic<int> quick{0};
  std::atomic<bool> is_held{true};
};

// The first iteration lasts until all others are done: only another thread can do them.
void hold_first(void* closure, int64_t begin, int64_t end) {
  auto& waits = *static_cast<Waits*>(closure);
  for (int64_t i = begin; i < end; ++i) {
    if (i > 0 && ++waits.quick == 99) waits.is_held = false;
    if (i == 0) {
      while (waits.is_held) usleep(100);
    }
  }
}

void check_uneven() {
  Waits waits;
  ansorc_parallel_for_dynamic(hold_first, &waits, 100, 1, 2);
  check(waits.quick == 99, "a thread goes on while another is held up");
}

void nest_dynamic(void* closure, int64_t, int64_t) {
  Counts inner(10);
  ansorc_parallel_for_dynamic(count_visits, &inner, 10, 1, 4);
  if (inner.parts != 1) ++*static_cast<std::atomic<int>*>(closure);
}

void nest(void* closure, int64_t, int64_t) {
  Counts inner(10);
  ansorc_parallel_for(count_visits, &inner, 10, 4);
  if (inner.parts != 1) ++*static_cast<std::atomic<int>*>(closure);
}

void check_nested() {
  std::atomic<int> split{0};
  for (int i = 0; i < 100; ++i) ansorc_parallel_for(nest, &split, 4, 4);
  for (int i = 0; i < 100; ++i) ansorc_parallel_for_dynamic(nest, &split, 4, 1, 4);
  for (int i = 0; i < 100; ++i) ansorc_parallel_for(nest_dynamic, &split, 4, 4);
  check(split == 0, "a nested call runs alone");
}

void check_concurrent() {
  std::atomic<bool> good{true};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        if (!visits_each_once(17, 1 + i % 4)) good = false;
        if (!chunks_visit_each_once(17, 1 + i % 3, 1 + i % 4)) good = false;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  check(good, "four threads may call at once");
  const int64_t others = kIsSanitized ? 1 : 0;
  check(has_at_most_threads(1 + 15 + others), "the pool does not grow with the callers");
}

void spin_long(void* closure, int64_t, int64_t) {
  ++*static_cast<std::atomic<int>*>(closure);
  usleep(2000);
}

void check_sleepers() {
  std::atomic<int> parts{0};
  for (int i = 0; i < 20; ++i) {
    ansorc_parallel_for(spin_long, &parts, 2, 2);
    usleep(3000);
  }
  check(parts == 40, "workers and callers that sleep are woken");
}

void check_fork() {
  const pid_t child = fork();
  if (child == 0) {
    const bool alone = threads_of_process() == 1;
    const bool works = visits_each_once(1001, 3) && threads_of_process() > 1;
    _exit(alone && works ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child makes its own workers");
  check(visits_each_once(1001, 3), "the parent of a fork goes on");
}

// Milliseconds of CPU that the process takes in 100 ms after a call.
double idle_cpu_ms() {
  visits_each_once(1001, 2);
  timespec begin, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  usleep(100000);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  return (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) * 1e-6;
}

// Milliseconds of CPU that the process takes for 40 calls, 5 ms apart, when a worker may poll for 4 ms.
double distant_calls_cpu_ms() {
  ansorc_set_spin_us(4000);
  timespec begin, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  for (int i = 0; i < 40; ++i) {
    visits_each_once(1001, 2);
    usleep(5000);
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  ansorc_set_spin_us(-1);
  return (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) * 1e-6;
}

void check_spinning() {
  check(distant_calls_cpu_ms() < 80, "polling in vain is given up");  // 160 if it were not
  check(idle_cpu_ms() < 20, "an idle pool takes no CPU");
  ansorc_set_spin_us(0);
  check(idle_cpu_ms() < 20 && visits_each_once(1001, 3), "workers that do not spin are woken");
  ansorc_set_spin_us(-1);
  const auto environment_says = [](const char* text, int64_t microseconds) {
    setenv("ANSORC_SPIN_US", text, 1);
    return ansorc::spin_us_from_environment() == microseconds;
  };
  check(environment_says("30", 30) && environment_says("0", 0), "ANSORC_SPIN_US is obeyed");
  const bool is_bounded = environment_says("99999999", ansorc::kMaxSpinUs);
  const bool is_default = environment_says("soon", ansorc::kDefaultSpinUs) &&
                          environment_says("-1", ansorc::kDefaultSpinUs);
  check(is_bounded && is_default, "an ANSORC_SPIN_US that is no number is ignored");
  unsetenv("ANSORC_SPIN_US");
}

void check_thread_counts() {
  ansorc_set_num_threads(3);
  check(ansorc_num_threads() == 3, "ansorc_set_num_threads is obeyed");
  setenv("ANSORC_NUM_THREADS", "2", 1);
  ansorc_set_num_threads(0);
  check(ansorc_num_threads() == 2, "ANSORC_NUM_THREADS is obeyed");
  setenv("ANSORC_NUM_THREADS", "many", 1);
  ansorc_set_num_threads(0);
  check(ansorc_num_threads() >= 1, "an ANSORC_NUM_THREADS that is no number is ignored");
  unsetenv("ANSORC_NUM_THREADS");
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  ansorc_set_num_threads(0);
  check(ansorc_num_threads() == 1, "the affinity mask is respected");
  check(visits_each_once(100, 4), "more threads than cores still finish");
  sched_setaffinity(0, sizeof before, &before);
  ansorc_set_num_threads(0);
  const int32_t all = ansorc_num_threads();  // fewer than in the mask where a quota says so
  check(all >= 1 && all <= CPU_COUNT(&before), "the allowed cores are the default");
}

void use_stack(void* closure, int64_t begin, int64_t end) {
  volatile char memory[1 << 20];
  for (int64_t i = begin; i < end; ++i) memory[(i * 4096) % sizeof memory] = 1;
  memory[0] = memory[sizeof memory - 1] = 1;
  *static_cast<std::atomic<int>*>(closure) += memory[0];
}

struct Masks {
  pthread_t caller;
  cpu_set_t allowed;
  std::atomic<int> missing{2}, wrong{0};
};

// Both parts meet, so that one of them is a worker's.
void look_at_mask(void* closure, int64_t, int64_t) {
  auto& masks = *static_cast<Masks*>(closure);
  for (--masks.missing; masks.missing > 0;) {
  }
  if (pthread_equal(pthread_self(), masks.caller)) return;
  cpu_set_t mine, outside;
  pthread_getaffinity_np(pthread_self(), sizeof mine, &mine);
  CPU_OR(&outside, &mine, &masks.allowed);
  const bool is_within = CPU_EQUAL(&outside, &masks.allowed);
  if (!is_within || CPU_COUNT(&mine) != CPU_COUNT(&masks.allowed) - 1) ++masks.wrong;
}

void check_workers_avoid_their_caller() {
  Masks masks;
  masks.caller = pthread_self();
  sched_getaffinity(0, sizeof masks.allowed, &masks.allowed);
  if (CPU_COUNT(&masks.allowed) < 2) return;  // nowhere else to go
  ansorc_parallel_for(look_at_mask, &masks, 2, 2);
  check(masks.wrong == 0, "a worker runs on an allowed CPU other than its caller's");
}

void check_stack() {
  std::atomic<int> parts{0};
  ansorc_parallel_for(use_stack, &parts, 512, 3);
  check(parts >= 1, "workers have a megabyte of stack");
}

}  // namespace

int main() {
  check_one_thread_makes_none();
  check_visits();
  check_parts_of_sleepers();
  check_chunks();
  check_uneven();
  check_nested();
  check_concurrent();
  check_sleepers();
  if (!kIsSanitized) check_stack();
  check_workers_avoid_their_caller();
  if (!kIsSanitized) check_fork();
  check_spinning();
  check_thread_counts();
  check(strcmp(ansorc_runtime_version(), ANSORC_RUNTIME_VERSION) == 0, "the version is known");
  return failures;
}
