// Checks of teams; prints one line for each and returns the number that failed.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "ansorc/runtime.h"
#include "checks.h"

namespace {

struct Random {
  uint64_t state;
  int64_t below(int64_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<int64_t>(state % static_cast<uint64_t>(limit));
  }
};

// One loop of a chain: each iteration reads what others wrote in the loop before, without atomics.
struct Chain {
  std::vector<int64_t> now, next;
  explicit Chain(int64_t extent) : now(extent, 0), next(extent, -1) {}
};

void take_step(void* closure, int64_t begin, int64_t end) {
  auto& chain = *static_cast<Chain*>(closure);
  const auto extent = static_cast<int64_t>(chain.now.size());
  for (int64_t i = begin; i < end; ++i) {
    const int64_t left = chain.now[i > 0 ? i - 1 : extent - 1];
    const int64_t right = chain.now[i + 1 < extent ? i + 1 : 0];
    chain.next[i] = left == right ? left + 1 : -1;
  }
}

bool steps_are_right(int64_t extent, int32_t threads, int64_t loops, int64_t chunk = 0) {
  Chain chain(extent);
  for (int64_t loop = 0; loop < loops; ++loop) {
    if (chunk == 0) {
      ansorc_parallel_for(take_step, &chain, extent, threads);
    } else {
      ansorc_parallel_for_dynamic(take_step, &chain, extent, chunk, threads);
    }
    std::swap(chain.now, chain.next);
  }
  for (int64_t value : chain.now) {
    if (value != loops) return false;
  }
  return true;
}

void check_tiny_loops() {
  const int64_t loops = kIsSanitized ? 20000 : 100000;
  const int32_t size = ansorc_team_begin(2);
  check(size >= 1 && size <= 2, "a team has at most the threads that were asked for");
  check(steps_are_right(4, 2, loops), "100,000 loops see what the loops before them wrote");
  check(steps_are_right(4000, 2, loops / 20), "so do loops that last until all threads take part");
  ansorc_team_end();
}

bool random_loops_are_right(uint64_t seed, int loops) {
  Random random{seed};
  for (int i = 0; i < loops; ++i) {
    const int64_t extent = 1 + random.below(40);
    const auto threads = static_cast<int32_t>(random.below(6));
    if (!steps_are_right(extent, threads, 1 + random.below(4), random.below(4))) return false;
  }
  return true;
}

void check_random_loops() {
  bool good = true;
  for (int32_t threads : {0, 1, 2, 3, 4, 16}) {
    ansorc_team_begin(threads);
    good = good && random_loops_are_right(88172645463325252u + static_cast<uint64_t>(threads), 500);
    ansorc_team_end();
  }
  check(good, "loops of any extent and number of threads, in teams of any size");
}

void nest(void* closure, int64_t begin, int64_t end) {
  auto& wrong = *static_cast<std::atomic<int>*>(closure);
  if (ansorc_team_begin(4) != 1) ++wrong;
  for (int64_t i = begin; i < end; ++i) {
    if (!steps_are_right(8, 4, 3)) ++wrong;
  }
  ansorc_team_end();
}

void check_nested() {
  std::atomic<int> wrong{0};
  ansorc_team_end();
  const int32_t size = ansorc_team_begin(3);
  check(ansorc_team_begin(2) == size, "a second begin is counted only");
  check(steps_are_right(8, 3, 100), "and loops go on in it");
  ansorc_team_end();
  for (int i = 0; i < 100; ++i) ansorc_parallel_for(nest, &wrong, 5, 3);
  ansorc_team_end();
  ansorc_team_end();
  check(wrong == 0, "inside of a loop there is no team, and calls run alone");
  check(steps_are_right(8, 3, 100), "an end without begin does nothing");
}

void check_naps() {
  bool good = true;
  ansorc_team_begin(2);
  for (int i = 0; i < 20; ++i) {
    usleep(8000);  // members sleep after 5 ms at the latest
    good = good && steps_are_right(8, 2, i);
  }
  usleep(8000);
  ansorc_team_end();
  check(good, "members that sleep are woken");
  check(steps_are_right(8, 2, 100), "the pool goes on with workers that slept in a team");
}

struct Helped {
  pthread_t caller;
  std::atomic<bool> by_worker{false};
};

void note_thread(void* closure, int64_t, int64_t) {
  auto& helped = *static_cast<Helped*>(closure);
  if (!pthread_equal(pthread_self(), helped.caller)) helped.by_worker = true;
  usleep(100);
}

// Returns after a worker has taken part: never, if all are lost.
void wait_for_help() {
  Helped helped;
  helped.caller = pthread_self();
  while (!helped.by_worker) ansorc_parallel_for(note_thread, &helped, 2, 2);
}

void check_many_teams() {
  std::atomic<bool> good{true};
  std::atomic<int> open{0};
  std::vector<std::thread> callers;
  for (uint64_t caller = 1; caller <= 40; ++caller) {
    callers.emplace_back([&, caller] {
      ansorc_team_begin(2 + static_cast<int32_t>(caller % 3));
      for (++open; open < 40;) sched_yield();  // more teams at once than there are places
      if (!random_loops_are_right(caller, 20)) good = false;
      ansorc_team_end();
    });
  }
  for (auto& caller : callers) caller.join();
  check(good, "forty threads may have teams at once");
}

void check_teams_in_turns() {
  std::atomic<bool> good{true};
  std::vector<std::thread> callers;
  for (uint64_t caller = 1; caller <= 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (uint64_t i = 0; i < 300; ++i) {
        if (i % 4 != 0) ansorc_team_begin(static_cast<int32_t>(i % 5));
        if (!random_loops_are_right(1000 * caller + i, 3)) good = false;
        if (i % 4 != 0) ansorc_team_end();
      }
    });
  }
  for (auto& caller : callers) caller.join();
  check(good, "teams and loops without one may come and go in several threads");
}

