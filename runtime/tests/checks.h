// What the tests of the runtime share: each check prints one line, and failed ones are counted.
#pragma once

#include <stdio.h>

namespace {

// The thread sanitizer has a thread of its own, and takes much stack.
#ifdef __SANITIZE_THREAD__
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

int failures = 0;

void check(bool holds, const char* what) {
  printf("%s: %s\n", holds ? "ok" : "FAILED", what);
  fflush(stdout);  // else a child of fork prints it again
  if (!holds) ++failures;
}

}  // namespace
