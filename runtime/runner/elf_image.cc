#include "elf_image.h"

#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>

#include "arrays.h"
#include "relocate.h"

namespace ansorc {
namespace {

#if defined(__LP64__)
constexpr unsigned char kClass = ELFCLASS64;
#define RELOCATION_TYPE(info) ELF64_R_TYPE(info)
#define RELOCATION_SYMBOL(info) ELF64_R_SYM(info)
#else
constexpr unsigned char kClass = ELFCLASS32;
#define RELOCATION_TYPE(info) ELF32_R_TYPE(info)
#define RELOCATION_SYMBOL(info) ELF32_R_SYM(info)
#endif
constexpr size_t kMostSections = 256, kMostSymbols = 4096;

}  // namespace

// One loading: the object, where its sections went, and a stub and a slot for what it calls.
class ElfLoader {
 public:
  ElfLoader(ElfImage& image, const uint8_t* object, size_t size, char* why, size_t why_size)
      : image_(image), object_(object), size_(size), why_(why), why_size_(why_size) {}

  bool load() { return read_tables() && place() && relocate() && protect() && name_functions(); }

 private:
  bool refuse(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why_, why_size_, format, arguments);
    va_end(arguments);
    return false;
  }
  bool is_inside(size_t offset, size_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }
  template <class Record>
  const Record& at(size_t offset) const { return *reinterpret_cast<const Record*>(object_ + offset); }
  const ElfW(Shdr)& section(size_t n) const { return at<ElfW(Shdr)>(header().e_shoff + n * sizeof(ElfW(Shdr))); }
  const ElfW(Ehdr)& header() const { return at<ElfW(Ehdr)>(0); }
  const ElfW(Sym)& symbol(size_t n) const { return at<ElfW(Sym)>(section(symbols_).sh_offset + n * sizeof(ElfW(Sym))); }
  const char* name_of(const ElfW(Sym)& one) const {
    const ElfW(Shdr)& names = section(section(symbols_).sh_link);
    return one.st_name < names.sh_size ? reinterpret_cast<const char*>(object_ + names.sh_offset + one.st_name) : "";
  }

  bool read_tables();
  bool place();
  bool relocate();
  bool relocate_section(const ElfW(Shdr)& table);
  bool address_of(size_t n, uintptr_t* address, const char** name);
  bool protect();
  bool name_functions();

  ElfImage& image_;
  const uint8_t* object_;
  size_t size_;
  char* why_;
  size_t why_size_;
  size_t symbols_ = 0, symbol_count_ = 0, code_bytes_ = 0;
  uint8_t* placed_[kMostSections] = {};
  uint8_t* stubs_ = nullptr;
  uintptr_t* slots_ = nullptr;
};

bool ElfLoader::read_tables() {
  if (size_ < sizeof(ElfW(Ehdr)) || memcmp(object_, ELFMAG, SELFMAG) != 0) return refuse("it is no ELF file");
  if (object_[EI_CLASS] != kClass || object_[EI_DATA] != ELFDATA2LSB || header().e_machine != kMachine) {
    return refuse("it is for machine %d of ELF, and this runner for %d", header().e_machine, kMachine);
  }
  if (header().e_type != ET_REL) return refuse("it is no relocatable object file (ELF type %d)", header().e_type);
  const size_t count = header().e_shnum;
  if (count > kMostSections || header().e_shoff % alignof(ElfW(Shdr)) != 0 ||
      header().e_shentsize != sizeof(ElfW(Shdr)) || !is_inside(header().e_shoff, count * sizeof(ElfW(Shdr)))) {
    return refuse("its table of %zu sections is not inside of it", count);
  }
  for (size_t n = 0; n < count; ++n) {
    const ElfW(Shdr)& one = section(n);
    if (one.sh_type != SHT_NOBITS && !is_inside(one.sh_offset, one.sh_size)) {
      return refuse("its section %zu is not inside of it: it was cut off", n);
    }
    if (one.sh_type == SHT_SYMTAB) symbols_ = n;
  }
  if (symbols_ == 0 || section(symbols_).sh_link >= count) return refuse("it has no symbols");
  symbol_count_ = section(symbols_).sh_size / sizeof(ElfW(Sym));
  if (symbol_count_ > kMostSymbols) return refuse("it has %zu symbols, more than %zu", symbol_count_, kMostSymbols);
  const ElfW(Shdr)& names = section(section(symbols_).sh_link);
  if (names.sh_size == 0 || object_[names.sh_offset + names.sh_size - 1] != 0) return refuse("its names do not end");
  return true;
}

// Code first, then what can be written; a stub and a slot for each symbol.
bool ElfLoader::place() {
  const size_t page = page_bytes(), count = header().e_shnum;
  size_t offsets[kMostSections] = {}, end = 0;
  for (const bool is_code : {true, false}) {
    for (size_t n = 0; n < count; ++n) {
      const ElfW(Shdr)& one = section(n);
      if (!(one.sh_flags & SHF_ALLOC) || bool(one.sh_flags & SHF_EXECINSTR) != is_code) continue;
      if (one.sh_addralign > page || one.sh_size > (size_t{1} << 30)) return refuse("its section %zu is too large", n);
      offsets[n] = round_up(end, one.sh_addralign ? one.sh_addralign : 1);
      end = offsets[n] + one.sh_size;
    }
    end = round_up(end, 16);
    if (is_code) {
      stubs_ = reinterpret_cast<uint8_t*>(end);
      end = code_bytes_ = round_up(end + symbol_count_ * kStubBytes, page);
    }
  }
  const size_t slots = end;
  const size_t bytes = round_up(end + symbol_count_ * sizeof(uintptr_t), page);
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return refuse("there is no memory for its %zu bytes", bytes);
  image_.map_ = static_cast<uint8_t*>(map);
  image_.bytes_ = bytes;
  stubs_ = image_.map_ + reinterpret_cast<size_t>(stubs_);
  slots_ = reinterpret_cast<uintptr_t*>(image_.map_ + slots);
  for (size_t n = 0; n < count; ++n) {
    const ElfW(Shdr)& one = section(n);
    if (!(one.sh_flags & SHF_ALLOC)) continue;
    placed_[n] = image_.map_ + offsets[n];
    if (one.sh_type != SHT_NOBITS) memcpy(placed_[n], object_ + one.sh_offset, one.sh_size);
  }
  return true;
}

