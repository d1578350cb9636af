// The thread pool: workers that spin briefly, then sleep, and are claimed one by one by callers.
//
// A caller claims idle workers, gives each one part of its loop, runs a part itself, takes back the
// parts that nobody has begun by then, and waits for the others. So a call never waits for a worker
// that is not running, nothing can deadlock, and two callers share the workers.
//
//   a worker's state:   ASLEEP or IDLE --> CLAIMED --> GO --> RUNNING --> IDLE
//                             by a caller: claim    tell    by the worker
//                                                    +--> IDLE, if the caller takes it back
//
// Only libc is used: no exceptions, no allocation, no static constructors.
#include "ansorc/runtime.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "chunks.h"
#include "cores.h"
#include "park.h"

namespace ansorc {
namespace {

constexpr int64_t kSpinNs = 40000;
// A worker that was woken too late spins longer: its caller, at work on the part that it took back,
// will soon need it again, and asleep it would be late every time.
constexpr int64_t kLateSpinNs = 200000;
constexpr size_t kStackBytes = 3 << 19;  // 1.5 MiB: kernels keep at most 64 KiB on the stack
constexpr uint32_t kWaiterSleeps = 1u << 31;

// GO holds the ticket of its call above the lowest three bits, so that a caller takes back only
// what it told itself.
enum State : uint32_t { kIdle, kAsleep, kClaimed, kRunning, kGo };
constexpr int kTicketShift = 3;

}  // namespace

// One call of ansorc_parallel_for, on the stack of its caller.
struct Job {
  ansorc_body body;
  void* closure;
  int64_t extent;
  int64_t parts;
  bool spins;
  uint32_t go;
  Word pending;  // parts that are not done, and whether the caller sleeps
};

struct alignas(64) Worker {  // a cache line of its own, for callers and workers poll `state`
  Word state;
  int32_t part;
  std::atomic<bool> spins;  // whether there is a core for all in the last call that told it a part
  Job* job;
  pthread_t thread;
  int32_t avoided;  // 1 + the CPU that its affinity leaves out, 0 before the first call
};

struct Pool {
  std::atomic<int32_t> workers;
  std::atomic<int32_t> default_threads;  // 0 until known
  std::atomic<int32_t> cores;            // 0 until known
  std::atomic<bool> growing;             // a lock
  Word tickets;
  bool handles_fork;
  Worker worker[kMaxThreads];
};

}  // namespace ansorc

// With GCC an inline variable is one object for the whole process, even among libraries that are
// loaded with RTLD_LOCAL; so all kernels share one pool. A changed layout needs a new name.
extern "C" {
// glibc's pthread_atfork names the library by this address. Kernels are linked without the compiler's
// start-up files, which define it; where those are linked in, theirs is taken.
__attribute__((visibility("hidden"), weak)) void* __dso_handle = &__dso_handle;

__attribute__((visibility("default"))) inline ansorc::Pool ansorc_pool_2 = {};
__attribute__((visibility("default"))) inline __thread bool ansorc_in_part_1 = false;
}

