// How many threads a process should use: what its environment says, or the cores it may use.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "quota.h"

namespace ansorc {

constexpr int32_t kMaxThreads = 1024;

inline int32_t clamp_threads(long count) {
  return count < 1 ? 1 : count > kMaxThreads ? kMaxThreads : static_cast<int32_t>(count);
}

// The cores in the affinity mask of the calling thread, as `taskset` and cpusets leave them.
inline int32_t cores_in_mask() {
#ifdef __linux__
  unsigned long mask[8192 / (8 * sizeof(unsigned long))] = {};
  if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask)) == 0) {
    long count = 0;
    for (unsigned long bits : mask) {
      for (; bits != 0; bits &= bits - 1) ++count;  // popcount would be a call into libgcc
    }
    return clamp_threads(count);
  }
#endif
  return clamp_threads(sysconf(_SC_NPROCESSORS_ONLN));
}

// The cores that this process may use: those in its mask, and no more than its CPU quota pays for.
struct AllowedCores {
  int32_t threads;  // a quota of 1.5 CPUs keeps 2 threads at work
  int32_t whole;    // but lets only 1 spin all the time
};

inline AllowedCores allowed_cores() {
  const int32_t in_mask = cores_in_mask();
  const int64_t quota = cpu_quota("");
  if (quota > INT64_C(1000) * in_mask) return {in_mask, in_mask};
  const int32_t whole = clamp_threads(static_cast<long>(quota / 1000));
  return {clamp_threads(static_cast<long>((quota + 999) / 1000)), whole};
}

// ANSORC_NUM_THREADS if it is a whole number above 0, else 0.
inline int32_t threads_from_environment() {
  const char* text = getenv("ANSORC_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long count = strtol(text, &end, 10);
  return *end == '\0' && count > 0 ? clamp_threads(count) : 0;
}

constexpr int32_t kDefaultSpinUs = 250, kMaxSpinUs = 1000000;

// ANSORC_SPIN_US if it is a whole number of at least 0, else the default; at most a second.
inline int64_t spin_us_from_environment() {
  const char* text = getenv("ANSORC_SPIN_US");
  if (text == nullptr || *text == '\0') return kDefaultSpinUs;
  char* end = nullptr;
  const long count = strtol(text, &end, 10);
  if (*end != '\0' || count < 0) return kDefaultSpinUs;
  return count > kMaxSpinUs ? kMaxSpinUs : count;
}

}  // namespace ansorc
