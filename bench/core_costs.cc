// Cycles of instructions and bytes on this machine: `core_costs REPETITIONS L2 L3 CORES` (caches in
// bytes). Prints for each measurement its name and a figure for each repetition.
//
// A cycle is what one of a chain of dependent integer additions takes, timed right before and after
// each measurement: clocks change, and virtual machines do not let them be read. A repetition
// between two unlike chains was disturbed and is done again.

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

// V(n) is register n of the widest vectors; Y and X are its lowest 32 and 16 bytes.
#define X(n) "%%xmm" #n
#define Y(n) "%%ymm" #n
#ifndef __AVX2__
#error "written for x86 with AVX2"
#elif defined(__AVX512F__)
#define V(n) "%%zmm" #n
#define HALVE "vextractf64x4 $1, " V(0) ", " Y(1) "\nvaddps " Y(1) ", " Y(0) ", " Y(0) "\n"
#else
#define V(n) Y(n)
#define HALVE ""
#endif

#if defined(__AVX512VNNI__)
#define DOT(n) "vpdpbusd " V(14) ", " V(15) ", " V(n) "\n"
#elif defined(__AVXVNNI__)
#define DOT(n) "%{vex%} vpdpbusd " V(14) ", " V(15) ", " V(n) "\n"
#endif
#define MULTIPLY_ADD(n) "vfmadd231ps " V(14) ", " V(15) ", " V(n) "\n"
#define ADD(n) "vaddps " V(15) ", " V(n) ", " V(n) "\n"
#define DIVIDE(n) "vdivps " V(14) ", " V(15) ", " V(n) "\n"
#define ROOT(n) "vsqrtps " V(15) ", " V(n) "\n"
#define LOAD(n) "vmovups 64*" #n "(%1), " V(12) "\n"
#define COUNT "add %%rdx, %%r8\n"
#define SCALARS "lea 1(%%rdx), %%r9\nlea 2(%%rdx), %%r10\n"
#define BESIDE(n) MULTIPLY_ADD(n) SCALARS
#define MIX(n) MULTIPLY_ADD(n) LOAD(n) SCALARS
#define ADD_IN_MEMORY "vaddps (%1), " V(15) ", " V(0) "\nvmovups " V(0) ", (%1)\n"
// Three shuffles and three additions, four of each for 64 bytes; the next one begins with the sum.
#define SUM_OF_LANES                                                                    \
  HALVE "vextractf128 $1, " Y(0) ", " X(1) "\nvaddps " X(1) ", " X(0) ", " X(0) "\n"    \
  "vmovhlps " X(0) ", " X(0) ", " X(1) "\nvaddps " X(1) ", " X(0) ", " X(0) "\n"        \
  "vmovshdup " X(0) ", " X(1) "\nvaddss " X(1) ", " X(0) ", " X(0) "\n"
