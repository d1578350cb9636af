// The weights of a network in a file of their own: mapped into memory, so that all processes share them.
//
// A library that has its weights outside knows how many there are and their SHA-256, which the file
// begins with: another file is refused, not computed with. Only libc is used.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr int32_t kOk = 0, kCannotRead = 4, kOtherWeights = 5;

// What the file begins with; the weights follow, at a multiple of 64 bytes.
struct Header {
  char magic[8];
  uint64_t bytes;
  uint8_t sha256[32];
  uint8_t reserved[16];
};
static_assert(sizeof(Header) == 64, "the weights must be aligned");
constexpr char kMagic[8] = {'a', 'n', 's', 'o', 'r', 'c', 'W', '1'};

}  // namespace

// In the library: where its weights are while the file is open, and what they must be.
struct ansorc_weights {
  const uint8_t* first;
  uint64_t bytes;
  uint8_t sha256[32];
};

extern "C" {

int32_t ansorc_weights_open(ansorc_weights* weights, const char* path) {
  if (__atomic_load_n(&weights->first, __ATOMIC_ACQUIRE) != nullptr) return kOk;
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return kCannotRead;
  struct stat status;
  const uint64_t size = sizeof(Header) + weights->bytes;
  const bool has_status = fstat(file, &status) == 0;
  const bool fits = has_status && static_cast<uint64_t>(status.st_size) == size;
  void* memory = fits ? mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (has_status && !fits) return kOtherWeights;
  if (memory == MAP_FAILED) return kCannotRead;
  const Header* header = static_cast<const Header*>(memory);
  const bool is_ours = memcmp(header->magic, kMagic, sizeof kMagic) == 0 &&
                       header->bytes == weights->bytes &&
                       memcmp(header->sha256, weights->sha256, sizeof header->sha256) == 0;
  const uint8_t* none = nullptr;
  const uint8_t* first = static_cast<const uint8_t*>(memory) + sizeof(Header);
  if (is_ours && __atomic_compare_exchange_n(&weights->first, &none, first, false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_ACQUIRE)) {
    return kOk;
  }
  munmap(memory, size);
  return is_ours ? kOk : kOtherWeights;  // another thread was first
}

void ansorc_weights_close(ansorc_weights* weights) {
  const uint8_t* none = nullptr;
  const uint8_t* first = __atomic_exchange_n(&weights->first, none, __ATOMIC_ACQ_REL);
  if (first == nullptr) return;
  const uint8_t* memory = first - sizeof(Header);
  munmap(const_cast<uint8_t*>(memory), sizeof(Header) + weights->bytes);
}

}  // extern "C"
