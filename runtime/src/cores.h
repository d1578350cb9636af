// How many threads a process should use: what its environment says, or the cores it may run on.
#pragma once

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

namespace ansorc {

constexpr int32_t kMaxThreads = 1024;

inline int32_t clamp_threads(long count) {
  return count < 1 ? 1 : count > kMaxThreads ? kMaxThreads : static_cast<int32_t>(count);
}

// The cores in the affinity mask of the calling thread, as `taskset` and cpusets leave them.
inline int32_t allowed_cores() {
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

// ANSORC_NUM_THREADS if it is a whole number above 0, else 0.
inline int32_t threads_from_environment() {
  const char* text = getenv("ANSORC_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long count = strtol(text, &end, 10);
  return *end == '\0' && count > 0 ? clamp_threads(count) : 0;
}

}  // namespace ansorc
