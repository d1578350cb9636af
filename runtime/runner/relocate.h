// Relocations of the three machines: the few that compilers use in code without a dynamic linker.
//
// In the words of the ABIs: S the symbol, A the addend, P the place, G a slot that holds S. A call
// that may not reach S goes by a stub, which jumps to whatever its last word holds.
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace ansorc {

struct Relocation {
  uint8_t* place;
  size_t room;  // bytes from the place to the end of its section, at least 4
  uintptr_t symbol;
  intptr_t addend;
  uint8_t* stub;
  uintptr_t* slot;
};

enum class Applied { kDone, kUnknown, kTooFar };

inline uint32_t word_at(const uint8_t* place) {
  uint32_t word;
  memcpy(&word, place, sizeof word);
  return word;
}

inline Applied put32(uint8_t* place, uint32_t word) {
  memcpy(place, &word, sizeof word);
  return Applied::kDone;
}

inline bool fits(int64_t value, int bits) { return value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1); }

inline uintptr_t filled_slot(const Relocation& r) {
  *r.slot = r.symbol;
  return reinterpret_cast<uintptr_t>(r.slot);
}

inline Applied put64(const Relocation& r, uint64_t value) {
  if (r.room < 8) return Applied::kTooFar;
  memcpy(r.place, &value, sizeof value);
  return Applied::kDone;
}

// The distance from P to what a call at P is to reach, `reach` bits of it allowed.
inline int64_t call_distance(const Relocation& r, int reach, uintptr_t (*stub)(const Relocation&)) {
  const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(r.place));
  const int64_t direct = static_cast<int64_t>(r.symbol) + r.addend - place;
  return fits(direct, reach) ? direct : static_cast<int64_t>(stub(r)) + r.addend - place;
}

#if defined(__x86_64__)

constexpr int kMachine = EM_X86_64;
constexpr size_t kStubBytes = 16;

inline intptr_t implicit_addend(uint32_t, const uint8_t*) { return 0; }

inline uintptr_t filled_stub(const Relocation& r) {
  const uint8_t jump[] = {0xFF, 0x25, 0, 0, 0, 0};  // jmp *(the next 8 bytes)
  memcpy(r.stub, jump, sizeof jump);
  memcpy(r.stub + sizeof jump, &r.symbol, sizeof r.symbol);
  return reinterpret_cast<uintptr_t>(r.stub);
}

inline Applied apply(uint32_t type, const Relocation& r) {
  const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(r.place));
  int64_t value = static_cast<int64_t>(r.symbol) + r.addend - place;
  switch (type) {
    case R_X86_64_64: return put64(r, r.symbol + static_cast<uint64_t>(r.addend));
    case R_X86_64_PC64: return put64(r, static_cast<uint64_t>(value));
    case R_X86_64_PC32: break;
    case R_X86_64_PLT32: value = call_distance(r, 32, filled_stub); break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: value = static_cast<int64_t>(filled_slot(r)) + r.addend - place; break;
    default: return Applied::kUnknown;
  }
  return fits(value, 32) ? put32(r.place, static_cast<uint32_t>(value)) : Applied::kTooFar;
}

#elif defined(__aarch64__)

constexpr int kMachine = EM_AARCH64;
constexpr size_t kStubBytes = 16;

inline intptr_t implicit_addend(uint32_t, const uint8_t*) { return 0; }

inline uintptr_t filled_stub(const Relocation& r) {
  put32(r.stub, 0x58000050);      // ldr x16, the word at +8
  put32(r.stub + 4, 0xD61F0200);  // br x16
  memcpy(r.stub + 8, &r.symbol, sizeof r.symbol);
  return reinterpret_cast<uintptr_t>(r.stub);
}

inline Applied put_field(const Relocation& r, int64_t value, int first, int bits) {
  const uint32_t mask = ((1u << bits) - 1) << first;
  return put32(r.place, (word_at(r.place) & ~mask) | (static_cast<uint32_t>(value) << first & mask));
}

inline Applied put_page(const Relocation& r, uintptr_t address) {
  const auto here = reinterpret_cast<uintptr_t>(r.place) >> 12;
  const int64_t pages = static_cast<int64_t>(address >> 12) - static_cast<int64_t>(here);
  if (!fits(pages, 21)) return Applied::kTooFar;
  put_field(r, pages & 3, 29, 2);
  return put_field(r, pages >> 2, 5, 19);
}

inline Applied put_branch(const Relocation& r, int64_t distance, int bits, int first) {
  return fits(distance, bits + 2) ? put_field(r, distance >> 2, first, bits) : Applied::kTooFar;
}

