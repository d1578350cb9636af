// How often a kernel is called to know its time: what ansorc/search/measure/timing.py does, there
// with its reasons, without the waiting for a quiet machine: a board is its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ansorc {

constexpr size_t kMostSeconds = 1024;

struct TimingOptions {  // as they are on the pipe; see RunOptions in ansorc/search/measure/options.py
  uint32_t min_repeats, max_repeats, rank_rounds, rank_least_rounds;
  double best_s, min_total_s, max_total_s, precision, near_factor, early_stop_factor;
  double rank_total_s, rank_repeat_s;
};
static_assert(sizeof(TimingOptions) == 80, "what is on the pipe has no gaps");

struct Times {
  uint32_t count, stopped_early;
  double first_s;
  double seconds[kMostSeconds];
};

// What is timed; a call that fails ends the process with what it says.
class Subject {
 public:
  virtual void call(uint64_t count) = 0;
  virtual double timed(uint64_t count) = 0;  // seconds of `count` calls, in the caches asked for
  virtual bool is_warm() const = 0;          // calls follow each other, in the caches they leave
  virtual bool evicts_all() const = 0;

 protected:
  ~Subject() = default;
};

double now_s();
void sample(Subject& subject, const TimingOptions& options, Times* times);
void interleave(Subject* const* subjects, size_t count, const TimingOptions& options, Times* times);

}  // namespace ansorc
