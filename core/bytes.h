// Owned raw memory, 64-byte aligned for SIMD and DMA, not zeroed. Move-only.
// Large blocks come from the system and go back to it when freed, so that a memory limit holds for
// the process, and lie on huge pages where there are any.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include <sys/mman.h>

namespace warplite {

class Bytes {
 public:
  Bytes() = default;
  // Throws std::bad_alloc.
  explicit Bytes(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* memory = size >= kLarge ? map(size) : std::aligned_alloc(64, (size + 63) / 64 * 64);
    if (memory == nullptr) throw std::bad_alloc();
    data_ = std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(memory), Free{size});
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kLarge = std::size_t{1} << 20;
  static void* map(std::size_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, size, MADV_HUGEPAGE);
    return memory;
  }
  struct Free {
    std::size_t size;  // zero in an empty one
    void operator()(std::byte* memory) const {
      if (size >= kLarge) {
        munmap(memory, size);
      } else {
        std::free(memory);
      }
    }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace warplite