#define EIGHT "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7"
#define TWELVE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define TIMES(n, BODY) ".rept " #n "\n" BODY ".endr\n"
// STEPS times BODY, which has memory at %1, two factors in vectors 14 and 15 and a zero in rdx.
#define LOOP(STEPS, BODY)                                                                     \
  for (long left_ = STEPS; left_ > 0;)                                                        \
    asm volatile("vbroadcastss 4(%2), " V(14) "\nvbroadcastss (%2), " V(15) "\n"              \
                 "vmovaps " V(15) ", " V(0) "\nxor %%edx, %%edx\n.p2align 6\n"                \
                 "1:\n" BODY "dec %0\njnz 1b\nvzeroupper\n"                                   \
                 : "+r"(left_) : "r"(scratch), "r"(kFactors)                                  \
                 : "memory", "cc", "rdx", "r8", "r9", "r10", EIGHT, "xmm8", "xmm9", "xmm10",  \
                   "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
// What AMOUNT of BODY take.
#define CORE(NAME, AMOUNT, BODY) {NAME, 500.0 * (AMOUNT), timed([] { LOOP(500, BODY); }), {}}

namespace {

constexpr long kChain = 20000;  // additions that tell the cycle: some microseconds
const float kFactors[] = {1.3f, 0.7f};
alignas(4096) char scratch[4096];

struct Measurement {
  const char* name;
  double amount;                 // of what is counted, in a repetition
  std::function<double()> run;   // returns seconds
  std::vector<double> cycles;    // of one of what is counted, for each repetition
};

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::function<double()> timed(std::function<void()> work, std::function<void()> before = [] {}) {
  return [=] {  // seconds of `work` alone
    before();
    double begin = seconds();
    work();
    return seconds() - begin;
  };
}

double cycle() {  // in seconds
  double begin = seconds();
  LOOP(kChain / 100, TIMES(100, COUNT));
  return (seconds() - begin) / kChain;
}

// Load `bytes`, a multiple of 256, into registers.
void read(const char* from, size_t bytes) {
  const char* end = from + bytes;
  asm volatile(".p2align 6\n1:\n"
               "vmovaps (%0), " V(0) "\nvmovaps 64(%0), " V(1) "\n"
               "vmovaps 128(%0), " V(2) "\nvmovaps 192(%0), " V(3) "\n"
#ifndef __AVX512F__
               "vmovaps 32(%0), " V(4) "\nvmovaps 96(%0), " V(5) "\n"
               "vmovaps 160(%0), " V(6) "\nvmovaps 224(%0), " V(7) "\n"
#endif
               "add $256, %0\ncmp %1, %0\njb 1b\nvzeroupper\n"
               : "+r"(from) : "r"(end) : "memory", "cc", EIGHT);
}

// Return memory that was written to, in large pages, as NumPy asks for them.
char* written(size_t bytes) {
  void* memory = std::aligned_alloc(2 << 20, bytes);
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  return static_cast<char*>(memory);
}

// Return the seconds from when the first of `cores` threads begins until the last one is done.
double read_by_all(int cores, const char* from, size_t bytes_each) {
  std::atomic<int> missing{cores};
  std::vector<double> begins(cores), ends(cores);
  std::vector<std::thread> threads;
  for (int core = 0; core < cores; ++core)
    threads.emplace_back([&, core] {
      for (--missing; missing > 0;) std::this_thread::yield();
      begins[core] = seconds();
      read(from + core * bytes_each, bytes_each);
      ends[core] = seconds();
    });
  for (auto& thread : threads) thread.join();
  return *std::ranges::max_element(ends) - *std::ranges::min_element(begins);
}

// Return the seconds it takes to read what a thread on another core has just written.
double read_what_another_wrote(char* memory, size_t bytes) {
  cpu_set_t all, others;
  sched_getaffinity(0, sizeof all, &all);
  const int own = sched_getcpu();
  others = all;
  CPU_CLR(own, &others);
  std::atomic<bool> is_written{false};
  std::thread writer([&] {
    sched_setaffinity(0, sizeof others, &others);
    std::memset(memory, 2, bytes);
    is_written = true;
  });
  while (!is_written) {
  }
  double begin = seconds();
  read(memory, bytes);
  double spent = seconds() - begin;
  writer.join();
  return spent;
}

void repeat(Measurement& measurement) {
  double before = 1, spent = 0, after = 0;
  for (int tries = 0; tries < 30 && std::abs(after / before - 1) > 0.02; ++tries)
    before = cycle(), spent = measurement.run(), after = cycle();
  measurement.cycles.push_back(spent / std::min(before, after) / measurement.amount);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int repetitions = std::atoi(argv[1]), cores = std::atoi(argv[4]);
  const size_t l2 = std::atol(argv[2]), l3 = std::atol(argv[3]);
  // What only the third cache holds, and so much that nothing of it is in a cache when the walk
  // begins again: one core reads a MiB of it at a time, or each four.
  const size_t mib = 1 << 20;
  const size_t outer = std::max(1ul, std::min(8 * l2, l3 / 4) / (2 * mib)) * 2 * mib;
  const size_t all = cores * 4 * mib, size = (std::max(4 * l3, 4 * all) / all + 1) * all;
  const char *cached = written(outer), *memory = written(size);
  char* handed = written(l2 / 4);
  size_t place = 0;
  auto cache = [&](const char* name, size_t bytes) -> Measurement {
    auto work = [=] { read(cached, bytes); };
    return {name, 1.0 * bytes, timed(work, work), {}};
  };
  auto next = [&](size_t bytes) {
    return memory + (place + bytes > size ? place = bytes, 0 : std::exchange(place, place + bytes));
  };
  std::vector<Measurement> measurements = {
      CORE("multiply_add_latency", 48, TIMES(48, MULTIPLY_ADD(0))),
      CORE("add_latency", 48, TIMES(48, ADD(0))),
      CORE("multiply_adds", 48, TIMES(4, TWELVE(MULTIPLY_ADD))),
      CORE("loads", 48, TIMES(4, TWELVE(LOAD))),
      CORE("instructions", 96, TIMES(2, TWELVE(MIX))),
      CORE("scalars", 48, TIMES(2, TWELVE(BESIDE))),
      CORE("memory_add_latency", 12, TIMES(12, ADD_IN_MEMORY)),
      CORE("division", 12, TWELVE(DIVIDE)),
      CORE("root", 12, TWELVE(ROOT)),
      CORE("combine_lanes", 12, TIMES(12, SUM_OF_LANES)),
#ifdef DOT
      CORE("dot_latency", 48, TIMES(48, DOT(0))),
      CORE("dots", 48, TIMES(4, TWELVE(DOT))),
#endif
      cache("l2_bytes", l2 / 2),
      cache("l3_bytes", outer),
      {"memory_bytes", 1.0 * mib, timed([&] { read(next(mib), mib); }), {}},
      {"handed_bytes", l2 / 4.0, [&] { return read_what_another_wrote(handed, l2 / 4); }, {}},
      {"all_memory_bytes", 1.0 * all, [&] { return read_by_all(cores, next(all), 4 * mib); }, {}},
  };
  Measurement clock{"cycle", 1.0, {}, {}};  // in nanoseconds
  for (int done = 0; done < repetitions; ++done) {
    for (auto& each : measurements) repeat(each);
    clock.cycles.push_back(1e9 * cycle());
  }
  measurements.push_back(clock);
  for (auto& each : measurements) {
    std::printf("%s", each.name);
    for (double figure : each.cycles) std::printf(" %.6g", figure);
    std::printf("\n");
  }
}
