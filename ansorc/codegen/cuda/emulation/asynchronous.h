// Asynchronous copies. Each is done as late as it may be, so that a text that waits for too few of
// them computes with what lay there before.
#pragma once

namespace emulation {
struct Copy {
  void *to;
  const void *from;
  unsigned bytes, group;
  bool is_there;
};
struct Copies {
  Copy *begun;
  unsigned count, room, group;
};
static Copies copies_of_thread[1024];
}  // namespace emulation

template <int N>
void copy_async(void *to, const void *from, bool is_there = true, int line = __builtin_LINE()) {
  static_assert(N == 4 || N == 8 || N == 16, "no instruction copies as many bytes");
  if ((uintptr_t)to % N || (is_there && (uintptr_t)from % N))
    emulation::fail(line, "an asynchronous copy at a misaligned address");
  emulation::Copies &own = emulation::copies_of_thread[emulation::thread_of_block()];
  if (own.count == own.room) {
    own.room = own.room ? 2 * own.room : 16;
    own.begun = (emulation::Copy *)__builtin_realloc(own.begun, own.room * sizeof *own.begun);
  }
  own.begun[own.count++] = {to, from, N, own.group, is_there};
}

template <int pending> void await_copies() {
  emulation::Copies &own = emulation::copies_of_thread[emulation::thread_of_block()];
  ++own.group;
  unsigned left = 0;
  for (unsigned number = 0; number < own.count; ++number) {
    const emulation::Copy &copy = own.begun[number];
    if (own.group - copy.group <= pending)
      own.begun[left++] = copy;
    else if (copy.is_there)
      __builtin_memcpy(copy.to, copy.from, copy.bytes);
    else
      __builtin_memset(copy.to, 0, copy.bytes);
  }
  own.count = left;
}