void check_thread_exit() {
  std::thread([] {
    ansorc_team_begin(0);
    ansorc_team_begin(2);
    steps_are_right(8, 2, 10);
  }).join();
  wait_for_help();
  check(steps_are_right(8, 3, 100), "a thread that exits gives its team back");
}

void check_fork() {
  ansorc_team_begin(2);
  bool good = steps_are_right(8, 2, 100);
  const pid_t child = fork();
  if (child == 0) {
    good = good && steps_are_right(8, 2, 100);
    ansorc_team_end();
    ansorc_team_begin(2);
    good = good && steps_are_right(8, 2, 100);
    wait_for_help();
    ansorc_team_end();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  good = good && steps_are_right(8, 2, 100);
  waitpid(child, &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child has no team, and may begin one");
  check(good && steps_are_right(8, 2, 100), "the parent of a fork keeps its team");
  ansorc_team_end();
}

// On a single CPU every member that is needed is one that does not run.
void check_one_cpu() {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  bool good = true;
  const auto run = [](uint64_t seed) {
    ansorc_set_num_threads(0);
    bool is_right = true;
    for (int i = 0; i < 20; ++i) {
      ansorc_team_begin(i % 2 == 0 ? 2 : 5);
      is_right = is_right && random_loops_are_right(seed, 50);
      ansorc_team_end();
    }
    return is_right;
  };
  sched_setaffinity(0, sizeof one, &one);
  if (!kIsSanitized) {
    pid_t children[2];
    for (int i = 0; i < 2; ++i) {
      children[i] = fork();
      if (children[i] == 0) _exit(run(7 + static_cast<uint64_t>(i)) ? 0 : 1);
    }
    for (pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    check(good, "two processes with teams share one CPU");
  }
  check(run(9), "a team has more threads than it has CPUs");
  sched_setaffinity(0, sizeof before, &before);
  ansorc_set_num_threads(0);
}

}  // namespace

int main() {
  check_tiny_loops();
  check_random_loops();
  check_nested();
  check_naps();
  check_many_teams();
  check_teams_in_turns();
  check_thread_exit();
  if (!kIsSanitized) check_fork();
  check_one_cpu();
  wait_for_help();
  check(random_loops_are_right(3, 100), "loops without a team go on");
  return failures;
}