inline Applied apply(uint32_t type, const Relocation& r) {
  const uintptr_t target = r.symbol + static_cast<uintptr_t>(r.addend);
  const auto distance = static_cast<int64_t>(target - reinterpret_cast<uintptr_t>(r.place));
  const auto low = static_cast<int64_t>(target & 0xFFF);
  switch (type) {
    case R_AARCH64_ABS64: return put64(r, target);
    case R_AARCH64_PREL64: return put64(r, static_cast<uint64_t>(distance));
    case R_AARCH64_PREL32: return fits(distance, 32) ? put32(r.place, static_cast<uint32_t>(distance)) : Applied::kTooFar;
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_PREL_PG_HI21_NC: return put_page(r, target);
    case R_AARCH64_ADR_PREL_LO21:
      if (!fits(distance, 21)) return Applied::kTooFar;
      put_field(r, distance & 3, 29, 2);
      return put_field(r, distance >> 2, 5, 19);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return put_field(r, low, 10, 12);
    case R_AARCH64_LDST16_ABS_LO12_NC: return put_field(r, low >> 1, 10, 12);
    case R_AARCH64_LDST32_ABS_LO12_NC: return put_field(r, low >> 2, 10, 12);
    case R_AARCH64_LDST64_ABS_LO12_NC: return put_field(r, low >> 3, 10, 12);
    case R_AARCH64_LDST128_ABS_LO12_NC: return put_field(r, low >> 4, 10, 12);
    case R_AARCH64_LD_PREL_LO19:
    case R_AARCH64_CONDBR19: return put_branch(r, distance, 19, 5);
    case R_AARCH64_TSTBR14: return put_branch(r, distance, 14, 5);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return put_branch(r, call_distance(r, 28, filled_stub), 26, 0);
    case R_AARCH64_ADR_GOT_PAGE: return put_page(r, filled_slot(r));
    case R_AARCH64_LD64_GOT_LO12_NC: return put_field(r, static_cast<int64_t>(filled_slot(r) & 0xFFF) >> 3, 10, 12);
    default: return Applied::kUnknown;
  }
}

#elif defined(__arm__)

constexpr int kMachine = EM_ARM;
constexpr size_t kStubBytes = 8;

inline intptr_t signed_low(uint32_t word, int bits) {
  return static_cast<int32_t>(word << (32 - bits)) >> (32 - bits);
}

inline uint32_t moved(uint32_t word) { return (word >> 4 & 0xF000) | (word & 0xFFF); }

inline intptr_t implicit_addend(uint32_t type, const uint8_t* place) {
  const uint32_t word = word_at(place);
  switch (type) {
    case R_ARM_CALL:
    case R_ARM_JUMP24:
    case R_ARM_PC24:
    case R_ARM_PLT32: return signed_low(word, 24) * 4;
    case R_ARM_MOVW_ABS_NC:
    case R_ARM_MOVT_ABS:
    case R_ARM_MOVW_PREL_NC:
    case R_ARM_MOVT_PREL: return signed_low(moved(word), 16);
    case R_ARM_PREL31: return signed_low(word, 31);
    default: return static_cast<int32_t>(word);
  }
}

inline uintptr_t filled_stub(const Relocation& r) {
  put32(r.stub, 0xE51FF004);  // ldr pc, the next word
  memcpy(r.stub + 4, &r.symbol, sizeof r.symbol);
  return reinterpret_cast<uintptr_t>(r.stub);
}

inline Applied put_call(const Relocation& r) {
  int64_t distance = call_distance(r, 26, filled_stub);
  if (r.symbol & 1) distance = static_cast<int64_t>(filled_stub(r)) + r.addend - static_cast<int64_t>(reinterpret_cast<uintptr_t>(r.place));  // Thumb code: the stub changes over
  if (!fits(distance, 26)) return Applied::kTooFar;
  return put32(r.place, (word_at(r.place) & 0xFF000000) | (static_cast<uint32_t>(distance >> 2) & 0xFFFFFF));
}

inline Applied put_move(const Relocation& r, uint32_t half) {
  return put32(r.place, (word_at(r.place) & 0xFFF0F000) | (half & 0xF000) << 4 | (half & 0xFFF));
}

inline Applied apply(uint32_t type, const Relocation& r) {
  const auto target = static_cast<uint32_t>(r.symbol + static_cast<uintptr_t>(r.addend));
  const uint32_t place = reinterpret_cast<uintptr_t>(r.place);
  switch (type) {
    case R_ARM_ABS32:
    case R_ARM_TARGET1: return put32(r.place, target);
    case R_ARM_REL32: return put32(r.place, target - place);
    case R_ARM_CALL:
    case R_ARM_JUMP24:
    case R_ARM_PC24:
    case R_ARM_PLT32: return put_call(r);
    case R_ARM_MOVW_ABS_NC: return put_move(r, target & 0xFFFF);
    case R_ARM_MOVT_ABS: return put_move(r, target >> 16);
    case R_ARM_MOVW_PREL_NC: return put_move(r, (target - place) & 0xFFFF);
    case R_ARM_MOVT_PREL: return put_move(r, (target - place) >> 16);
    case R_ARM_GOT_PREL: return put32(r.place, static_cast<uint32_t>(filled_slot(r) + static_cast<uintptr_t>(r.addend)) - place);
    case R_ARM_PREL31: return put32(r.place, (word_at(r.place) & 0x80000000) | ((target - place) & 0x7FFFFFFF));
    case R_ARM_V4BX: return Applied::kDone;
    default: return Applied::kUnknown;
  }
}

#else
#error "ansorc-runner is for x86-64, AArch64 and ARM"
#endif

}  // namespace ansorc
