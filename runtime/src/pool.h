// What callers and workers share: the pool, its workers, the calls and teams that they work for.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include <atomic>

#include "ansorc/runtime.h"
#include "cores.h"
#include "park.h"

namespace ansorc {
namespace {

// How long a waiting thread spins where something else may need its core.
constexpr int64_t kSpinNs = 40000;
// A worker that was woken too late spins longer: its caller, at work on the part that it took back,
// will soon need it again, and asleep it would be late every time.
constexpr int64_t kLateSpinNs = 200000;

// GO holds the ticket of its call above the lowest three bits, so that a caller takes back only
// what it told itself. NAPPING is RUNNING for a team, asleep between two loops.
enum State : uint32_t { kIdle, kAsleep, kClaimed, kRunning, kGo, kNapping };
constexpr int kStateBits = 3;
constexpr uint32_t kStateMask = (1u << kStateBits) - 1;

constexpr int32_t kMaxTeams = 32;

}  // namespace

// One call of ansorc_parallel_for, on the stack of its caller.
struct Job {
  ansorc_body body;
  void* closure;
  int64_t extent;
  int64_t parts;
  int64_t spin_ns;
  bool has_cores;
  uint32_t go;
  Word pending;  // parts that are not done, and whether the caller sleeps
};

using Ticket = std::atomic<uint64_t>;

struct Team;

struct alignas(64) Worker {  // cache lines of its own, for callers and workers poll `state`
  Word state;
  int32_t part;
  std::atomic<bool> spins;       // whether there is a core for all of the team that it was told to join
  std::atomic<int64_t> spin_ns;  // how long it may spin, while nothing else is seen on its core
  std::atomic<bool> has_core;    // whether it may keep that core, as far as quotas say
  Job* job;
  Team* team;  // that it was told to join, or nullptr if it was told a part of `job`
  pthread_t thread;
  int32_t avoided;  // 1 + the CPU that its affinity leaves out, 0 before the first call
  alignas(64) Ticket progress;  // in a team: the last loop whose part here was begun, or done
};

// The workers that a thread holds between ansorc_team_begin and ansorc_team_end.
struct alignas(64) Team {
  Ticket ticket;  // of the last loop; its members poll this line
  ansorc_body body;
  void* closure;
  int64_t extent;

  alignas(64) std::atomic<int32_t> nappers;  // changes rarely, and is read for every loop
  Word caller_sleeps;
  std::atomic<bool> is_open;
  std::atomic<int32_t> inside;  // members that may still look at this team
  int32_t size;                 // its caller and the members
  int32_t wanted;
  uint32_t go;
  uint16_t member[kMaxThreads];  // numbers of workers; member[p - 1] has part p
};

struct Pool {
  std::atomic<int32_t> workers;
  std::atomic<int32_t> default_threads;  // 0 until known
  std::atomic<int32_t> cores;            // 0 until known
  std::atomic<int32_t> whole_cores;      // known when `cores` is
  std::atomic<bool> growing;             // a lock
  Word tickets;
  bool handles_fork;
  std::atomic<int64_t> spin_ns;     // 1 more than that, 0 until known
  std::atomic<int32_t> awake;       // threads of all open teams
  std::atomic<int64_t> busy_until;  // when waiting threads may spin long again
  pthread_once_t exit_once;
  pthread_key_t exit_key;
  std::atomic<bool> handles_exit;
  Worker worker[kMaxThreads];
  Team team[kMaxTeams];
};

// What a thread has begun.
struct Section {
  Team* team;     // nullptr if none could be had
  int32_t depth;  // calls of ansorc_team_begin that have no end yet
};

}  // namespace ansorc

// With GCC an inline variable is one object for the whole process, even among libraries that are
// loaded with RTLD_LOCAL; so all kernels share one pool. A changed layout needs a new name.
extern "C" {
// glibc's pthread_atfork names the library by this address. Kernels are linked without the compiler's
// start-up files, which define it; where those are linked in, theirs is taken.
__attribute__((visibility("hidden"), weak)) void* __dso_handle = &__dso_handle;

__attribute__((visibility("default"))) inline ansorc::Pool ansorc_pool_5 = {};
__attribute__((visibility("default"))) inline __thread bool ansorc_in_part_1 = false;
__attribute__((visibility("default"))) inline __thread ansorc::Section ansorc_section_1 = {};
}

