// What a host may ask for, and what the runner keeps for it between requests.
//
//   kind              payload (little-endian, without gaps)                      answer
//   kHello            -                                                          lines "name: value"
//   kAllocate         u32 array, u64 bytes                                       -
//   kWrite            u32 array, u64 offset, the bytes                           -
//   kDraw             u32 array, u32 Draw, u32 Element, u32 element bytes, u64 seed   -
//   kDrop             u32 array                                                  -
//   kLoad             u32 code, u32 array that holds the object, its function's name   -
//   kUnload           u32 code                                                   -
//   kRun              u32 flags (1: time, 2: in turns), u32 Caches, i32 threads, u32 programs,
//                     u32 outputs, u32 0, f64 limit in seconds, TimingOptions; per output u64 bytes,
//                     u32 fill; per program u32 code, u64 workspace bytes, u32 arguments; per
//                     argument u32 kind, u32 array or output
//                     answer: u32 Outcome, value, Stage, program; if kDone per program u32 repeats,
//                     u32 stopped early, f64 first call, 2 u64 digest of each output, f64 of each
//                     repeat
//   kFetch            u32 output, u64 offset, u32 bytes: of the last program that ran   the bytes
//   kPack             u32 array, u32 array to fill, u32 element bytes, u32 dimensions, u32 parts,
//                     u32 0; per dimension i64 extent, i64 offset; per part u32 dimension, u32 0,
//                     i64 stride, i64 extent: what ansorc/ir/packing.py does, without transforms   -
//
// Errors are answered by kError with u32 Refusal and words, and change nothing.
#pragma once

#include "arrays.h"
#include "elf_image.h"
#include "frames.h"
#include "trial.h"

namespace ansorc {

enum Request : uint16_t { kHello = 1, kAllocate, kWrite, kDraw, kDrop, kLoad, kUnload, kRun, kFetch, kPack };

enum class Refusal : uint32_t { kNoFrame = 1, kVersion, kNoRequest, kBadField, kNoMemory, kBadObject, kNoProcess };

constexpr size_t kMostArrays = 1024, kMostCodes = 64;

class Bench {
 public:
  void answer(const Header& header, const uint8_t* payload);
  void refuse(uint32_t number, Refusal why, const char* format, ...) __attribute__((format(printf, 4, 5)));

 private:
  class Fields;
  void allocate(Fields& fields);
  void write(Fields& fields);
  void draw_into(Fields& fields);
  void drop(Fields& fields);
  void load(Fields& fields);
  void unload(Fields& fields);
  void run(Fields& fields);
  bool read_trial(Fields& fields);
  bool read_program(Fields& fields, Program* program);
  void report(const Header& header);
  void fetch(Fields& fields);
  void pack(Fields& fields);
  GuardedArray* array(Fields& fields);

  GuardedArray arrays_[kMostArrays];
  ElfImage images_[kMostCodes];
  void* functions_[kMostCodes] = {};
  Trial trial_;
  Report report_ = {};
  uint8_t answer_[kMostPayload];
};

}  // namespace ansorc
