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
// Members of a team (team.h) are workers that run the loops of one thread until it ends the team:
//
//   RUNNING --> NAPPING --> RUNNING         by the worker, and by the caller that needs it
//                  +--> ASLEEP              by the caller: the team has ended
//
// Only libc is used: no exceptions, no allocation, no static constructors.
#include "ansorc/runtime.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "chunks.h"
#include "pool.h"
#include "team.h"

namespace ansorc {
namespace {

constexpr size_t kStackBytes = 3 << 19;  // 1.5 MiB: kernels keep at most 64 KiB on the stack
constexpr int64_t kLeaveNs = 10000;
constexpr uint32_t kWaiterSleeps = 1u << 31;

// After so many waits in a row that outlasted long polling, a worker polls for kSpinNs alone, until
// a wait is short again: where calls are far apart, polling for the next one only burns a core.
constexpr int32_t kMissesInVain = 4;

// `misses` counts such waits of this worker.
void wait_for_part(Worker& worker, int32_t& misses) {
  const auto has_begun = [&] {
    uint32_t state = worker.state.load(std::memory_order_relaxed);
    return (state & kStateMask) == kGo && worker.state.compare_exchange_strong(state, kRunning);
  };
  const int64_t most_ns = worker.spin_ns.load(std::memory_order_relaxed);
  const auto spin = [&](int64_t calm_ns, int64_t busy_ns) {
    return spin_for(calm_ns, worker.has_core.load(std::memory_order_relaxed), busy_ns, has_begun);
  };
  int64_t since = now_ns();
  if (spin(misses < kMissesInVain || most_ns < kSpinNs ? most_ns : kSpinNs, kSpinNs)) {
    misses = 0;
    return;
  }
  while (!has_begun()) {
    uint32_t state = kIdle;
    if (worker.state.compare_exchange_strong(state, kAsleep) || state == kAsleep) {
      sleep_while(worker.state, kAsleep);
      const int64_t now = now_ns();
      misses = now - since < most_ns ? 0 : misses + (misses < kMissesInVain);
      since = now;
      if (spin(worker.spin_ns.load(std::memory_order_relaxed), kLateSpinNs)) return;
    } else if (state == kClaimed) {
      sched_yield();
    }
  }
}

void* work(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  int32_t misses = 0;
  for (;;) {
    wait_for_part(worker, misses);
    if (worker.team != nullptr) {
      serve(*worker.team, worker);
      continue;
    }
    Job* const job = worker.job;
    run_part(*job, worker.part);
    // Idle first: the caller's next call must find this worker free.
    worker.state.store(kIdle, std::memory_order_release);
    if (job->pending.fetch_sub(1) == (kWaiterSleeps | 1)) wake(job->pending);
  }
}

// The child of a fork has none of its parent's workers, so no teams either.
void forget_workers() {
  pool().workers.store(0);
  pool().growing.store(false);
  pool().cores.store(0);
  pool().awake.store(0);
  for (Team& team : pool().team) {
    team.inside.store(0);
    team.nappers.store(0);
    team.is_open.store(false);
  }
  ansorc_section_1 = {};
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
  worker.spin_ns.store(0);
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
  bool has_sleepers = false;
};

// How many workers there may be when a call wants `wanted`.
int32_t worker_limit(int32_t wanted) { return wanted + 1 > cores() ? wanted : cores() - 1; }

void claim(Claims& claims, int32_t wanted, int32_t limit) {
  for (int32_t index = 0; claims.count < wanted; ++index) {
    if (index >= pool().workers.load(std::memory_order_acquire) && !grow(limit)) return;
    Worker& worker = pool().worker[index];
    uint32_t state = worker.state.load(std::memory_order_relaxed);
    while (state == kIdle || state == kAsleep) {
      if (!worker.state.compare_exchange_weak(state, kClaimed)) continue;
      const uint64_t bit = UINT64_C(1) << (index % 64);
      claims.workers[index / 64] |= bit;
      if (state == kAsleep) {
        claims.sleepers[index / 64] |= bit;
        claims.has_sleepers = true;
      }
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

void tell(const Claims& claims, Job& job) {
  int32_t part = 0;
  const int32_t cpu = claims.count != 0 ? current_cpu() : -1;
  for_each(claims, [&](Worker& worker, bool was_asleep) {
    steer(worker, cpu);
    worker.job = &job;
    worker.team = nullptr;
    worker.part = ++part;
    worker.spin_ns.store(job.spin_ns, std::memory_order_relaxed);
    worker.has_core.store(job.has_cores, std::memory_order_relaxed);
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
  if (spin_for(job.spin_ns, job.has_cores, kSpinNs, is_done)) return;
  uint32_t pending = job.pending.fetch_or(kWaiterSleeps) | kWaiterSleeps;
  while (pending != kWaiterSleeps) {
    sleep_while(job.pending, pending);
    pending = job.pending.load(std::memory_order_acquire);
  }
}

// Claim the workers that a team still lacks, as far as there are idle ones.
void recruit(Team& team) {
  Claims claims;
  claim(claims, team.wanted - team.size, worker_limit(team.wanted - 1));
  if (claims.count == 0) return;
  team.inside.fetch_add(claims.count);
  pool().awake.fetch_add(claims.count);
  const bool spins = team.size + claims.count <= cores();
  const uint64_t done = team.ticket.load(std::memory_order_relaxed) | kDone;
  const int32_t cpu = current_cpu();
  for_each(claims, [&](Worker& worker, bool was_asleep) {
    steer(worker, cpu);
    worker.team = &team;
    worker.part = team.size;
    worker.spins.store(spins, std::memory_order_relaxed);
    worker.spin_ns.store(spin_ns(team.size + 1), std::memory_order_relaxed);
    worker.has_core.store(has_whole_cores(team.size + 1), std::memory_order_relaxed);
    worker.progress.store(done, std::memory_order_relaxed);
    team.member[team.size++ - 1] = static_cast<uint16_t>(&worker - pool().worker);
    worker.state.store(team.go, std::memory_order_release);
    if (was_asleep) wake(worker.state);
  });
}

// A team that nobody uses, nullptr if there is none.
Team* open_team(int32_t wanted) {
  for (Team& team : pool().team) {
    bool is_open = false;
    if (!team.is_open.compare_exchange_strong(is_open, true)) continue;
    if (team.inside.load(std::memory_order_acquire) != 0) {  // a member of the last one has no core
      team.is_open.store(false);
      continue;
    }
    const uint32_t number = pool().tickets.fetch_add(1, std::memory_order_relaxed);
    team.go = number << kStateBits | kGo;
    team.size = 1;
    team.wanted = wanted;
    pool().awake.fetch_add(1);
    return &team;
  }
  return nullptr;
}

// Send the members back to the pool. Those that have no core go when they get one, as nobody waits.
void close_team(Team& team) {
  announce(team, kEnd);
  for_members(team, team.size, [&](Worker& worker, int64_t) {
    uint32_t told = team.go;
    const bool is_out =
        end_nap(team, worker, kAsleep) || worker.state.compare_exchange_strong(told, kIdle);
    if (is_out) team.inside.fetch_sub(1);
  });
  pool().awake.fetch_sub(team.size);
  // The next team, maybe this thread's, should find them idle.
  spin_until(kLeaveNs, [&] { return team.inside.load(std::memory_order_acquire) == 0; });
  team.is_open.store(false);
}

// What is left open when a thread exits.
void close_section(void*) {
  Team* const team = ansorc_section_1.team;
  ansorc_section_1 = {};
  if (team != nullptr) close_team(*team);
}

void handle_exit() {
  pool().handles_exit.store(pthread_key_create(&pool().exit_key, close_section) == 0);
}

// Whether a team of this thread would be closed when the thread exits.
bool watch_exit() {
  pthread_once(&pool().exit_once, handle_exit);
  return pool().handles_exit.load() && pthread_setspecific(pool().exit_key, &pool()) == 0;
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

ANSORC_EXPORT void ansorc_set_spin_us(int32_t microseconds) {
  const int64_t given = microseconds < 0 ? 0 : INT64_C(1000) * microseconds + 1;
  ansorc::pool().spin_ns.store(given);
}

ANSORC_EXPORT int32_t ansorc_parallel_for(ansorc_body body, void* closure, int64_t extent,
                                          int32_t threads) {
  if (extent <= 0) return 0;
  int64_t wanted = threads > 0 ? ansorc::clamp_threads(threads) : ansorc_num_threads();
  if (wanted > extent) wanted = extent;
  ansorc::Team* const team = ansorc_section_1.team;
  if (team != nullptr && wanted > 1 && !ansorc_in_part_1) {
    if (team->size < wanted && team->size < team->wanted) ansorc::recruit(*team);
    if (wanted > team->size) wanted = team->size;
    if (wanted > 1) {
      ansorc::run_in_team(*team, {body, closure, extent, wanted, 0, false, 0, {0}});
    } else {
      body(closure, 0, extent);
    }
    return 0;
  }
  ansorc::Claims claims;
  if (wanted > 1 && !ansorc_in_part_1) {
    const int32_t others = static_cast<int32_t>(wanted) - 1;
    ansorc::claim(claims, others, ansorc::worker_limit(others));
  }
  if (claims.count == 0) {
    body(closure, 0, extent);
    return 0;
  }
  const uint32_t others = static_cast<uint32_t>(claims.count);
  const int64_t spin_ns = ansorc::spin_ns(others + 1);
  const bool has_cores = ansorc::has_whole_cores(others + 1);
  const uint32_t ticket = ansorc::pool().tickets.fetch_add(1, std::memory_order_relaxed);
  const uint32_t go = ticket << ansorc::kStateBits | ansorc::kGo;
  ansorc::Job job = {body, closure, extent, others + 1, spin_ns, has_cores, go, {others}};
  ansorc::Chunks chunks = claims.has_sleepers
                              ? ansorc::chunks_for_sleepers(body, closure, extent, others + 1)
                              : ansorc::Chunks{};
  if (chunks.count > others + 1) {
    job.body = ansorc::take_chunks, job.closure = &chunks, job.extent = others + 1;
  }
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

ANSORC_EXPORT int32_t ansorc_team_begin(int32_t threads) {
  ansorc::Section& section = ansorc_section_1;
  const bool is_first = section.depth++ == 0;
  if (ansorc_in_part_1) return 1;
  if (!is_first) return section.team != nullptr ? section.team->size : 1;
  const int32_t wanted = threads > 0 ? ansorc::clamp_threads(threads) : ansorc_num_threads();
  if (wanted == 1 || !ansorc::watch_exit()) return 1;
  section.team = ansorc::open_team(wanted);
  if (section.team == nullptr) return 1;
  ansorc::recruit(*section.team);
  return section.team->size;
}

ANSORC_EXPORT void ansorc_team_end(void) {
  ansorc::Section& section = ansorc_section_1;
  if (section.depth == 0 || --section.depth > 0) return;
  if (section.team != nullptr) ansorc::close_section(nullptr);
}

ANSORC_EXPORT const char* ansorc_runtime_version(void) { return ANSORC_RUNTIME_VERSION; }