namespace ansorc {
namespace {

Pool& pool() { return ansorc_pool_5; }

int32_t cores() {
  int32_t count = pool().cores.load(std::memory_order_relaxed);
  if (count == 0) {
    const AllowedCores allowed = allowed_cores();
    pool().whole_cores.store(allowed.whole, std::memory_order_relaxed);
    pool().cores.store(count = allowed.threads, std::memory_order_relaxed);
  }
  return count;
}

// How long the threads of a loop on `threads` may spin: it helps only if each of them has a core.
// Workers do not ask: a program may change its environment meanwhile.
int64_t spin_ns(int64_t threads) {
  if (threads > cores()) return 0;
  int64_t known = pool().spin_ns.load(std::memory_order_relaxed);
  if (known == 0) {
    known = spin_us_from_environment() * 1000 + 1;
    pool().spin_ns.store(known, std::memory_order_relaxed);
  }
  return known - 1;
}

// Whether a quota lets so many threads spin all the time.
bool has_whole_cores(int64_t threads) {
  return threads <= pool().whole_cores.load(std::memory_order_relaxed);
}

// Between two looks at the clock, 32 rounds or a yield, pass a few microseconds. A thread for which
// more time passed was off its core: something else needs it.
constexpr int64_t kGapNs = 100000;
// After a gap, waiting threads sleep early for so many times as long as it lasted: looking whether
// the core is free again may cost another gap.
constexpr int64_t kBusyGaps = 32, kMaxBusyNs = 1000000000;

void note_gap(int64_t now, int64_t gap) {
  const int64_t length = gap < kMaxBusyNs / kBusyGaps ? kBusyGaps * gap : kMaxBusyNs;
  std::atomic<int64_t>& until = pool().busy_until;
  if (until.load(std::memory_order_relaxed) < now + length) {
    until.store(now + length, std::memory_order_relaxed);
  }
}

// Whether every thread of every team has a core to spin on, as far as is known.
bool is_calm(int64_t now) {
  const int32_t whole = pool().whole_cores.load(std::memory_order_relaxed);
  return pool().awake.load(std::memory_order_relaxed) <= whole &&
         now >= pool().busy_until.load(std::memory_order_relaxed);
}

// Spin until `done()`: for `calm_ns` if there is a core for it, else for `busy_ns`.
template <typename Done>
bool watch_until(int64_t calm_ns, int64_t busy_ns, Done done) {
  if (done()) return true;
  const int64_t begin = now_ns();
  for (int64_t last = begin;;) {
    for (int round = 0; round < 32; ++round) {
      pause();
      if (done()) return true;
    }
    const int64_t now = now_ns();
    if (now - last > kGapNs) note_gap(now, now - last);
    const bool calm = is_calm(now);
    if (now - begin >= (calm ? calm_ns : busy_ns)) return done();
    last = now;
    if (calm && now - begin > kSpinNs) sched_yield();
  }
}

// Spin until `done()`, for `most_ns` if the core is there to be kept, else for `busy_ns` at most.
template <typename Done>
bool spin_for(int64_t most_ns, bool has_core, int64_t busy_ns, Done done) {
  if (has_core && most_ns > busy_ns) return watch_until(most_ns, busy_ns, done);
  return spin_until(most_ns < busy_ns ? most_ns : busy_ns, done);
}

void run_part(const Job& job, int64_t part) {
  const int64_t length = job.extent / job.parts, longer = job.extent % job.parts;
  const int64_t begin = part * length + (part < longer ? part : longer);
  const int64_t end = begin + length + (part < longer ? 1 : 0);
  ansorc_in_part_1 = true;
  job.body(job.closure, begin, end);
  ansorc_in_part_1 = false;
}

// Keep a worker off the CPU that its caller runs on.
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

}  // namespace
}  // namespace ansorc
