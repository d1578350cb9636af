// Wait for an atomic word to change: spin a little, then sleep until another thread wakes it.
#pragma once

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include <atomic>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ansorc {

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free, "a futex is a plain 32-bit word");

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // yield is a no-op on most cores, isb gives the other one room
#endif
}

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

// Spin until `done()` or for `limit_ns`; the clock is read only every 32 rounds.
template <typename Done>
bool spin_until(int64_t limit_ns, Done done) {
  if (done()) return true;
  if (limit_ns <= 0) return false;
  const int64_t limit = now_ns() + limit_ns;
  do {
    for (int round = 0; round < 32; ++round) {
      pause();
      if (done()) return true;
    }
  } while (now_ns() < limit);
  return false;
}

#ifdef __linux__

// Sleep while `word` is `value`; may return early.
inline void sleep_while(Word& word, uint32_t value) {
  const int saved = errno;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
  errno = saved;
}

// Wake all threads that sleep on `word`, which may no longer exist: only its address is used.
inline void wake(Word& word) {
  const int saved = errno;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

#else

// Without futexes all words share one lock and one condition.
struct Park {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
};
inline Park park;

inline void sleep_while(Word& word, uint32_t value) {
  pthread_mutex_lock(&park.mutex);
  if (word.load() == value) pthread_cond_wait(&park.changed, &park.mutex);
  pthread_mutex_unlock(&park.mutex);
}

inline void wake(Word&) {
  pthread_mutex_lock(&park.mutex);
  pthread_cond_broadcast(&park.changed);
  pthread_mutex_unlock(&park.mutex);
}

#endif

}  // namespace ansorc
