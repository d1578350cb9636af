// The random order in which the blocks of a launch run one after another.
#pragma once

namespace emulation {
static uint64_t random_state, order_state;
static bool is_reversed;

inline uint64_t next_number(uint64_t &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}
inline uint64_t random_number() { return next_number(random_state); }

// Seeds 2 n and 2 n + 1 give orders that are each other's reverse: of two blocks that store to one
// element each is the last once.
inline void set_seed(uint64_t seed) {
  random_state = order_state = (seed / 2 + 1) * 0x9e3779b97f4a7c15ull | 1;
  is_reversed = seed % 2;
}

inline uint64_t greatest_divisor(uint64_t a, uint64_t b) {
  return b == 0 ? a : greatest_divisor(b, a % b);
}

// All blocks of a grid, each once.
struct BlockOrder {
  dim3 grid;
  uint64_t blocks, place, stride, done = 0;
  explicit BlockOrder(dim3 grid) : grid(grid), blocks((uint64_t)grid.x * grid.y * grid.z) {
    place = next_number(order_state) % blocks, stride = next_number(order_state) % blocks | 1;
    while (greatest_divisor(blocks, stride) != 1) stride = (stride + 1) % blocks;
    if (is_reversed) place = (place + blocks - stride) % blocks, stride = blocks - stride;
  }
  // Makes the next one `blockIdx`; false after the last.
  bool next() {
    if (done++ == blocks) return false;
    blockIdx.x = place % grid.x;
    blockIdx.y = place / grid.x % grid.y;
    blockIdx.z = place / grid.x / grid.y;
    place = (place + stride) % blocks;
    return true;
  }
};
}  // namespace emulation