namespace ansorc {
namespace {

Pool& pool() { return ansorc_pool_2; }

int32_t cores() {
  int32_t count = pool().cores.load(std::memory_order_relaxed);
  if (count == 0) pool().cores.store(count = allowed_cores(), std::memory_order_relaxed);
  return count;
}

void run_part(const Job& job, int64_t part) {
  const int64_t length = job.extent / job.parts, longer = job.extent % job.parts;
  const int64_t begin = part * length + (part < longer ? part : longer);
  const int64_t end = begin + length + (part < longer ? 1 : 0);
  ansorc_in_part_1 = true;
  job.body(job.closure, begin, end);
  ansorc_in_part_1 = false;
}

void wait_for_part(Worker& worker) {
  const auto has_begun = [&] {
    uint32_t state = worker.state.load(std::memory_order_relaxed);
    return (state & kGo) != 0 && worker.state.compare_exchange_strong(state, kRunning);
  };
  if (spin_until(worker.spins.load(std::memory_order_relaxed) ? kSpinNs : 0, has_begun)) return;
  while (!has_begun()) {
    uint32_t state = kIdle;
    if (worker.state.compare_exchange_strong(state, kAsleep) || state == kAsleep) {
      sleep_while(worker.state, kAsleep);
      const bool spins = worker.spins.load(std::memory_order_relaxed);
      if (spin_until(spins ? kLateSpinNs : 0, has_begun)) return;
    } else if (state == kClaimed) {
      sched_yield();
    }
  }
}

void* work(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  for (;;) {
    wait_for_part(worker);
    Job* const job = worker.job;
    run_part(*job, worker.part);
    // Idle first: the caller's next call must find this worker free.
    worker.state.store(kIdle, std::memory_order_release);
    if (job->pending.fetch_sub(1) == (kWaiterSleeps | 1)) wake(job->pending);
  }
}

// The child of a fork has none of its parent's workers.
void forget_workers() {
  pool().workers.store(0);
  pool().growing.store(false);
  pool().cores.store(0);
}

bool start_worker(Worker& worker) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  worker.state.store(kAsleep);
  sigset_t all, before;  // the program's signal handlers run on the program's threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  worker.avoided = 0;
  worker.spins.store(false);
  const bool is_started = pthread_create(&worker.thread, &attributes, work, &worker) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return is_started;
}

// Add one worker unless there are `limit`, or another caller is adding one, or the system refuses.
bool grow(int32_t limit) {
  bool is_growing = false;
  if (!pool().growing.compare_exchange_strong(is_growing, true)) return false;
  const int32_t count = pool().workers.load();
  bool is_started = count < limit;
  if (is_started && !pool().handles_fork) {
    pool().handles_fork = pthread_atfork(nullptr, nullptr, forget_workers) == 0;
  }
  is_started = is_started && start_worker(pool().worker[count]);
  if (is_started) pool().workers.store(count + 1);
  pool().growing.store(false);
  return is_started;
}

// What a caller holds between claiming workers and telling them to go.
struct Claims {
  uint64_t workers[kMaxThreads / 64] = {};
  uint64_t sleepers[kMaxThreads / 64] = {};
  int32_t count = 0;
};

void claim(Claims& claims, int32_t wanted) {
  const int32_t limit = wanted + 1 > cores() ? wanted : cores() - 1;
  for (int32_t index = 0; claims.count < wanted; ++index) {
    if (index >= pool().workers.load(std::memory_order_acquire) && !grow(limit)) return;
    Worker& worker = pool().worker[index];
    uint32_t state = worker.state.load(std::memory_order_relaxed);
    while (state == kIdle || state == kAsleep) {
      if (!worker.state.compare_exchange_weak(state, kClaimed)) continue;
      const uint64_t bit = UINT64_C(1) << (index % 64);
      claims.workers[index / 64] |= bit;
      if (state == kAsleep) claims.sleepers[index / 64] |= bit;
      ++claims.count;
      break;
    }
  }
}

// Call `action(worker, was_asleep)` for each claimed worker, lowest first.
template <typename Action>
void for_each(const Claims& claims, Action action) {
  int32_t seen = 0;
  for (int32_t group = 0; seen < claims.count; ++group) {
    for (uint64_t left = claims.workers[group]; left != 0; left &= left - 1, ++seen) {
      const int32_t bit = __builtin_ctzll(left);
      action(pool().worker[group * 64 + bit], (claims.sleepers[group] >> bit & 1) != 0);
    }
  }
}

// Keep a claimed worker off the CPU that its caller runs on.
//
// A kernel may wake a thread on the CPU of the one that wakes it, where it waits until the load is
// balanced, which takes milliseconds: seen on virtual machines of two CPUs. The worker stays within
// the CPUs that its caller may use.
void steer([[maybe_unused]] Worker& worker, [[maybe_unused]] int32_t cpu) {
#ifdef __linux__
  cpu_set_t allowed;
  if (cpu < 0 || worker.avoided == cpu + 1) return;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || cpu >= CPU_SETSIZE) return;
  CPU_CLR(cpu, &allowed);
  pthread_setaffinity_np(worker.thread, sizeof allowed, &allowed);  // refused if no CPU is left
  worker.avoided = cpu + 1;
#endif
}

