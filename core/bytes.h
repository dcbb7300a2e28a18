// Owned raw memory, 64-byte aligned for SIMD and DMA, not zeroed. Move-only.
// Large blocks share slabs of huge pages, where the system has them: a segment is too small to fill
// huge pages of its own. What is freed goes back to the system at once, so that a memory limit
// holds for the process (malloc would keep it).
// Threads: blocks may be made and freed on any thread.
#pragma once

#include <cstddef>
#include <memory>

namespace warplite {

class Bytes {
 public:
  Bytes() = default;
  // Throws std::bad_alloc.
  explicit Bytes(std::size_t size) : size_(size) {
    if (size != 0) data_ = {allocate(size), Free{size}};
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static std::byte* allocate(std::size_t size);
  static void release(std::byte* memory, std::size_t size);

  struct Free {
    std::size_t size;
    void operator()(std::byte* memory) const { release(memory, size); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace warplite
