// Dynamic sharing of a loop: threads take its chunks from one counter, as they become free.
#pragma once

#include <stdint.h>

#include <atomic>

#include "ansorc/runtime.h"

namespace ansorc {

// One call of ansorc_parallel_for_dynamic. It is an ordinary loop over the threads that may take part,
// so a pool of another library, maybe an older one, serves it as well.
struct Chunks {
  ansorc_body body;
  void* closure;
  int64_t extent;
  int64_t chunk;
  int64_t count;
  alignas(64) std::atomic<int64_t> next;  // a cache line of its own, for all threads add to it
};

// Run chunks until all are taken. However many threads take part, and however late, each chunk runs
// once: a part that begins when all are taken does nothing.
static void take_chunks(void* closure, int64_t, int64_t) {
  Chunks& all = *static_cast<Chunks*>(closure);
  for (;;) {
    const int64_t chunk = all.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= all.count) return;
    const int64_t begin = chunk * all.chunk, left = all.extent - begin;
    all.body(all.closure, begin, begin + (left < all.chunk ? left : all.chunk));
  }
}

// How many chunks for each thread a loop is cut into whose threads begin at times of their own.
constexpr int64_t kChunksEach = 4;

// Return the chunks of a loop that begins before its `threads` are awake: who is there goes on with
// what a sleeper has not begun.
static Chunks chunks_for_sleepers(ansorc_body body, void* closure, int64_t extent, int64_t threads) {
  const int64_t wanted = threads * kChunksEach, chunk = (extent + wanted - 1) / wanted;
  return {body, closure, extent, chunk, (extent + chunk - 1) / chunk, {0}};
}

}  // namespace ansorc
