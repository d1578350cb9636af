// Arrays that notice a kernel which writes where it must not, and what is put into them.
//
//   | no access | pattern | array …………………… | pattern (< 64 B) | no access |
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ansorc {

constexpr size_t kAlignment = 64;  // of a cache line, and of the widest vectors

class GuardedArray {
 public:
  bool allocate(size_t bytes);  // false if there is no memory
  void release();
  uint8_t* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }
  void freeze() const;  // from here on writing to it is a signal
  bool is_intact() const;

 private:
  uint8_t* map_ = nullptr;
  uint8_t* begin_ = nullptr;
  size_t bytes_ = 0, inner_ = 0;
};

size_t page_bytes();
size_t round_up(size_t value, size_t multiple);

// Draws: what element `i` holds follows from splitmix64(seed + (i + 1) * 0x9E3779B97F4A7C15) = x.
enum class Draw : uint32_t {
  kSigned = 0,    // floats: the leading m bits of x as a fraction u in [0, 1), then 2 u - 1
  kPositive = 1,  // floats: (1 + u) / 2, of m - 1 bits
  kInt = 2,       // x mod 9 - 4
  kUint = 3,      // x mod 5
  kBool = 4,      // x mod 2
};
enum class Element : uint32_t { kFloat16, kBfloat16, kFloat32, kFloat64, kInteger };  // m: 11 8 24 53

// Fills an array with elements of `size` bytes; false for an element that there is not.
bool draw(const GuardedArray& array, uint64_t seed, Draw how, Element element, uint32_t size);

constexpr size_t kMostDimensions = 32;

// A constant in the order in which a kernel reads it: the element at (d_0, d_1, …) is that of the
// source whose index along dimension n is offsets[n] + the sum of d_p * stride over its parts, or 0.
struct Packing {
  uint32_t dimensions, parts;
  int64_t extents[kMostDimensions], offsets[kMostDimensions];
  struct Part {
    uint32_t dimension;
    int64_t stride, extent;
  } part[kMostDimensions];
};

// Fills `packed`; false for a packing that does not fit both arrays.
bool pack(const GuardedArray& source, const GuardedArray& packed, uint32_t size, const Packing& packing);

// 128 bits that tell arrays apart: equal arrays have equal ones, others by accident only.
void digest(const uint8_t* data, size_t bytes, uint64_t found[2]);

}  // namespace ansorc
