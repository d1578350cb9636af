// Measures what ansorc_parallel_for costs until all threads have begun and ended, in microseconds:
// `wake_up [threads [calls]]`.
//
// warm: call follows call, workers still spin. asleep: two milliseconds pass before each call.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "ansorc/runtime.h"

namespace {

// Each part waits until all have begun, else the caller would run the parts of slow workers itself.
void meet(void* closure, int64_t begin, int64_t end) {
  auto& missing = *static_cast<std::atomic<int64_t>*>(closure);
  missing -= end - begin;
  while (missing > 0) {
  }
}

double now_us() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

void report(const char* name, int threads, int calls, useconds_t pause_us) {
  std::vector<double> times;
  for (int call = 0; call < calls; ++call) {
    if (pause_us != 0) usleep(pause_us);
    const double begin = now_us();
    std::atomic<int64_t> missing{threads};
    ansorc_parallel_for(meet, &missing, threads, threads);
    times.push_back(now_us() - begin);
  }
  std::sort(times.begin(), times.end());
  printf("%s, %d threads: 10 %% below %.2f us, median %.2f us, 90 %% below %.2f us\n", name, threads,
         times[times.size() / 10], times[times.size() / 2], times[times.size() * 9 / 10]);
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? atoi(arguments[1]) : ansorc_num_threads();
  const int calls = count > 2 ? atoi(arguments[2]) : 500;
  report("warm-up", threads, calls, 0);
  report("warm", threads, 40 * calls, 0);
  report("asleep", threads, calls, 2000);
}
