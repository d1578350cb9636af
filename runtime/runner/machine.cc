#include "machine.h"

#include <ctype.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <initializer_list>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "ansorc/runtime.h"
#include "arrays.h"
#include "frames.h"
#include "timing.h"

namespace ansorc {
namespace {

#if defined(__x86_64__)
constexpr const char* kArchitecture = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kArchitecture = "aarch64";
#else
constexpr const char* kArchitecture = "armv7";
#endif
constexpr int kProbes = 60;
constexpr int64_t kProbeSteps = 10000;

class Lines {
 public:
  Lines(char* text, size_t size) : text_(text), size_(size) {}
  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    const int count = vsnprintf(text_ + used_, size_ - used_, format, arguments);
    va_end(arguments);
    if (count > 0) used_ += static_cast<size_t>(count) < size_ - used_ ? static_cast<size_t>(count) : size_ - used_ - 1;
  }
  size_t used() const { return used_; }

 private:
  char* text_;
  size_t size_, used_ = 0;
};

// The first bytes of a small file; an empty text where there is none.
void read_file(const char* path, char* text, size_t size) {
  text[0] = 0;
  FILE* file = fopen(path, "r");
  if (file == nullptr) return;
  text[fread(text, 1, size - 1, file)] = 0;
  fclose(file);
  text[strcspn(text, "\n")] = 0;
}

int first_core() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) return core;
  }
  return 0;
}

// What /proc/cpuinfo says of the first core that the process may use: only there `name` is found.
bool cpu_fact(const char* name, char* value, size_t size) {
  FILE* file = fopen("/proc/cpuinfo", "r");
  if (file == nullptr) return false;
  static char line[8192];
  const int wanted = first_core();
  int core = 0;
  bool is_found = false;
  while (!is_found && fgets(line, sizeof line, file) != nullptr) {
    char* colon = strchr(line, ':');
    if (colon == nullptr) continue;
    char* end = colon;
    while (end > line && isspace(static_cast<unsigned char>(end[-1]))) --end;
    *end = 0;
    const char* found = colon + 1 + strspn(colon + 1, " \t");
    if (strcmp(line, "processor") == 0) core = atoi(found);
    if (core != wanted || strcmp(line, name) != 0) continue;
    snprintf(value, size, "%s", found);
    value[strcspn(value, "\n")] = 0;
    is_found = true;
  }
  fclose(file);
  return is_found;
}

// Why this is no real processor of its architecture, or null.
const char* emulator() {
  utsname system = {};
  uname(&system);
  char kernel[64], fact[64];
  read_file("/proc/sys/kernel/arch", kernel, sizeof kernel);
#if defined(__x86_64__)
  unsigned a, b, c, d;
  __cpuid(1, a, b, c, d);
  if (c >> 31 & 1) {
    char name[13] = {};
    __cpuid(0x40000000, a, b, c, d);
    memcpy(name, &b, 4);
    memcpy(name + 4, &c, 4);
    memcpy(name + 8, &d, 4);
    if (strcmp(name, "TCGTCGTCGTCG") == 0) return "QEMU's emulator is its hypervisor";
  }
  if (kernel[0] != 0 && strcmp(kernel, "x86_64") != 0) return "the system's kernel is of another architecture";
  if (cpu_fact("CPU implementer", fact, sizeof fact)) return "the system's processor is of another architecture";
#else
  // A 32-bit program on a 64-bit kernel of ARM is told that it is on "armv8l", or on "aarch64".
  const bool is_compat = kernel[0] == 'a' && (strcmp(system.machine, "armv8l") == 0 || strcmp(system.machine, "aarch64") == 0);
  if (kernel[0] != 0 && strcmp(kernel, system.machine) != 0 && !is_compat) {
    return "the system's kernel is of another architecture";
  }
  if (cpu_fact("vendor_id", fact, sizeof fact)) return "the system's processor is of another architecture";
#endif
  return nullptr;
}

