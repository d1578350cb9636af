// Prints the CPU quota, in thousandths of a CPU, that the files below each directory state.
#include <stdio.h>

#include "../src/cores.h"

int main(int count, char** roots) {
  for (int i = 1; i < count; ++i) {
    const int64_t quota = ansorc::cpu_quota(roots[i]);
    if (quota == ansorc::kNoQuota) {
      printf("none\n");
    } else {
      printf("%lld\n", static_cast<long long>(quota));
    }
  }
}
