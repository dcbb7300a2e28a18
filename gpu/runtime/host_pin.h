// A range of host memory that GPUs read over the bus. It is pinned while any of them needs it: the
// driver pins a range once, for all of them.
// Threads: any. Ownership: the memory outlives the pin.
#pragma once

#include <cstddef>

namespace warplite::gpu {

class HostPin {
 public:
  HostPin() = default;  // of nothing
  // Throws Error{kLimit} where somebody else has pinned some of it. REQUIRES: a CurrentDevice.
  HostPin(const std::byte* data, std::size_t size);
  HostPin(const HostPin&) = delete;
  HostPin& operator=(const HostPin&) = delete;
  ~HostPin();

  // Where the current GPU finds it.
  const std::byte* on_device() const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace warplite::gpu
