#include "arrays.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ansorc {
namespace {

constexpr uint8_t kPattern = 0xA5;
constexpr size_t kHugeBytes = 4 << 20;

uint64_t mixed(uint64_t x) {  // splitmix64 (Steele, Lea, Flood: Fast splittable generators, 2014)
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

double real(uint64_t x, Draw how, int bits) {
  if (how == Draw::kPositive) --bits;
  const double u = static_cast<double>(x >> (64 - bits)) / static_cast<double>(uint64_t{1} << bits);
  return how == Draw::kPositive ? (1.0 + u) / 2.0 : 2.0 * u - 1.0;
}

uint32_t float32_bits(double value) {
  const auto single = static_cast<float>(value);  // exact
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return bits;
}

uint16_t float16_bits(double value) {  // exact: no exponent below -10, 11 significant bits
  const uint32_t bits = float32_bits(value);
  if ((bits & 0x7FFFFFFF) == 0) return 0;
  const uint32_t exponent = (bits >> 23 & 255) - 127 + 15;
  return static_cast<uint16_t>((bits >> 31) << 15 | exponent << 10 | (bits >> 13 & 0x3FF));
}

template <class Value>
void put(uint8_t* at, Value value) {
  memcpy(at, &value, sizeof value);
}

bool put_float(uint8_t* at, uint64_t x, Draw how, Element element) {
  switch (element) {
    case Element::kFloat16: put(at, float16_bits(real(x, how, 11))); return true;
    case Element::kBfloat16: put(at, static_cast<uint16_t>(float32_bits(real(x, how, 8)) >> 16)); return true;
    case Element::kFloat32: put(at, float32_bits(real(x, how, 24))); return true;
    case Element::kFloat64: put(at, real(x, how, 53)); return true;
    default: return false;
  }
}

bool put_integer(uint8_t* at, uint64_t x, Draw how, uint32_t size) {
  const int64_t value = how == Draw::kInt    ? static_cast<int64_t>(x % 9) - 4
                        : how == Draw::kUint ? static_cast<int64_t>(x % 5)
                                             : static_cast<int64_t>(x % 2);
  if (size != 1 && size != 2 && size != 4 && size != 8) return false;
  memcpy(at, &value, size);
  return true;
}

constexpr uint32_t kSizes[] = {2, 2, 4, 8};

}  // namespace

size_t page_bytes() {
  static const long size = sysconf(_SC_PAGESIZE);
  return static_cast<size_t>(size);
}

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool GuardedArray::allocate(size_t bytes) {
  const size_t page = page_bytes();
  if (bytes > SIZE_MAX / 4) return false;
  const size_t padded = round_up(bytes > 0 ? bytes : 1, kAlignment);
  inner_ = round_up(padded, page);
  void* map = mmap(nullptr, inner_ + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return false;
  if (inner_ >= kHugeBytes) madvise(map, inner_ + 2 * page, MADV_HUGEPAGE);
  map_ = static_cast<uint8_t*>(map);
  bytes_ = bytes;
  begin_ = map_ + page + inner_ - padded;
  memset(map_ + page, kPattern, static_cast<size_t>(begin_ - map_) - page);
  memset(begin_ + bytes, kPattern, padded - bytes);
  mprotect(map_, page, PROT_NONE);
  mprotect(map_ + page + inner_, page, PROT_NONE);
  return true;
}

void GuardedArray::release() {
  if (map_ != nullptr) munmap(map_, inner_ + 2 * page_bytes());
  map_ = begin_ = nullptr;
  bytes_ = inner_ = 0;
}

void GuardedArray::freeze() const { mprotect(map_ + page_bytes(), inner_, PROT_READ); }

bool GuardedArray::is_intact() const {
  const uint8_t* const end = map_ + page_bytes() + inner_;
  for (const uint8_t* at = map_ + page_bytes(); at < begin_; ++at) {
    if (*at != kPattern) return false;
  }
  for (const uint8_t* at = begin_ + bytes_; at < end; ++at) {
    if (*at != kPattern) return false;
  }
  return true;
}

bool draw(const GuardedArray& array, uint64_t seed, Draw how, Element element, uint32_t size) {
  const bool is_float = how == Draw::kSigned || how == Draw::kPositive;
  if (is_float && (element > Element::kFloat64 || kSizes[static_cast<int>(element)] != size)) return false;
  if (!is_float && (element != Element::kInteger || how > Draw::kBool)) return false;
  for (size_t at = 0, i = 1; at + size <= array.bytes() && size > 0; at += size, ++i) {
    const uint64_t x = mixed(seed + i * 0x9E3779B97F4A7C15u);
    const bool is_known = is_float ? put_float(array.begin() + at, x, how, element)
                                   : put_integer(array.begin() + at, x, how, size);
    if (!is_known) return false;
  }
  return true;
}

bool pack(const GuardedArray& source, const GuardedArray& packed, uint32_t size, const Packing& packing) {
  int64_t elements = 1, places = 1, digits[kMostDimensions] = {};
  for (uint32_t n = 0; n < packing.dimensions; ++n) {
    if (packing.extents[n] < 1 || __builtin_mul_overflow(elements, packing.extents[n], &elements)) return false;
  }
  for (uint32_t n = 0; n < packing.parts; ++n) {
    const Packing::Part& part = packing.part[n];
    if (part.dimension >= packing.dimensions || part.extent < 1) return false;
    if (__builtin_mul_overflow(places, part.extent, &places)) return false;
  }
  if (size < 1 || size > 16 || static_cast<uint64_t>(elements) != source.bytes() / size) return false;
  if (static_cast<uint64_t>(places) != packed.bytes() / size) return false;
  int64_t index[kMostDimensions];
  memcpy(index, packing.offsets, sizeof index);
  for (int64_t place = 0; place < places; ++place) {
    int64_t at = 0;
    bool is_inside = true;
    for (uint32_t n = 0; n < packing.dimensions; ++n) {
      is_inside = is_inside && index[n] >= 0 && index[n] < packing.extents[n];
      at = at * packing.extents[n] + index[n];
    }
    uint8_t* const to = packed.begin() + place * size;
    if (is_inside) {
      memcpy(to, source.begin() + at * size, size);
    } else {
      memset(to, 0, size);
    }
    for (uint32_t n = packing.parts; n-- > 0;) {
      const Packing::Part& part = packing.part[n];
      index[part.dimension] += part.stride;
      if (++digits[n] < part.extent) break;
      index[part.dimension] -= part.stride * part.extent;
      digits[n] = 0;
    }
  }
  return true;
}

void digest(const uint8_t* data, size_t bytes, uint64_t found[2]) {
  uint64_t first = 0x243F6A8885A308D3u ^ bytes, second = 0x13198A2E03707344u;
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
    first = (first ^ word) * 0x9E3779B97F4A7C15u;
    first ^= first >> 32;
    second = (second + word) * 0xC2B2AE3D27D4EB4Fu;
    second ^= second >> 29;
  }
  found[0] = mixed(first);
  found[1] = mixed(second ^ first);
}

}  // namespace ansorc
