// Runs the blocks of a launch one after another in random order, the threads of each as threads of
// the system, for the sanitizers: they see what runs side by side between two barriers.
#pragma once

#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static thread_local uint3 threadIdx;
EMULATION_HIDDEN uint3 blockIdx;
EMULATION_HIDDEN dim3 blockDim, gridDim;
#include "order.h"

namespace emulation {
constexpr unsigned most_threads = 1024, most_warps = most_threads / warp_size;
enum Status { succeeded = 0, wrong = 1, no_memory = 2 };

// Those that wait for each other: a block, or the lanes of a warp that a mask names. A mutex orders
// what threads did before it for ThreadSanitizer, so no two meetings share one: those of different
// warps are not ordered, nor is one who has not left a meeting yet by one who is at the next.
struct Meeting {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  unsigned arrived = 0, round = 0;
  int line = 0;
  unsigned mask = 0;
};
constexpr unsigned of_some_lanes = 2;
static Meeting block_meetings[2], warp_meetings[most_warps][3];
static unsigned threads, alive, alive_of_warp[most_warps];
static thread_local unsigned current, shuffles, block_rounds, warp_rounds;

// What is only asked for: a relaxed order orders nothing else.
static unsigned value_of(const unsigned &number) { return __atomic_load_n(&number, __ATOMIC_RELAXED); }
static unsigned one_more(unsigned &number) { return __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED); }
static void one_less(unsigned &number) { __atomic_sub_fetch(&number, 1, __ATOMIC_RELAXED); }
alignas(16) static char slots[most_warps][3][warp_size * slot_bytes];
static void (*body_function)(void *);
static void *body;
static uint64_t blocks_left;

EMULATION_HIDDEN unsigned thread_of_block() { return current; }
EMULATION_HIDDEN unsigned threads_of_block() { return threads; }
EMULATION_HIDDEN char *warp_slots(unsigned mask) {
  return slots[current / warp_size][mask == whole_warp ? shuffles++ & 1 : 2];
}

EMULATION_HIDDEN void fail(int line, const char *words) {
  fprintf(stderr, "EMULATION: line %d: %s (thread %u, %u, %u of block %u, %u, %u)\n", line, words,
          threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z);
  fflush(stderr);
  _Exit(70);
}

// Who arrives counts itself and then looks who has ended; who ends does the same the other way round.
static void meet(Meeting &meeting, unsigned expected, unsigned mask, int line, bool is_complete()) {
  pthread_mutex_lock(&meeting.mutex);
  if (meeting.arrived == 0) meeting.line = line, meeting.mask = mask;
  if (meeting.line != line || meeting.mask != mask)
    fail(line, "a barrier while other threads wait at another one");
  unsigned round = meeting.round;
  if (one_more(meeting.arrived) == expected) {
    __atomic_store_n(&meeting.arrived, 0, __ATOMIC_RELAXED);
    ++meeting.round;
    pthread_cond_broadcast(&meeting.changed);
  } else if (!is_complete()) {
    fail(line, mask ? "a warp waits for a lane that has ended"
                    : "a barrier that not all threads of the block reach");
  }
  while (meeting.round == round) pthread_cond_wait(&meeting.changed, &meeting.mutex);
  pthread_mutex_unlock(&meeting.mutex);
}

EMULATION_HIDDEN void wait_for_block(int line) {
  auto has_all = [] { return value_of(alive) == threads; };
  meet(block_meetings[block_rounds++ & 1], threads, 0, line, has_all);
}

static unsigned lanes_of_warp() {
  unsigned left = threads - current / warp_size * warp_size;
  return left < warp_size ? left : warp_size;
}

EMULATION_HIDDEN void wait_for_warp(unsigned mask, int line) {
  unsigned all = whole_warp >> (warp_size - lanes_of_warp()), there = mask & all;
  Meeting *meetings = warp_meetings[current / warp_size];
  unsigned own = there == all ? warp_rounds++ & 1 : of_some_lanes;
  for (unsigned other = 0; other <= of_some_lanes; ++other)
    if ((other == of_some_lanes) != (own == of_some_lanes) && value_of(meetings[other].arrived))
      fail(line, "a barrier while other threads wait at another one");
  auto has_all = [] { return value_of(alive_of_warp[current / warp_size]) == lanes_of_warp(); };
  auto has_some = [] { return true; };
  meet(meetings[own], __builtin_popcount(there), mask, line, there == all ? +has_all : +has_some);
}

// The end of a thread: whoever still waits for it would wait for ever.
static void end_thread() {
  one_less(alive);
  one_less(alive_of_warp[current / warp_size]);
  Meeting *meetings[] = {&block_meetings[block_rounds & 1],
                         &warp_meetings[current / warp_size][warp_rounds & 1]};
  const char *words[] = {"a barrier that not all threads of the block reach",
                         "a warp waits for lanes that do not come"};
  for (unsigned each = 0; each < 2; ++each) {
    if (!value_of(meetings[each]->arrived)) continue;
    pthread_mutex_lock(&meetings[each]->mutex);
    fail(meetings[each]->line, words[each]);
  }
}

static void *run_thread(void *number) {
  current = (unsigned)(uintptr_t)number;
  shuffles = block_rounds = warp_rounds = 0;
  threadIdx.x = current % blockDim.x;
  threadIdx.y = current / blockDim.x % blockDim.y;
  threadIdx.z = current / blockDim.x / blockDim.y;
  body_function(body);
  end_thread();
  return nullptr;
}

static bool run_block() {
  static pthread_t handles[most_threads];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  alive = threads;
  for (unsigned warp = 0; warp < most_warps; ++warp) {
    unsigned first = warp * warp_size, left = first < threads ? threads - first : 0;
    alive_of_warp[warp] = left < warp_size ? left : warp_size;
  }
  unsigned made = 0;
  for (; made < threads; ++made)
    if (pthread_create(&handles[made], &attributes, run_thread, (void *)(uintptr_t)made)) break;
  if (made < threads) return false;
  for (unsigned thread = 0; thread < threads; ++thread) pthread_join(handles[thread], nullptr);
  return true;
}

template <typename Kernel> Status launch(dim3 grid, dim3 block, bool, Kernel kernel) {
  gridDim = grid, blockDim = block;
  threads = block.x * block.y * block.z;
  body = &kernel;
  body_function = [](void *held) { (*(Kernel *)held)(); };
  BlockOrder order(grid);
  for (uint64_t number = 0; number < blocks_left && order.next(); ++number)
    if (!run_block()) return no_memory;
  return succeeded;
}

struct Argument {
  void *place;
  template <typename T> operator T *() const { return (T *)place; }
};

static int run(uint64_t seed);

// Reads the parameters of `sizes` bytes from a file, runs the program, writes them to another.
static int run_on_files(char **words, const size_t *sizes, void **places, size_t count) {
  FILE *file = fopen(words[1], "rb");
  for (size_t number = 0; number < count; ++number) {
    places[number] = malloc(sizes[number]);
    if (!file || !places[number] || fread(places[number], 1, sizes[number], file) != sizes[number])
      return no_memory;
  }
  fclose(file);
  set_seed(strtoull(words[3], nullptr, 10));
  blocks_left = strtoull(words[4], nullptr, 10);
  int status = run(0);
  file = fopen(words[2], "wb");
  for (size_t number = 0; number < count; ++number) {
    if (!file || fwrite(places[number], 1, sizes[number], file) != sizes[number]) return no_memory;
    free(places[number]);
  }
  fclose(file);
  return status;
}
}  // namespace emulation
