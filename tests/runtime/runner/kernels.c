/* What a kernel may do right and wrong: each function has one input and one output of SIZE bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int32_t copy(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  (void)workspace, (void)threads;
  for (size_t n = 0; n < SIZE; ++n) out[n] = in[n];
  return 0;
}

/* The workspace is its caller's and has 100 bytes. */
int32_t works(const unsigned char *in, unsigned char *out, unsigned char *workspace, int32_t threads) {
  if (threads != 2 || (uintptr_t)workspace % 64 != 0) return 9;
  for (size_t n = 0; n < 100; ++n) workspace[n] = 1;
  return copy(in, out, workspace, threads);
}

static volatile int zero;

int32_t crash(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  (void)in, (void)out, (void)workspace, (void)threads;
  return *(volatile int *)(uintptr_t)(8 + zero);
}

int32_t hang(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  (void)in, (void)out, (void)workspace, (void)threads;
  while (!zero) {
  }
  return 0;
}

int32_t before(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  out[-1 - zero] = 1;
  return copy(in, out, workspace, threads);
}

int32_t after(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  out[SIZE + zero] = 1;
  return copy(in, out, workspace, threads);
}

int32_t far_after(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  out[(SIZE + 64 + zero) / 64 * 64] = 1;
  return copy(in, out, workspace, threads);
}

int32_t to_input(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  ((unsigned char *)in)[zero] = 1;
  return copy(in, out, workspace, threads);
}

int32_t beyond_workspace(const unsigned char *in, unsigned char *out, unsigned char *workspace, int32_t threads) {
  workspace[100 + zero] = 1;
  return copy(in, out, workspace, threads);
}

int32_t fails(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  (void)in, (void)out, (void)workspace, (void)threads;
  return 7;
}

#ifdef UNKNOWN
extern int32_t unheard_of(void);
int32_t calls(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  (void)in, (void)out, (void)workspace, (void)threads;
  return unheard_of();
}
#endif

#ifdef THREAD_LOCAL
extern __thread int32_t own;
int32_t reads(const unsigned char *in, unsigned char *out, void *workspace, int32_t threads) {
  (void)in, (void)out, (void)workspace, (void)threads;
  return own;
}
#endif
