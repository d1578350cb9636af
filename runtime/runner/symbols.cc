// The functions that object code may call; whatever else it calls makes it refused, by name.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "ansorc/runtime.h"
#include "elf_image.h"

// Of libgcc, with types that do not matter here.
#define HELPER(name) extern "C" void name();

#if defined(__x86_64__)
#define MACHINE_HELPERS(USE) USE(__extendhfsf2) USE(__truncsfhf2) USE(__truncdfhf2)
#elif defined(__arm__)
#define MACHINE_HELPERS(USE)                                                                     \
  USE(__gnu_h2f_ieee) USE(__gnu_f2h_ieee)                                                        \
  USE(__aeabi_idiv) USE(__aeabi_uidiv) USE(__aeabi_idivmod) USE(__aeabi_uidivmod)                \
  USE(__aeabi_ldivmod) USE(__aeabi_uldivmod) USE(__aeabi_lmul) USE(__aeabi_llsl)                 \
  USE(__aeabi_llsr) USE(__aeabi_lasr) USE(__aeabi_l2f) USE(__aeabi_ul2f) USE(__aeabi_l2d)        \
  USE(__aeabi_ul2d) USE(__aeabi_f2lz) USE(__aeabi_f2ulz) USE(__aeabi_d2lz) USE(__aeabi_d2ulz)    \
  USE(__aeabi_memcpy) USE(__aeabi_memcpy4) USE(__aeabi_memcpy8) USE(__aeabi_memset)              \
  USE(__aeabi_memset4) USE(__aeabi_memset8) USE(__aeabi_memclr) USE(__aeabi_memclr4)             \
  USE(__aeabi_memclr8) USE(__aeabi_memmove)
#else
#define MACHINE_HELPERS(USE)
#endif
MACHINE_HELPERS(HELPER)

namespace ansorc {
namespace {

struct Symbol {
  const char* name;
  void* address;
};

template <class Result, class... Arguments>
constexpr auto address_of(Result (*function)(Arguments...)) {
  return reinterpret_cast<void*>(function);
}

#define USE(name) {#name, address_of(name)},
// Overloaded by <math.h> of C++: these are the ones of C.
#define REAL(name) {#name, address_of(static_cast<double (*)(double)>(name))},
const Symbol kSymbols[] = {
    USE(ansorc_parallel_for) USE(ansorc_parallel_for_dynamic) USE(ansorc_num_threads)
    USE(ansorc_team_begin) USE(ansorc_team_end)
    USE(aligned_alloc) USE(malloc) USE(free) USE(getauxval)
    USE(memcpy) USE(memset) USE(memmove)
    USE(sinf) USE(cosf) USE(fmaf) USE(floorf) USE(ceilf) USE(truncf) USE(rintf) USE(nearbyintf)
    USE(roundf) USE(roundevenf) USE(roundeven)
    REAL(sin) REAL(cos) REAL(floor) REAL(ceil) REAL(trunc) REAL(rint) REAL(nearbyint) REAL(round)
    MACHINE_HELPERS(USE)
    {"fma", address_of(static_cast<double (*)(double, double, double)>(fma))},
};
#undef USE
#undef REAL

}  // namespace

void* find_symbol(const char* name) {
  for (const Symbol& one : kSymbols) {
    if (strcmp(one.name, name) == 0) return one.address;
  }
  return nullptr;
}

}  // namespace ansorc
