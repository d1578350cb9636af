#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace ansorc {
namespace {

constexpr double kLeastSamples = 40, kAwakeS = 1e-3, kMedianError = 0.93;

int compare(const void* a, const void* b) {
  const double x = *static_cast<const double*>(a), y = *static_cast<const double*>(b);
  return x < y ? -1 : x > y;
}

// The quantile `q` of sorted values, between the two next to it.
double quantile(const double* sorted, uint32_t count, double q) {
  const double place = q * (count - 1);
  const auto low = static_cast<uint32_t>(place);
  return low + 1 < count ? sorted[low] + (place - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
}

struct Spread {
  double median, error;  // the standard error of the median, as a share of it
};

Spread spread_of(const Times& times) {
  static double sorted[kMostSeconds];
  memcpy(sorted, times.seconds, times.count * sizeof(double));
  qsort(sorted, times.count, sizeof(double), compare);
  const double median = quantile(sorted, times.count, 0.5);
  const double width = quantile(sorted, times.count, 0.75) - quantile(sorted, times.count, 0.25);
  return {median, kMedianError * width / sqrt(times.count) / median};
}

bool is_known(const Times& times, double total, const TimingOptions& options) {
  if (times.count == 0) return false;
  const Spread spread = spread_of(times);
  const bool is_far = options.best_s > 0 && spread.median > options.near_factor * options.best_s;
  if (times.count < options.min_repeats || total < options.min_total_s) return is_far && total >= options.max_total_s;
  return is_far || total >= options.max_total_s || spread.error <= options.precision;
}

uint64_t calls_a_repeat(Subject& subject, double repeat_s) {
  if (subject.timed(1) >= repeat_s) return 1;
  const double once = subject.timed(4) / 4;
  const double count = ceil(repeat_s / (once > 1e-8 ? once : 1e-8));
  return count > 1 ? static_cast<uint64_t>(count) : 1;
}

// The time of a call after a first one that took `first_s`, maybe to wake threads up.
double again(Subject& subject, double first_s, double limit_s) {
  const bool is_short = subject.is_warm() && first_s < kAwakeS;
  const uint64_t count = is_short ? static_cast<uint64_t>(ceil(kAwakeS / limit_s)) : 1;
  return subject.timed(count) / static_cast<double>(count);
}

}  // namespace

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void sample(Subject& subject, const TimingOptions& options, Times* times) {
  const double limit_s = options.best_s > 0 ? options.early_stop_factor * options.best_s : HUGE_VAL;
  double first = subject.timed(1);
  if (first > limit_s) {
    const double second = again(subject, first, limit_s);
    first = second < first ? second : first;
    if (first > limit_s) {
      times->seconds[0] = first;
      times->count = times->stopped_early = 1;
      return;
    }
  }
  double total = 0.0;
  uint64_t number = 1;
  if (first >= options.max_total_s) {
    times->seconds[times->count++] = total = first;
  } else if (subject.is_warm()) {
    number = calls_a_repeat(subject, options.min_total_s / kLeastSamples);
  }
  while (times->count < options.max_repeats && !is_known(*times, total, options)) {
    const double taken = subject.timed(number);
    total += taken;
    times->seconds[times->count++] = taken / static_cast<double>(number);
  }
}

void interleave(Subject* const* subjects, size_t count, const TimingOptions& options, Times* times) {
  const double begin = now_s();
  uint64_t numbers[64];
  for (size_t n = 0; n < count; ++n) {
    numbers[n] = subjects[n]->is_warm() ? calls_a_repeat(*subjects[n], options.rank_repeat_s) : 1;
  }
  for (uint32_t round = 0; round < options.rank_rounds; ++round) {
    for (size_t place = 0; place < count; ++place) {
      const size_t n = round % 2 == 0 ? place : count - 1 - place;
      if (subjects[n]->is_warm() || !subjects[n]->evicts_all()) subjects[n]->call(1);
      times[n].seconds[times[n].count++] = subjects[n]->timed(numbers[n]) / static_cast<double>(numbers[n]);
    }
    const bool is_long = now_s() - begin > options.rank_total_s;
    if (is_long && round + 1 >= options.rank_least_rounds) break;
  }
}

}  // namespace ansorc
