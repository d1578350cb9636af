"""The functions that a CUDA text defines before its kernels: only those that it uses.

What is plain C++ serves the GPU and the emulation on a CPU alike. What is an instruction of the GPU
stands inside `#ifdef __CUDACC__`; the header of the emulation defines the same names:
`half`, `to_float(half)`, `to_half(float)`, `to_half(double)`, `rsqrtf`, `rsqrt`, `copy_async`,
`await_copies`, `load_matrices`, `load_matrices_transposed`, `mma_f16` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_DEVICE = "__device__ __forceinline__"

_LOAD = """\
template <typename T> DEVICE void NAME(T *to, const void *row) {
  unsigned place = (unsigned)__cvta_generic_to_shared(row), got[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.KIND.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(got[0]), "=r"(got[1]), "=r"(got[2]), "=r"(got[3]) : "r"(place) : "memory");
  memcpy(to, got, sizeof got);
}
"""
_MATRIX_LOADS = "".join(
    _LOAD.replace("NAME", name).replace("KIND", kind)
    for name, kind in (
        ("load_matrices", "shared"),
        ("load_matrices_transposed", "trans.shared"),
    )
)
_PRODUCT = """\
template <typename T> DEVICE void NAME(
    SUM &s0, SUM &s1, SUM &s2, SUM &s3, const T *left, const T *right) {
  unsigned a[4], b[2];
  memcpy(a, left, sizeof a);
  memcpy(b, right, sizeof b);
  asm("mma.sync.aligned.KIND "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+REGISTER"(s0), "+REGISTER"(s1), "+REGISTER"(s2), "+REGISTER"(s3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
"""
_MATRIX_PRODUCTS = "".join(
    _PRODUCT.replace("NAME", name)
    .replace("KIND", kind)
    .replace("SUM", sums)
    .replace("REGISTER", "f" if sums == "float" else "r")
    for name, kind, sums in (
        ("mma_f16", "m16n8k16.row.col.f32.f16.f16.f32", "float"),
        ("mma_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", "float"),
        ("mma_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", "float"),
        ("mma_s8", "m16n8k32.row.col.s32.s8.s8.s32", "int"),
    )
)


PARTS = {
    "specials": """
union float_bits { unsigned bits; float value; };
union double_bits { unsigned long long bits; double value; };
DEVICE float float_of(unsigned bits) {
  float_bits whole;
  whole.bits = bits;
  return whole.value;
}
DEVICE double double_of(unsigned long long bits) {
  double_bits whole;
  whole.bits = bits;
  return whole.value;
}
DEVICE float infinity_f() { return float_of(0x7f800000u); }
DEVICE float nan_f() { return float_of(0x7fc00000u); }
DEVICE double infinity_d() { return double_of(0x7ff0000000000000ull); }
DEVICE double nan_d() { return double_of(0x7ff8000000000000ull); }""",
    "lanes": """
// N neighbours in memory, which one instruction loads or stores.
template <typename T, int N> struct alignas(sizeof(T) * N) lanes { T at[N]; };
template <int N, typename T> DEVICE lanes<T, N> load(const T *from) {
  return *reinterpret_cast<const lanes<T, N> *>(from);
}
template <int N, typename T> DEVICE void store(T *to, lanes<T, N> value) {
  *reinterpret_cast<lanes<T, N> *>(to) = value;
}""",
    "fill": """
template <int N, typename T> DEVICE lanes<T, N> fill(T value) {
  lanes<T, N> all;
#pragma unroll
  for (int lane = 0; lane < N; ++lane) all.at[lane] = value;
  return all;
}""",
    "wrap": """
// Integers wrap around.
template <typename T> DEVICE T wrap_add(T a, T b) {
  return (T)((unsigned long long)a + (unsigned long long)b);
}
template <typename T> DEVICE T wrap_sub(T a, T b) {
  return (T)((unsigned long long)a - (unsigned long long)b);
}
template <typename T> DEVICE T wrap_mul(T a, T b) {
  return (T)((unsigned long long)a * (unsigned long long)b);
}""",
    "floor_div": """
// The quotient rounded down and its remainder; 0 for a divisor of 0.
template <typename T> DEVICE T floor_div(T a, T b) {
  if (b == 0) return 0;
  if (b == (T)-1 && (T)-1 < 0) return (T)(0 - (unsigned long long)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
template <typename T> DEVICE T floor_mod(T a, T b) {
  if (b == 0 || (b == (T)-1 && (T)-1 < 0)) return 0;
  T rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "shifts": """
// Shifts by any count: one beyond the bits leaves zeros, or copies of the sign.
template <typename T> DEVICE T shift_left(T a, T count) {
  bool inside = (unsigned long long)count < sizeof(T) * 8;
  return inside ? (T)((unsigned long long)a << (int)count) : (T)0;
}
template <typename T> DEVICE T shift_right(T a, T count) {
  bool inside = (unsigned long long)count < sizeof(T) * 8;
  return inside ? (T)(a >> (int)count) : a < 0 ? (T)-1 : (T)0;
}""",
    "bits": """
// How many bits of an integer are 1, and the zeros before the first 1 and behind the last.
template <typename T> DEVICE unsigned long long bits_of(T x) {
  return (unsigned long long)x & (~0ull >> (64 - 8 * sizeof(T)));
}
template <typename T> DEVICE T count_ones(T x) {
#ifdef __CUDACC__
  return (T)(sizeof(T) == 8 ? __popcll(bits_of<T>(x)) : __popc((unsigned)bits_of<T>(x)));
#else
  return (T)__builtin_popcountll(bits_of<T>(x));
#endif
}
template <typename T> DEVICE T leading_zeros(T x) {
  const int before = 64 - 8 * (int)sizeof(T);
#ifdef __CUDACC__
  return (T)(__clzll((long long)bits_of<T>(x)) - before);
#else
  return (T)(bits_of<T>(x) ? __builtin_clzll(bits_of<T>(x)) - before : 8 * (int)sizeof(T));
#endif
}
template <typename T> DEVICE T trailing_zeros(T x) {
#ifdef __CUDACC__
  return (T)(x ? __ffsll((long long)bits_of<T>(x)) - 1 : 8 * (int)sizeof(T));
#else
  return (T)(x ? __builtin_ctzll(bits_of<T>(x)) : 8 * (int)sizeof(T));
#endif
}""",
    "integer_power": """
// Powers of integers wrap around; of a negative exponent what is whole of them.
template <typename T> DEVICE T integer_power(T base, T exponent) {
  unsigned long long total = 1, square = base, rest = exponent;
  if (exponent < 0) {
    if (base != 1 && base != (T)-1) return 0;
    rest = rest & 1;
  }
  for (; rest; rest >>= 1, square *= square)
    if (rest & 1) total *= square;
  return (T)total;
}""",
    "extremes": """
// The smaller and the larger number; a NaN stays.
template <typename T> DEVICE T min_of(T a, T b) { return a < b || a != a ? a : b; }
template <typename T> DEVICE T max_of(T a, T b) { return a > b || a != a ? a : b; }
#if __CUDA_ARCH__ >= 800
DEVICE float min_of(float a, float b) {
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
}
DEVICE float max_of(float a, float b) {
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}
#endif""",
    "saturate": """
// A float as an integer, towards zero; the nearest integer where there is none, 0 for NaN.
template <typename T, typename F> DEVICE T saturate(F x, F low, F end, T least, T most) {
  return x != x ? 0 : x <= low ? least : x >= end ? most : (T)x;
}""",
    "sigmoid": """
DEVICE float sigmoid(float x) {
  float power = expf(-fabsf(x));
  return (x < 0 ? power : 1.0f) / (1.0f + power);
}
DEVICE double sigmoid(double x) {
  double power = exp(-fabs(x));
  return (x < 0 ? power : 1.0) / (1.0 + power);
}""",
    "remainders": """
// What the quotient rounded down leaves, with the sign of the divisor, and that quotient.
DEVICE float rest_of(float a, float b) { return fmodf(a, b); }
DEVICE double rest_of(double a, double b) { return fmod(a, b); }
DEVICE float sign_of(float size, float from) { return copysignf(size, from); }
DEVICE double sign_of(double size, double from) { return copysign(size, from); }
DEVICE float whole_of(float x) { return floorf(x); }
DEVICE double whole_of(double x) { return floor(x); }
template <typename T> DEVICE T float_mod(T a, T b) {
  T rest = rest_of(a, b);
  if (rest == 0) return sign_of(rest, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}
template <typename T> DEVICE T float_floor_divide(T a, T b) {
  T rest = rest_of(a, b), quotient = (a - rest) / b;
  if (b == 0) return a / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return sign_of(quotient, a / b);
  T whole = whole_of(quotient);
  return quotient - whole > (T)0.5 ? whole + 1 : whole;
}""",
    "shuffle": """
// What another thread of the warp has, whose number differs by the bit `distance`.
template <int THREADS, typename T> DEVICE T shuffle(T value, int distance) {
  unsigned together = 0xffffffffu;
  if (THREADS % 32 != 0) {
    int number = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int left = THREADS - number / 32 * 32;
    if (left < 32) together = (1u << left) - 1u;
  }
  return __shfl_xor_sync(together, value, distance);
}""",
    "exchange": """
// Neighbours exchange pieces of BYTES: number i of N gets the i-th of each.
template <int THREADS, int N, int BYTES, typename T> DEVICE void exchange(T *to, const T *from) {
  unsigned piece[N];
#pragma unroll
  for (int i = 0; i < N; ++i) memcpy(&piece[i], (const char *)from + i * BYTES, BYTES);
#pragma unroll
  for (int bit = 1; bit < N; bit *= 2) {
    bool upper = threadIdx.x & bit;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (!(i & bit)) {
        unsigned got = shuffle<THREADS>(upper ? piece[i] : piece[i | bit], bit);
        piece[i] = upper ? got : piece[i];
        piece[i | bit] = upper ? piece[i | bit] : got;
      }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) memcpy((char *)to + i * BYTES, &piece[i], BYTES);
}""",
    "half": """
#ifdef __CUDACC__
struct half { unsigned short bits; };
DEVICE float to_float(half x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
DEVICE half to_half(float x) {
  half narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
  return narrow;
}
DEVICE half to_half(double x) {
  half narrow;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(narrow.bits) : "d"(x));
  return narrow;
}
#endif""",
    "half_fma": """
// a * b + c, rounded once.
DEVICE half multiply_add(half a, half b, half c) {
#ifdef __CUDACC__
  asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
  return c;
#else
  return to_half(fmaf(to_float(a), to_float(b), to_float(c)));
#endif
}""",
    "bfloat16": """
// The upper half of a float, rounded to nearest even.
struct bfloat16 { unsigned short bits; };
DEVICE float to_float(bfloat16 x) { return float_of((unsigned)x.bits << 16); }
DEVICE bfloat16 to_bfloat16(float x) {
  bfloat16 narrow;
#if __CUDA_ARCH__ >= 800
  asm("{.reg .b32 pair; cvt.rn.bf16x2.f32 pair, 0f00000000, %1; mov.b32 {%0, _}, pair;}"
      : "=h"(narrow.bits) : "f"(x));  // one of a pair takes a quarter of the time of one alone
#else
  float_bits whole;
  whole.value = x;
  unsigned bits = whole.bits;
  unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  narrow.bits = (unsigned short)((x != x ? bits | 0x400000u : rounded) >> 16);
#endif
  return narrow;
}""",
    "bfloat16_fma": """
// a * b + c, rounded once, or to a float before.
DEVICE bfloat16 multiply_add(bfloat16 a, bfloat16 b, bfloat16 c) {
#if __CUDA_ARCH__ >= 800
  asm("fma.rn.bf16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
  return c;
#else
  return to_bfloat16(fmaf(to_float(a), to_float(b), to_float(c)));
#endif
}""",
    "faults": """
// The first thread whose data is refused says which check it was, from 1 on, and tells numbers.
DEVICE void tell_fault(
    long long *record, long long check, long long a, long long b, long long c, long long d) {
  unsigned long long *first = reinterpret_cast<unsigned long long *>(record);
  if (atomicCAS(first, 0ull, (unsigned long long)check) != 0ull) return;
  record[1] = a;
  record[2] = b;
  record[3] = c;
  record[4] = d;
}""",
    "asynchronous": """
#ifdef __CUDACC__
// Copies N bytes to shared memory while the thread goes on; without `is_there`, zeros.
template <int N> DEVICE void copy_async(void *to, const void *from, bool is_there = true) {
  unsigned place = (unsigned)__cvta_generic_to_shared(to), bytes = is_there ? N : 0;
  if (N == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N), "r"(bytes) : "memory");
}
// What was begun since the last call is a group; waits for all but the latest `pending` groups.
template <int pending> DEVICE void await_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
#endif""",
    "atomic": """
// Sets an element to what `update` makes of it, while no other thread touches it.
template <typename T, typename F> DEVICE void atomic_update(T *place, F update) {
  if (sizeof(T) == 8) {
    unsigned long long *whole = (unsigned long long *)place, seen = *whole, assumed;
    do {
      assumed = seen;
      T value;
      memcpy(&value, &assumed, sizeof(T));
      value = update(value);
      unsigned long long next = 0;
      memcpy(&next, &value, sizeof(T));
      seen = atomicCAS(whole, assumed, next);
    } while (seen != assumed);
    return;
  }
  // A narrow element is a part of a word of 4 bytes, whose other parts stay as they are.
  size_t address = (size_t)place, first = address & 3;
  unsigned *whole = (unsigned *)(address - first), seen = *whole, assumed;
  do {
    assumed = seen;
    T value;
    memcpy(&value, (char *)&assumed + first, sizeof(T));
    value = update(value);
    unsigned next = assumed;
    memcpy((char *)&next + first, &value, sizeof(T));
    seen = atomicCAS(whole, assumed, next);
  } while (seen != assumed);
}""",
    "matrix_units": """
#ifdef __CUDACC__
// Lane l gives row l % 8 of matrix l / 8 in shared memory, 16 bytes, and gets 4 bytes of row l / 4
// of each; or so of the transposed matrices of 16-bit elements.
"""
    + _MATRIX_LOADS
    + """// Adds the product of tiles that lie in the registers of a warp, as the PTX manual says.
"""
    + _MATRIX_PRODUCTS
    + """#endif""",
    "half_sums": """
// The sums of a row are neighbours in an array, from `upper` and from `lower` on: one register.
template <typename T> DEVICE void mma_f16(half &upper, half &lower, const T *left, const T *right) {
#ifdef __CUDACC__
  unsigned s, t, a[4], b[2];
  memcpy(&s, &upper, 4);
  memcpy(&t, &lower, 4);
  memcpy(a, left, sizeof a);
  memcpy(b, right, sizeof b);
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(s), "+r"(t)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  memcpy(&upper, &s, 4);
  memcpy(&lower, &t, 4);
#else
  half *const rows[2] = {&upper, &lower};
  float wide[4];
  for (int i = 0; i < 4; ++i) wide[i] = to_float(rows[i / 2][i % 2]);
  mma_f16(wide[0], wide[1], wide[2], wide[3], left, right);
  for (int i = 0; i < 4; ++i) rows[i / 2][i % 2] = to_half(wide[i]);
#endif
}""",
}
"""The text of each part, in the order in which they stand."""

WAITING_PARTS = frozenset(("shuffle", "exchange", "matrix_units", "half_sums"))
"""Those whose functions the threads of a warp call together."""


NAMES = frozenset(
    name for part in PARTS.values() for name in re.findall(r"DEVICE [^(;{]*?(\w+)\(", part)
)
"""The functions that are defined."""


def prelude(parts: Iterable[str]) -> str:
    """Return the text of the named parts: `lanes`, `wrap`, `floor_div`, `extremes` …"""
    wanted = set(parts)
    if "bfloat16" in wanted:
        wanted.add("specials")
    return "\n\n".join(_write_part(part) for name, part in PARTS.items() if name in wanted)


def _write_part(part: str) -> str:
    return part.replace("DEVICE", _DEVICE).lstrip("\n")
