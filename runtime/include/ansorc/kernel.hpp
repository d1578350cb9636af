// Conveniences for C++ programs that call kernels: workspaces that free themselves, statuses that throw.
#ifndef ANSORC_KERNEL_HPP
#define ANSORC_KERNEL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace ansorc {

// Memory for one call at a time of a kernel, kept from call to call. Each thread needs its own.
class Workspace {
 public:
  // Throws std::bad_alloc; `bytes` may be 0, then get() is a null pointer.
  explicit Workspace(std::size_t bytes)
      : memory_(bytes == 0 ? nullptr : ::operator new(bytes, kAlignment)) {}

  void* get() const noexcept { return memory_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};

  struct Free {
    void operator()(void* memory) const noexcept { ::operator delete(memory, kAlignment); }
  };

  std::unique_ptr<void, Free> memory_;
};

// Throw unless `status`, which a kernel returned, means success.
inline void require(std::int32_t status, const char* kernel) {
  switch (status) {
    case 0:
      return;
    case 1:
      throw std::bad_alloc();
    case 2:
      throw std::runtime_error(std::string(kernel) + ": this processor lacks its instructions");
    default:
      throw std::runtime_error(std::string(kernel) + " failed: status " + std::to_string(status));
  }
}

}  // namespace ansorc

#endif
