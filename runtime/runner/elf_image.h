// Relocatable object files (ELF of x86-64, AArch64 and 32-bit ARM), as compilers write them, made
// into code of this process. A static program has no dlopen, and a shared library would need a
// linker on the host: an object file is what LLVM gives.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ansorc {

class ElfImage {
 public:
  // Loads a copy of `object`; its symbols are those of `find_symbol`. False with words in `why`.
  bool load(const uint8_t* object, size_t size, char* why, size_t why_size);
  // The address of a function that the object defines; null if there is none.
  void* function(const char* name) const;
  void release();

 private:
  friend class ElfLoader;
  static constexpr size_t kMostFunctions = 64;
  struct Function {
    char name[128];
    void* address;
  };
  uint8_t* map_ = nullptr;
  size_t bytes_ = 0, count_ = 0;
  Function functions_[kMostFunctions];
};

// What an object may call of the runner: the pool, memory, and what of the C library code calls.
void* find_symbol(const char* name);

}  // namespace ansorc
