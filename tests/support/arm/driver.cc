// Calls a kernel on arrays that are read from files, and writes its last array to a file.
//
//   driver THREADS OUTPUT BYTES INPUT...
//
// HEADER, KERNEL and ARRAYS are defined on the command line of the compiler. The arrays lie between
// guards, the output starts as NaN, and the kernel is called twice, so that state left by the first
// call would show. The exit code is the kernel's, or 100 and more for what went wrong here.
#include HEADER

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kGuard = 64;
constexpr unsigned char kPoison = 0xFF;

// An array that no vector is aligned with, between guards.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size), bytes_(size + 2 * kGuard + 4, kPoison) {}
  unsigned char* data() { return bytes_.data() + kGuard + 4; }
  std::size_t size() const { return size_; }
  bool intact() {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (data()[-1 - static_cast<std::ptrdiff_t>(i)] != kPoison) return false;
      if (data()[size_ + i] != kPoison) return false;
    }
    return true;
  }

 private:
  std::size_t size_;
  std::vector<unsigned char> bytes_;
};

Guarded read_file(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) std::exit(100);
  std::fseek(file, 0, SEEK_END);
  Guarded array(static_cast<std::size_t>(std::ftell(file)));
  std::rewind(file);
  if (std::fread(array.data(), 1, array.size(), file) != array.size()) std::exit(101);
  std::fclose(file);
  return array;
}

template <std::size_t... Index>
std::int32_t call(std::vector<Guarded>& arrays, std::int32_t threads,
                  std::index_sequence<Index...>) {
  return KERNEL(reinterpret_cast<float*>(arrays[Index].data())..., nullptr, threads);
}

}  // namespace

int main(int count, char** words) {
  if (count != 4 + ARRAYS - 1) return 102;
  const auto threads = static_cast<std::int32_t>(std::atoi(words[1]));
  std::vector<Guarded> arrays;
  for (int place = 4; place < count; ++place) arrays.push_back(read_file(words[place]));
  arrays.emplace_back(static_cast<std::size_t>(std::atoll(words[3])));
  for (int round = 0; round < 2; ++round) {
    std::memset(arrays.back().data(), kPoison, arrays.back().size());
    const std::int32_t status = call(arrays, threads, std::make_index_sequence<ARRAYS>());
    if (status != ANSORC_OK) return status;
  }
  for (Guarded& array : arrays) {
    if (!array.intact()) return 103;
  }
  std::FILE* file = std::fopen(words[2], "wb");
  if (file == nullptr) return 104;
  if (std::fwrite(arrays.back().data(), 1, arrays.back().size(), file) != arrays.back().size()) {
    return 105;
  }
  return std::fclose(file) == 0 ? 0 : 106;
}
