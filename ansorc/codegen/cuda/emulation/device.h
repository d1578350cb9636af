// What CUDA C has and C++ has not, for a CPU. `fibers.h` or `threads.h` runs the threads of a block.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Of <math.h> only what is called: all of it takes longer to read than most kernels to compile.
#define EMULATION_MATH(name) \
  extern "C" float name##f(float) noexcept; \
  extern "C" double name(double) noexcept; \
  static inline float name(float x) { return name##f(x); }
#define EMULATION_MATH_OF_2(name) \
  extern "C" float name##f(float, float) noexcept; \
  extern "C" double name(double, double) noexcept;
EMULATION_MATH(acos) EMULATION_MATH(acosh) EMULATION_MATH(asin) EMULATION_MATH(asinh)
EMULATION_MATH(atan) EMULATION_MATH(atanh) EMULATION_MATH(cbrt) EMULATION_MATH(ceil)
EMULATION_MATH(cos) EMULATION_MATH(cosh) EMULATION_MATH(erf) EMULATION_MATH(erfc)
EMULATION_MATH(exp) EMULATION_MATH(exp2) EMULATION_MATH(expm1) EMULATION_MATH(fabs)
EMULATION_MATH(floor) EMULATION_MATH(log) EMULATION_MATH(log10) EMULATION_MATH(log1p)
EMULATION_MATH(log2) EMULATION_MATH(nearbyint) EMULATION_MATH(rint) EMULATION_MATH(round)
EMULATION_MATH(sin) EMULATION_MATH(sinh) EMULATION_MATH(sqrt) EMULATION_MATH(tan)
EMULATION_MATH(tanh) EMULATION_MATH(trunc)
EMULATION_MATH_OF_2(atan2) EMULATION_MATH_OF_2(copysign) EMULATION_MATH_OF_2(fmax)
EMULATION_MATH_OF_2(fmin) EMULATION_MATH_OF_2(fmod) EMULATION_MATH_OF_2(hypot)
EMULATION_MATH_OF_2(pow)
#undef EMULATION_MATH
#undef EMULATION_MATH_OF_2
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static const
// A block at a time: one place for each shared array, all in one section, which is poisoned whole.
#ifdef EMULATION_CHECKS
#define __shared__ static
#else
#define __shared__ static __attribute__((section("ansorc_shared")))
#endif

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
typedef dim3 uint3;
#define EMULATION_HIDDEN __attribute__((visibility("hidden")))

namespace emulation {
// Waits until all threads of the block are at a barrier of this line.
EMULATION_HIDDEN void wait_for_block(int line);
// Waits until all lanes of the warp that `mask` names are at this line.
EMULATION_HIDDEN void wait_for_warp(unsigned mask, int line);
// Says in words why the program is wrong, and ends the launch.
EMULATION_HIDDEN void fail(int line, const char *words);
// 16 bytes of this warp for each lane. Those for the whole warp take turns, so that no lane
// overwrites what another has not read; for other masks, the lanes wait for each other again.
EMULATION_HIDDEN char *warp_slots(unsigned mask);
EMULATION_HIDDEN unsigned thread_of_block();
EMULATION_HIDDEN unsigned threads_of_block();

constexpr unsigned warp_size = 32, whole_warp = 0xffffffffu;
constexpr size_t slot_bytes = 16;

// Every lane's value is put down, then `source` says whose this lane takes.
template <typename T> T exchange(unsigned mask, T value, unsigned source, int line) {
  static_assert(sizeof(T) <= slot_bytes, "no shuffle moves more");
  unsigned lane = thread_of_block() % warp_size, warp = thread_of_block() - lane;
  if (!(mask >> lane & 1)) fail(line, "a lane calls a shuffle that its mask does not name");
  char *slots = warp_slots(mask);
  __builtin_memcpy(slots + lane * slot_bytes, &value, sizeof(T));
  wait_for_warp(mask, line);
  T found;
  bool is_there = source < warp_size && (mask >> source & 1) && warp + source < threads_of_block();
  if (is_there)
    __builtin_memcpy(&found, slots + source * slot_bytes, sizeof(T));
  else
    __builtin_memset(&found, 0xff, sizeof(T));
  if (mask != whole_warp) wait_for_warp(mask, line);
  return found;
}

inline unsigned lane() { return thread_of_block() % warp_size; }

template <typename T> T shuffle(unsigned mask, T value, int source, int line, int width = 32) {
  return exchange(mask, value, (lane() & ~(width - 1)) + (source & (width - 1)), line);
}
template <typename T> T shuffle_up(unsigned mask, T value, unsigned delta, int line, int width = 32) {
  bool is_inside = (lane() & (width - 1)) >= delta;
  return exchange(mask, value, is_inside ? lane() - delta : lane(), line);
}
template <typename T>
T shuffle_down(unsigned mask, T value, unsigned delta, int line, int width = 32) {
  bool is_inside = (lane() & (width - 1)) + delta < (unsigned)width;
  return exchange(mask, value, is_inside ? lane() + delta : lane(), line);
}
template <typename T> T shuffle_xor(unsigned mask, T value, int bits, int line, int width = 32) {
  unsigned source = lane() ^ bits;
  bool is_inside = source < (lane() & ~(width - 1)) + width;
  return exchange(mask, value, is_inside ? source : lane(), line);
}
inline unsigned ballot(unsigned mask, bool vote, int line) {
  char *slots = warp_slots(mask);
  unsigned warp = thread_of_block() - lane(), found = 0;
  __builtin_memcpy(slots + lane() * slot_bytes, &vote, sizeof vote);
  wait_for_warp(mask, line);
  for (unsigned other = 0; other < warp_size; ++other)
    if (mask >> other & 1 && warp + other < threads_of_block() && slots[other * slot_bytes])
      found |= 1u << other;
  if (mask != whole_warp) wait_for_warp(mask, line);
  return found;
}
}  // namespace emulation

#define __syncthreads() emulation::wait_for_block(__LINE__)
#define __syncwarp(...) emulation::wait_for_warp(emulation::mask_of(__VA_ARGS__), __LINE__)
#define __shfl_sync(mask, value, source, ...) \
  emulation::shuffle(mask, value, source, __LINE__, ##__VA_ARGS__)
#define __shfl_up_sync(mask, value, delta, ...) \
  emulation::shuffle_up(mask, value, delta, __LINE__, ##__VA_ARGS__)
#define __shfl_down_sync(mask, value, delta, ...) \
  emulation::shuffle_down(mask, value, delta, __LINE__, ##__VA_ARGS__)
#define __shfl_xor_sync(mask, value, bits, ...) \
  emulation::shuffle_xor(mask, value, bits, __LINE__, ##__VA_ARGS__)
#define __ballot_sync(mask, vote) emulation::ballot(mask, vote, __LINE__)
#define __any_sync(mask, vote) (emulation::ballot(mask, vote, __LINE__) != 0)
#define __all_sync(mask, vote) (emulation::ballot(mask, !(vote), __LINE__) == 0)
namespace emulation {
inline unsigned mask_of(unsigned mask = whole_warp) { return mask; }
}  // namespace emulation

template <typename T> T __ldg(const T *place) { return *place; }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

namespace emulation {
// Replaces what lies at `place` by `change` of it, as one step; returns what lay there.
template <typename T, typename Change> T atomically(T *place, Change change) {
  T old, made;
  __atomic_load(place, &old, __ATOMIC_RELAXED);
  do made = change(old);
  while (!__atomic_compare_exchange(place, &old, &made, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
}  // namespace emulation
template <typename T> T atomicAdd(T *place, T value) {
  return emulation::atomically(place, [=](T old) { return (T)(old + value); });
}
template <typename T> T atomicCAS(T *place, T expected, T value) {
  return emulation::atomically(place, [=](T old) { return old == expected ? value : old; });
}
template <typename T> T atomicMin(T *place, T value) {
  return emulation::atomically(place, [=](T old) { return value < old ? value : old; });
}
template <typename T> T atomicMax(T *place, T value) {
  return emulation::atomically(place, [=](T old) { return value > old ? value : old; });
}

#define EMULATION_VECTORS(type, name)                         \
  struct __align__(2 * sizeof(type)) name##2 { type x, y; };  \
  struct name##3 { type x, y, z; };                           \
  struct __align__(sizeof(type) < 8 ? 4 * sizeof(type) : 16) name##4 { type x, y, z, w; };
EMULATION_VECTORS(float, float)
EMULATION_VECTORS(double, double)
EMULATION_VECTORS(int, int)
EMULATION_VECTORS(unsigned, uint_)
EMULATION_VECTORS(long long, longlong)
EMULATION_VECTORS(short, short)
EMULATION_VECTORS(signed char, char)
#undef EMULATION_VECTORS
typedef uint_2 uint2;
typedef uint_4 uint4;

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __uint_as_float(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

// The 16-bit float of IEEE 754, in integer arithmetic: not every CPU has it.
struct half {
  unsigned short bits;
};
inline float to_float(half x) {
  unsigned sign = (unsigned)(x.bits & 0x8000) << 16, rest = x.bits & 0x7fff;
  if (rest >= 0x7c00) return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  float value = __uint_as_float(rest << 13) * 0x1p112f;  // exact, small numbers too
  return __uint_as_float(sign | __float_as_uint(value));
}
// `x` is rounded once: the last bits of a double may decide.
inline half to_half(double x) {
  uint64_t whole;
  __builtin_memcpy(&whole, &x, 8);
  unsigned sign = whole >> 48 & 0x8000;
  double size = fabs(x);
  half narrow;
  if (x != x) {
    narrow.bits = (unsigned short)(sign | 0x7e00 | (whole >> 42 & 0x1ff));
  } else if (size >= 65520.0) {
    narrow.bits = (unsigned short)(sign | 0x7c00);
  } else {
    int exponent;
    __builtin_frexp(size, &exponent);
    // The exponent of the last bit.
    int last = size == 0 || exponent - 11 < -24 ? -24 : exponent - 11;
    double units = nearbyint(__builtin_ldexp(size, -last));
    unsigned count = (unsigned)units;
    narrow.bits = (unsigned short)(sign | (count + ((unsigned)(last + 24) << 10)));
  }
  return narrow;
}
inline half to_half(float x) { return to_half((double)x); }

#include "asynchronous.h"
#include "matrix_units.h"
