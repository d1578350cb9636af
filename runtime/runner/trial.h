// Programs that are called and timed in a child process: what they do to it, they do to it alone.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "arrays.h"
#include "timing.h"

namespace ansorc {

constexpr size_t kMostPrograms = 16, kMostArguments = 64, kMostOutputs = 16;

enum class Caches : uint32_t { kWarm, kCold, kColdWeights };

struct Output {
  uint64_t bytes;
  uint32_t fill;  // the byte that it is poisoned with
};

struct Argument {
  enum Kind : uint32_t { kInput, kOutput, kConstant } kind;
  const GuardedArray* input;  // of the runner
  uint32_t output;            // its number
};

struct Program {
  void* function;
  uint64_t workspace_bytes;
  uint32_t count;
  Argument arguments[kMostArguments];
};

struct Trial {
  bool is_timed, is_ranked;
  Caches caches;
  int32_t threads;
  double limit_s;
  TimingOptions timing;
  uint32_t programs, outputs;
  Output output[kMostOutputs];
  Program program[kMostPrograms];
};

enum class Outcome : uint32_t { kDone, kStatus, kSignal, kTimeout, kOutside, kNoMemory, kEnded, kNoProcess };
enum class Stage : uint32_t { kPreparing, kFirstCall, kTiming };
constexpr uint32_t kWorkspace = ~0u;

struct Shared;  // what the child leaves in memory that both see

class Report {
 public:
  Outcome outcome;
  uint32_t value;  // the kernel's status, the signal, the output, errno
  Stage stage;
  uint32_t program;  // which was at work

  const Times& times(uint32_t program) const;
  const uint64_t* digest(uint32_t program, uint32_t output) const;
  // What output `n` of the last program holds; null if it did not come that far.
  const uint8_t* output(uint32_t n, size_t* bytes) const;
  void release();

 private:
  friend void run_trial(const Trial& trial, Report* report);
  Shared* shared_ = nullptr;
  size_t bytes_ = 0;
};

// Runs the trial in a child; `report` holds what came of it until it is released.
void run_trial(const Trial& trial, Report* report);

}  // namespace ansorc
