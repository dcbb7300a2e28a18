// Owned raw memory, 64-byte aligned for SIMD and DMA, not zeroed. Move-only.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace warplite {

class Bytes {
 public:
  Bytes() = default;
  // Throws std::bad_alloc.
  explicit Bytes(std::size_t size) : size_(size) {
    if (size == 0) return;
    void* memory = std::aligned_alloc(64, (size + 63) / 64 * 64);
    if (memory == nullptr) throw std::bad_alloc();
    data_.reset(static_cast<std::byte*>(memory));
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace warplite
