// Runs the blocks of a launch one after another in random order, the threads of each as fibers,
// which are switched only where they wait.
#pragma once

#include "device.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

EMULATION_HIDDEN uint3 threadIdx, blockIdx;
EMULATION_HIDDEN dim3 blockDim, gridDim;
#include "order.h"
extern "C" EMULATION_HIDDEN char __start_ansorc_shared[], __stop_ansorc_shared[];

namespace emulation {
constexpr unsigned most_threads = 1024, most_warps = most_threads / warp_size;
constexpr size_t stack_bytes = 256 << 10, guard_bytes = 4 << 10;
enum Status { succeeded = 0, wrong = 1, no_memory = 2 };

static char failure[512];

// Where a fiber goes on.
#if defined(__x86_64__)
typedef void *Context;
asm(".text\n.p2align 4\n.type emulation_switch, @function\nemulation_switch:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n movq (%rsi), %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n"
    ".size emulation_switch, .-emulation_switch\n");
extern "C" EMULATION_HIDDEN void emulation_switch(Context *from, Context *to);
static void prepare(Context *fiber, char *stack, void (*entry)()) {
  void **top = (void **)(stack + stack_bytes) - 1;  // as after a call, the stack is off by 8
  *--top = (void *)entry;
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  *fiber = top;
}
#else
typedef ucontext_t Context;
static void emulation_switch(Context *from, Context *to) { swapcontext(from, to); }
static void prepare(Context *fiber, char *stack, void (*entry)()) {
  getcontext(fiber);
  fiber->uc_stack.ss_sp = stack;
  fiber->uc_stack.ss_size = stack_bytes;
  fiber->uc_link = nullptr;
  makecontext(fiber, entry, 0);
}
#endif

enum State { ready, at_barrier, in_warp, ended };
struct Fiber {
  Context context;
  State state;
  int line;
  unsigned mask;
  unsigned shuffles;
  uint3 index;
};
static Fiber fibers[most_threads];
static Context scheduler;
static char *stacks;
static unsigned mapped, current, threads, waiting;
static bool is_failed, has_fibers;
static int barrier_line;
alignas(16) static char slots[most_warps][3][warp_size * slot_bytes];
static void (*body_function)(void *);
static void *body;

EMULATION_HIDDEN unsigned thread_of_block() { return current; }
EMULATION_HIDDEN unsigned threads_of_block() { return threads; }
EMULATION_HIDDEN char *warp_slots(unsigned mask) {
  unsigned turn = mask == whole_warp ? fibers[current].shuffles++ & 1 : 2;
  return slots[current / warp_size][turn];
}

static void leave() {
  emulation_switch(&fibers[current].context, &scheduler);
  asm volatile("" ::: "memory");
}

static void say(int line, const char *words, unsigned thread) {
  if (is_failed) return;
  is_failed = true;
  const Fiber &fiber = fibers[thread];
  snprintf(failure, sizeof failure, "line %d: %s (thread %u, %u, %u of block %u, %u, %u)", line,
           words, fiber.index.x, fiber.index.y, fiber.index.z, blockIdx.x, blockIdx.y, blockIdx.z);
}

EMULATION_HIDDEN void fail(int line, const char *words) {
  say(line, words, current);
  if (has_fibers) leave();
}

EMULATION_HIDDEN void wait_for_block(int line) {
  if (!has_fibers) {
    if (threads > 1) fail(line, "a barrier where none was expected");
    return;
  }
  if (waiting == 0) barrier_line = line;
  if (line != barrier_line) fail(line, "a barrier while other threads wait at another one");
  ++waiting;
  fibers[current].state = at_barrier;
  leave();
}

EMULATION_HIDDEN void wait_for_warp(unsigned mask, int line) {
  if (!has_fibers) {
    if (threads > 1) fail(line, "a shuffle where none was expected");
    return;
  }
  Fiber &own = fibers[current];
  unsigned first = current - lane();
  if (!(mask >> lane() & 1)) fail(line, "a lane waits for a warp whose mask does not name it");
  own.state = in_warp, own.line = line, own.mask = mask;
  bool is_complete = true;
  for (unsigned other = 0; other < warp_size && first + other < threads; ++other) {
    const Fiber &fiber = fibers[first + other];
    if (!(mask >> other & 1)) continue;
    if (fiber.state == ended) fail(line, "a warp waits for a lane that has ended");
    bool waits_too = fiber.state == in_warp && fiber.line == line && fiber.mask == mask;
    is_complete = is_complete && waits_too;
  }
  if (!is_complete) return leave();
  for (unsigned other = 0; other < warp_size && first + other < threads; ++other)
    if (mask >> other & 1) fibers[first + other].state = ready;
}

static void run_fiber() {
  body_function(body);
  fibers[current].state = ended;
  leave();
}

static bool map_stacks() {
  if (threads <= mapped) return true;
  size_t each = stack_bytes + guard_bytes;
  if (stacks) munmap(stacks, mapped * each);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  stacks = (char *)mmap(nullptr, threads * each, PROT_READ | PROT_WRITE, flags, -1, 0);
  mapped = 0;
  if (stacks == MAP_FAILED) return stacks = nullptr, false;
  for (unsigned thread = 0; thread < threads; ++thread)
    mprotect(stacks + thread * each, guard_bytes, PROT_NONE);
  mapped = threads;
  return true;
}

__attribute__((destructor)) static void unmap_stacks() {
  if (stacks) munmap(stacks, mapped * (stack_bytes + guard_bytes));
}

// Runs the lanes of a warp until each waits or has ended; returns whether any ran.
static bool run_warp(unsigned warp) {
  unsigned first = warp * warp_size;
  unsigned end = first + warp_size < threads ? first + warp_size : threads;
  bool is_backwards = random_number() >> 32 & 1, has_run = false, has_ready = true;
  while (has_ready && !is_failed) {
    has_ready = false;
    for (unsigned step = 0; step < end - first && !is_failed; ++step) {
      current = is_backwards ? end - 1 - step : first + step;
      if (fibers[current].state != ready) continue;
      threadIdx = fibers[current].index;
      emulation_switch(&scheduler, &fibers[current].context);
      asm volatile("" ::: "memory");
      has_ready = has_run = true;
    }
  }
  return has_run;
}

static void explain_standstill() {
  unsigned stuck = 0;
  for (unsigned thread = 0; thread < threads; ++thread) {
    if (fibers[thread].state == in_warp)
      return say(fibers[thread].line, "a warp waits for lanes that do not come", thread);
    if (fibers[thread].state == at_barrier) stuck = thread;
  }
  say(barrier_line, "a barrier that not all threads of the block reach", stuck);
}

static void run_block_of_fibers() {
  for (unsigned thread = 0; thread < threads; ++thread) {
    Fiber &fiber = fibers[thread];
    fiber.state = ready, fiber.shuffles = 0;
    char *stack = stacks + thread * (stack_bytes + guard_bytes) + guard_bytes;
    prepare(&fiber.context, stack, run_fiber);
  }
  waiting = 0;
  unsigned warps = (threads + warp_size - 1) / warp_size;
  while (!is_failed) {
    bool has_run = false;
    unsigned first = random_number() % warps;
    for (unsigned warp = 0; warp < warps && !is_failed; ++warp)
      has_run |= run_warp((first + warp) % warps);
    if (is_failed) return;
    if (waiting == threads) {
      for (unsigned thread = 0; thread < threads; ++thread) fibers[thread].state = ready;
      waiting = 0;
    } else if (!has_run) {
      bool is_over = waiting == 0;
      for (unsigned thread = 0; thread < threads && is_over; ++thread)
        is_over = fibers[thread].state == ended;
      if (is_over) return;
      explain_standstill();
    }
  }
}

static void run_block_of_loops() {
  for (current = 0; current < threads; ++current) {
    threadIdx = fibers[current].index;
    body_function(body);
  }
}

// Runs `kernel` once for each thread; `waits`: whether it may wait for others.
template <typename Kernel> Status launch(dim3 grid, dim3 block, bool waits, Kernel kernel) {
  gridDim = grid, blockDim = block;
  threads = block.x * block.y * block.z;
  has_fibers = waits && threads > 1;
  if (has_fibers && !map_stacks()) return no_memory;
  body = &kernel;
  body_function = [](void *held) { (*(Kernel *)held)(); };
  for (unsigned thread = 0; thread < threads; ++thread) {
    uint3 &index = fibers[thread].index;
    index.x = thread % block.x;
    index.y = thread / block.x % block.y;
    index.z = thread / block.x / block.y;
  }
  for (BlockOrder order(grid); !is_failed && order.next();) {
    __builtin_memset(__start_ansorc_shared, 0xff, __stop_ansorc_shared - __start_ansorc_shared);
    has_fibers ? run_block_of_fibers() : run_block_of_loops();
  }
  return is_failed ? wrong : succeeded;
}

// Tells how long ago it was asked last, in seconds.
class Clock {
 public:
  double lap() {
    double before = last;
    last = now();
    return last - before;
  }

 private:
  static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  }
  double last = now();
};

// An array, of whatever type the kernel takes.
struct Argument {
  void *place;
  template <typename T> operator T *() const { return (T *)place; }
};
}  // namespace emulation

extern "C" __attribute__((visibility("default"))) const char *ansorc_emulation_failure() {
  return emulation::failure;
}
// So that there is such a section, and one place in it.
__attribute__((used, section("ansorc_shared"))) static char ansorc_shared_byte[16];
