// Conveniences for C++ programs that call kernels: workspaces that free themselves, packed weights,
// statuses that throw.
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

// A weight in the order in which a kernel reads it: made once, then only read, by any number of threads.
template <class Element>
class PackedWeight {
 public:
  // `pack` is the kernel's NAME_pack_WEIGHT and `elements` its NAME_WEIGHT_PACKED_ELEMENTS; `source` may
  // go afterwards. Throws std::bad_alloc, or std::runtime_error where the kernel could not run either.
  PackedWeight(std::int32_t (*pack)(const Element*, Element*), const Element* source, std::size_t elements)
      : memory_(elements * sizeof(Element)) {
    require(pack(source, static_cast<Element*>(memory_.get())), "the packing of a weight");
  }

  const Element* get() const noexcept { return static_cast<const Element*>(memory_.get()); }

 private:
  Workspace memory_;
};

}  // namespace ansorc

#endif
