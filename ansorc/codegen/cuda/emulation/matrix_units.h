// What the matrix units of a GPU do with the registers of a warp, lane by lane.
//
// A is 16 rows of 8 P elements, B 8 columns of as many, P elements to a register: lane l has of A in
// register i row l/4 + 8 (i%2), elements l%4 P + 4 P (i/2) on; of B in register i column l/4, elements
// l%4 P + 4 P i on; of the sums in register i row l/4 + 8 (i/2), column l%4 2 + i%2.
#pragma once

namespace emulation {
template <int bytes> void give(const void *value, char **slots, int line) {
  *slots = warp_slots(whole_warp);
  __builtin_memcpy(*slots + lane() * slot_bytes, value, bytes);
  wait_for_warp(whole_warp, line);
}

// Adds the products of P elements of two registers to `sum`.
struct Halves {
  static void add(double &sum, unsigned a, unsigned b) {
    for (int at = 0; at < 32; at += 16)
      sum += (double)to_float(half{(unsigned short)(a >> at)}) * to_float(half{(unsigned short)(b >> at)});
  }
};
struct Bfloats {
  static void add(double &sum, unsigned a, unsigned b) {
    for (int at = 0; at < 32; at += 16)
      sum += (double)__uint_as_float(a >> at << 16) * __uint_as_float(b >> at << 16);
  }
};
struct Tfloats {  // the lowest 13 bits are not looked at
  static void add(double &sum, unsigned a, unsigned b) {
    sum += (double)__uint_as_float(a & ~0x1fffu) * __uint_as_float(b & ~0x1fffu);
  }
};
struct Bytes {
  static void add(int &sum, unsigned a, unsigned b) {
    for (int at = 0; at < 32; at += 8) sum += (signed char)(a >> at) * (signed char)(b >> at);
  }
};

template <typename Kind, typename Wide, typename T>
void multiply_add(T *sums, const void *a, const void *b, int line) {
  unsigned row[2][4][2], column[2];  // of the rows the upper or lower 8, lane % 4, of k the half
  char *slots;
  give<16>(a, &slots, line);
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned from = 0; from < 4; ++from)
      __builtin_memcpy(&row[i % 2][from][i / 2], slots + (lane() / 4 * 4 + from) * slot_bytes + 4 * i, 4);
  Wide found[4] = {(Wide)sums[0], (Wide)sums[1], (Wide)sums[2], (Wide)sums[3]};
  give<8>(b, &slots, line);
  for (unsigned odd = 0; odd < 2; ++odd)
    for (unsigned from = 0; from < 4; ++from) {
      __builtin_memcpy(column, slots + ((lane() % 4 * 2 + odd) * 4 + from) * slot_bytes, 8);
      for (unsigned lower = 0; lower < 2; ++lower)
        for (unsigned i = 0; i < 2; ++i) Kind::add(found[2 * lower + odd], row[lower][from][i], column[i]);
    }
  for (unsigned i = 0; i < 4; ++i) sums[i] = (T)found[i];
}
}  // namespace emulation

// Lane l gives row l % 8 of matrix l / 8, 16 bytes, and gets 4 bytes of row l / 4 of each. It reads
// its row before it meets the others, which does not order what they stored before.
template <typename T>
void load_matrices(T *to, const void *row, int line = __builtin_LINE()) {
  if ((uintptr_t)row % 16) emulation::fail(line, "a row of a matrix at a misaligned address");
  char *slots;
  emulation::give<16>(row, &slots, line);
  unsigned lane = emulation::lane();
  for (unsigned i = 0; i < 4; ++i)
    __builtin_memcpy((char *)to + 4 * i, slots + (8 * i + lane / 4) * emulation::slot_bytes + lane % 4 * 4, 4);
}

// The same, of the transposed matrices of 16-bit elements.
template <typename T>
void load_matrices_transposed(T *to, const void *row, int line = __builtin_LINE()) {
  if ((uintptr_t)row % 16) emulation::fail(line, "a row of a matrix at a misaligned address");
  char *slots;
  emulation::give<16>(row, &slots, line);
  unsigned lane = emulation::lane();
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short pair[2];
    for (unsigned odd = 0; odd < 2; ++odd)
      __builtin_memcpy(&pair[odd], slots + (8 * i + lane % 4 * 2 + odd) * emulation::slot_bytes + lane / 4 * 2, 2);
    __builtin_memcpy((char *)to + 4 * i, pair, sizeof pair);
  }
}

#define EMULATION_MMA(name, kind, wide, type)                                                      \
  template <typename T>                                                                            \
  void name(type &s0, type &s1, type &s2, type &s3, const T *left, const T *right,                 \
            int line = __builtin_LINE()) {                                                         \
    type sums[4] = {s0, s1, s2, s3};                                                               \
    emulation::multiply_add<emulation::kind, wide>(sums, left, right, line);                       \
    s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];                                        \
  }
EMULATION_MMA(mma_f16, Halves, double, float)
EMULATION_MMA(mma_bf16, Bfloats, double, float)
EMULATION_MMA(mma_tf32, Tfloats, double, float)
EMULATION_MMA(mma_s8, Bytes, int, int)
#undef EMULATION_MMA