bool ElfLoader::relocate() {
  for (size_t n = 0; n < header().e_shnum; ++n) {
    const ElfW(Shdr)& one = section(n);
    if (one.sh_type != SHT_REL && one.sh_type != SHT_RELA) continue;
    if (one.sh_info >= header().e_shnum) return refuse("its relocations of section %zu are for no section", n);
    if (placed_[one.sh_info] != nullptr && !relocate_section(one)) return false;
  }
  return true;
}

bool ElfLoader::relocate_section(const ElfW(Shdr)& table) {
  const bool has_addend = table.sh_type == SHT_RELA;
  const size_t each = has_addend ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
  const ElfW(Shdr)& target = section(table.sh_info);
  for (size_t n = 0; n < table.sh_size / each; ++n) {
    ElfW(Rela) one = {};
    memcpy(&one, object_ + table.sh_offset + n * each, each);
    const uint32_t type = RELOCATION_TYPE(one.r_info), index = RELOCATION_SYMBOL(one.r_info);
    if (type == 0) continue;
    if (one.r_offset > target.sh_size || target.sh_size - one.r_offset < 4) {
      return refuse("its relocation %zu is outside of its section", n);
    }
    const char* name = "";
    Relocation what = {};
    if (!address_of(index, &what.symbol, &name)) return false;
    what.place = placed_[table.sh_info] + one.r_offset;
    what.room = target.sh_size - one.r_offset;
    what.addend = has_addend ? static_cast<intptr_t>(one.r_addend) : implicit_addend(type, what.place);
    what.stub = stubs_ + index * kStubBytes;
    what.slot = slots_ + index;
    switch (apply(type, what)) {
      case Applied::kDone: break;
      case Applied::kUnknown: return refuse("it has a relocation of type %u, which this runner does not know (symbol '%s')", type, name);
      case Applied::kTooFar: return refuse("its relocation of type %u to '%s' does not reach that far", type, name);
    }
  }
  return true;
}

bool ElfLoader::address_of(size_t n, uintptr_t* address, const char** name) {
  if (n >= symbol_count_) return refuse("a relocation names symbol %zu of %zu", n, symbol_count_);
  const ElfW(Sym)& one = symbol(n);
  *name = name_of(one);
  if (one.st_shndx == SHN_UNDEF) {
    void* found = n == 0 ? nullptr : find_symbol(*name);
    const bool is_weak = n == 0 || (one.st_info >> 4) == STB_WEAK;
    if (found == nullptr && !is_weak) return refuse("it calls '%s', which the runner does not have", *name);
    *address = reinterpret_cast<uintptr_t>(found);
    return true;
  }
  if (one.st_shndx == SHN_ABS) {
    *address = one.st_value;
    return true;
  }
  if (one.st_shndx >= header().e_shnum || placed_[one.st_shndx] == nullptr || (one.st_info & 15) == STT_TLS) {
    return refuse("its symbol '%s' is in no section that is loaded", *name);
  }
  *address = reinterpret_cast<uintptr_t>(placed_[one.st_shndx]) + one.st_value;
  return true;
}

bool ElfLoader::protect() {
  char* const begin = reinterpret_cast<char*>(image_.map_);
  if (mprotect(begin, code_bytes_, PROT_READ | PROT_EXEC) != 0) {
    return refuse("this system does not let memory be made executable");
  }
  __builtin___clear_cache(begin, begin + code_bytes_);
  return true;
}

bool ElfLoader::name_functions() {
  for (size_t n = 1; n < symbol_count_; ++n) {
    const ElfW(Sym)& one = symbol(n);
    if (one.st_shndx == SHN_UNDEF || one.st_shndx >= header().e_shnum) continue;
    if ((one.st_info & 15) != STT_FUNC || (one.st_info >> 4) == STB_LOCAL) continue;
    if (image_.count_ == ElfImage::kMostFunctions) return refuse("it has more than %zu functions", image_.count_);
    ElfImage::Function& found = image_.functions_[image_.count_++];
    snprintf(found.name, sizeof found.name, "%s", name_of(one));
    found.address = placed_[one.st_shndx] + one.st_value;
  }
  return true;
}

bool ElfImage::load(const uint8_t* object, size_t size, char* why, size_t why_size) {
  ElfLoader loader(*this, object, size, why, why_size);
  if (loader.load()) return true;
  release();
  return false;
}

void* ElfImage::function(const char* name) const {
  for (size_t n = 0; n < count_; ++n) {
    if (strcmp(functions_[n].name, name) == 0) return functions_[n].address;
  }
  return nullptr;
}

void ElfImage::release() {
  if (map_ != nullptr) munmap(map_, bytes_);
  map_ = nullptr;
  bytes_ = count_ = 0;
}

}  // namespace ansorc