void add_processor(Lines& lines) {
  lines.add("hwcap: %lu\nhwcap2: %lu\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
  static char fact[8192];
  if (cpu_fact("model name", fact, sizeof fact)) lines.add("model: %s\n", fact);
#if defined(__x86_64__)
  for (const char* name : {"vendor_id", "cpu family", "flags"}) {
    if (cpu_fact(name, fact, sizeof fact)) lines.add("%s: %s\n", name, fact);
  }
  if (cpu_fact("model", fact, sizeof fact)) lines.add("cpu model: %s\n", fact);
#elif defined(__aarch64__)
  constexpr unsigned long kTellsIdentity = 1 << 11;
  if (getauxval(AT_HWCAP) & kTellsIdentity) {
    uint64_t identity;
    __asm__("mrs %0, midr_el1" : "=r"(identity));
    lines.add("part: 0x%03x\n", static_cast<unsigned>(identity >> 4 & 0xFFF));
    return;
  }
#endif
  if (cpu_fact("CPU part", fact, sizeof fact)) lines.add("part: %s\n", fact);
}

void add_caches(Lines& lines) {
  char path[128], level[16], kind[32], size[32];
  for (int index = 0; index < 8; ++index) {
    const auto read = [&](const char* name, char* text, size_t room) {
      snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", first_core(), index, name);
      read_file(path, text, room);
    };
    read("type", kind, sizeof kind);
    read("level", level, sizeof level);
    read("size", size, sizeof size);
    if (level[0] != 0 && strcmp(kind, "Instruction") != 0) lines.add("cache%s: %s\n", level, size);
  }
}

}  // namespace

void steady_work(int64_t steps) {
  float tile[16];
  for (int n = 0; n < 16; ++n) tile[n] = static_cast<float>(n);
  for (int64_t step = 0; step < steps; ++step) {
    for (float& one : tile) one = one * 0.5f + 0.25f;
    __asm__ volatile("" : : "r"(tile) : "memory");
  }
}

size_t describe_machine(char* text, size_t size) {
  Lines lines(text, size);
  lines.add("protocol: %u\nrunner: %s\narchitecture: %s\n", kProtocolVersion, ansorc_runtime_version(), kArchitecture);
  add_processor(lines);
  lines.add("cores: %d\npage: %zu\ncold: %d\n", ansorc_num_threads(), page_bytes(), can_evict());
  lines.add("memory: %" PRIu64 "\n", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes());
  if (const char* why = emulator()) {
    lines.add("emulated: %s\n", why);
  } else {
    add_caches(lines);
  }
  double shortest = 1e9;
  for (int n = 0; n < kProbes; ++n) {
    const double begin = now_s();
    steady_work(kProbeSteps);
    const double taken = now_s() - begin;
    shortest = taken < shortest ? taken : shortest;
  }
  lines.add("probe_s: %.9g\n", shortest);
  return lines.used();
}

bool pin(const char* list) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const char* at = list;
  while (*at != 0) {
    char* end;
    const long first = strtol(at, &end, 10);
    long last = first;
    if (end == at) return false;
    if (*end == '-') {
      at = end + 1;
      last = strtol(at, &end, 10);
      if (end == at) return false;
    }
    if (first < 0 || last >= CPU_SETSIZE || (*end != 0 && *end != ',')) return false;
    for (long core = first; core <= last; ++core) CPU_SET(static_cast<size_t>(core), &mask);
    at = *end == ',' ? end + 1 : end;
  }
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

bool can_evict() {
#if defined(__arm__)
  return false;  // the instructions are the kernel's alone
#else
  return true;
#endif
}

void evict(const void* begin, size_t bytes) {
  const auto* at = static_cast<const char*>(begin);
#if defined(__x86_64__)
  for (size_t n = 0; n < bytes; n += 64) __builtin_ia32_clflush(at + n);
  __builtin_ia32_mfence();
#elif defined(__aarch64__)
  uint64_t type;
  __asm__("mrs %0, ctr_el0" : "=r"(type));
  const size_t line = size_t{4} << (type >> 16 & 15);
  for (size_t n = 0; n < bytes; n += line) __asm__ volatile("dc civac, %0" : : "r"(at + n) : "memory");
  __asm__ volatile("dsb ish" : : : "memory");
#else
  (void)at;
  (void)bytes;
#endif
}

}  // namespace ansorc