int32_t current_cpu() {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

void tell(const Claims& claims, Job& job) {
  int32_t part = 0;
  const int32_t cpu = claims.count != 0 ? current_cpu() : -1;
  for_each(claims, [&](Worker& worker, bool was_asleep) {
    steer(worker, cpu);
    worker.job = &job;
    worker.part = ++part;
    worker.spins.store(job.spins, std::memory_order_relaxed);
    worker.state.store(job.go, std::memory_order_release);
    if (was_asleep) wake(worker.state);
  });
}

// Run here the parts that no worker has begun; it may be long until a worker gets a core.
void take_back(const Claims& claims, Job& job) {
  int32_t part = 0;
  for_each(claims, [&](Worker& worker, bool) {
    ++part;
    uint32_t state = job.go;
    if (!worker.state.compare_exchange_strong(state, kIdle)) return;
    run_part(job, part);
    job.pending.fetch_sub(1);
  });
}

void wait_for_others(Job& job) {
  const auto is_done = [&] { return job.pending.load(std::memory_order_acquire) == 0; };
  if (spin_until(job.spins ? kSpinNs : 0, is_done)) return;
  uint32_t pending = job.pending.fetch_or(kWaiterSleeps) | kWaiterSleeps;
  while (pending != kWaiterSleeps) {
    sleep_while(job.pending, pending);
    pending = job.pending.load(std::memory_order_acquire);
  }
}

}  // namespace
}  // namespace ansorc

#define ANSORC_EXPORT extern "C" __attribute__((weak, visibility("default")))

ANSORC_EXPORT int32_t ansorc_num_threads(void) {
  std::atomic<int32_t>& known = ansorc::pool().default_threads;
  int32_t count = known.load(std::memory_order_relaxed);
  if (count > 0) return count;
  count = ansorc::threads_from_environment();
  if (count == 0) count = ansorc::cores();
  known.store(count, std::memory_order_relaxed);
  return count;
}

ANSORC_EXPORT void ansorc_set_num_threads(int32_t threads) {
  ansorc::pool().cores.store(0);
  ansorc::pool().default_threads.store(threads > 0 ? ansorc::clamp_threads(threads) : 0);
}

ANSORC_EXPORT int32_t ansorc_parallel_for(ansorc_body body, void* closure, int64_t extent,
                                          int32_t threads) {
  if (extent <= 0) return 0;
  int64_t wanted = threads > 0 ? ansorc::clamp_threads(threads) : ansorc_num_threads();
  if (wanted > extent) wanted = extent;
  ansorc::Claims claims;
  if (wanted > 1 && !ansorc_in_part_1) ansorc::claim(claims, static_cast<int32_t>(wanted) - 1);
  if (claims.count == 0) {
    body(closure, 0, extent);
    return 0;
  }
  const uint32_t others = static_cast<uint32_t>(claims.count);
  // Spinning helps only if everybody who spins has a core.
  const bool spins = others < static_cast<uint32_t>(ansorc::cores());
  const uint32_t ticket = ansorc::pool().tickets.fetch_add(1, std::memory_order_relaxed);
  const uint32_t go = ticket << ansorc::kTicketShift | ansorc::kGo;
  ansorc::Job job = {body, closure, extent, others + 1, spins, go, {others}};
  ansorc::tell(claims, job);
  ansorc::run_part(job, 0);
  ansorc::take_back(claims, job);
  ansorc::wait_for_others(job);
  return 0;
}

ANSORC_EXPORT int32_t ansorc_parallel_for_dynamic(ansorc_body body, void* closure, int64_t extent,
                                                  int64_t chunk, int32_t threads) {
  if (extent <= 0) return 0;
  if (chunk < 1) chunk = 1;
  const int64_t chunks = extent / chunk + (extent % chunk != 0 ? 1 : 0);
  int64_t takers = threads > 0 ? ansorc::clamp_threads(threads) : ansorc_num_threads();
  if (takers > chunks) takers = chunks;
  if (takers == 1 || ansorc_in_part_1) {
    body(closure, 0, extent);
    return 0;
  }
  ansorc::Chunks all = {body, closure, extent, chunk, chunks, {0}};
  return ansorc_parallel_for(ansorc::take_chunks, &all, takers, static_cast<int32_t>(takers));
}

ANSORC_EXPORT const char* ansorc_runtime_version(void) { return ANSORC_RUNTIME_VERSION; }
