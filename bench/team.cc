// Times a parallel loop in a chain, with the pool alone or in a team; `team.py` compiles and runs it:
// `team THREADS LOOP GAP_US VARIANT BATCH_MS` prints the median and the mean of a batch in µs, where
// the calling thread computes for GAP_US between two loops; `team burn THREADS` keeps THREADS cores
// busy until its standard input ends.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "ansorc/runtime.h"
#include "product.h"

namespace {

constexpr size_t kMostLoops = 20000, kFewestLoops = 3, kWarmUp = 2;

double now_us() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

void compute_for(double us) {
  const double end = now_us() + us;
  while (us > 0 && now_us() < end) {
  }
}

void do_nothing(void*, int64_t, int64_t) {}

// Each part waits until all have begun, else the caller would run the parts of others itself.
void meet(void* closure, int64_t begin, int64_t end) {
  auto& missing = *static_cast<std::atomic<int64_t>*>(closure);
  missing -= end - begin;
  while (missing > 0) {
  }
}

struct Operands {
  std::vector<float> a = std::vector<float>(64 * 256, 1.0f), b = std::vector<float>(256 * 256, 1.0f);
  std::vector<float> c = std::vector<float>(64 * 256);
} operands;

void run_empty(int32_t threads) { ansorc_parallel_for(do_nothing, nullptr, 64, threads); }

void run_barrier(int32_t threads) {
  std::atomic<int64_t> missing{threads};
  ansorc_parallel_for(meet, &missing, threads, threads);
}

void run_product(int32_t threads) {
  product(operands.a.data(), operands.b.data(), operands.c.data(), nullptr, threads);
}

struct Loop {
  const char* name;
  void (*run)(int32_t threads);
};
constexpr Loop kLoops[] = {{"empty", run_empty}, {"barrier", run_barrier}, {"product", run_product}};

void time_batch(void (*run)(int32_t threads), double gap_us, double batch_us, int32_t threads) {
  std::vector<double> times;
  double sum = 0;
  for (size_t i = 0; i < kWarmUp; ++i) run(threads);
  for (double spent = 0; times.size() < kFewestLoops ||
                         (spent < batch_us && times.size() < kMostLoops);) {
    compute_for(gap_us);
    const double begin = now_us();
    run(threads);
    times.push_back(now_us() - begin);
    sum += times.back();
    spent += gap_us + times.back();
  }
  std::sort(times.begin(), times.end());
  printf("%.3f %.3f\n", times[times.size() / 2], sum / static_cast<double>(times.size()));
}

void burn(int threads) {
  for (int i = 0; i < threads; ++i) {
    std::thread([] {
      for (volatile uint64_t count = 0;;) count = count + 1;
    }).detach();
  }
  while (getchar() != EOF) {
  }
  _exit(0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3 && strcmp(arguments[1], "burn") == 0) burn(atoi(arguments[2]));
  if (count != 6) return 2;
  const char *name = arguments[2], *variant = arguments[4];
  const int32_t threads = strcmp(variant, "alone") == 0 ? 1 : atoi(arguments[1]);
  if (strcmp(variant, "team") == 0) ansorc_team_begin(threads);
  for (const Loop& loop : kLoops) {
    if (strcmp(loop.name, name) != 0) continue;
    time_batch(loop.run, atof(arguments[3]), 1e3 * atof(arguments[5]), threads);
  }
  ansorc_team_end();
}
