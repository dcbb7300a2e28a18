// Vectors on a GPU: a copy in its memory, or the host's bytes, pinned and read over the bus.
// Threads: any; the bytes never change.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "compute/device.h"
#include "core/process/derived_store.h"
#include "gpu/runtime/lane.h"
#include "gpu/runtime/upload.h"

namespace warplite::gpu {

class CudaBuffer : public compute::Buffer {
 public:
  // Copies the bytes, from another GPU that has them where the two are linked. `used` counts the
  // device's bytes.
  CudaBuffer(Gpu& gpu, Upload& upload, const compute::HostBytes& bytes,
             std::atomic<std::size_t>& used);
  // Pins the host's bytes for as long as it lives.
  struct Mapped {};
  CudaBuffer(Mapped, Gpu& gpu, compute::HostBytes bytes, std::atomic<std::size_t>& used);
  ~CudaBuffer() override;

  std::size_t size() const override { return size_; }
  const std::byte* data() const { return data_; }  // an address that kernels may read
  // Elements from a place of the buffer's layout on.
  template <typename T>
  const T* at(std::size_t offset) const {
    return reinterpret_cast<const T*>(data_ + offset);
  }
  bool mapped() const { return host_.owner != nullptr; }

  // Returns what searches made of the buffer. These things lie in this device's memory; `used()`
  // counts their bytes.
  DerivedStore& derived() const { return derived_; }
  Gpu& gpu() const { return gpu_; }
  std::atomic<std::size_t>& used() const { return used_; }

  static const CudaBuffer& of(const compute::Buffer* buffer) {
    return *static_cast<const CudaBuffer*>(buffer);
  }

 private:
  bool copy(const CudaBuffer* twin, cudaStream_t stream);

  std::optional<CurrentDevice> ending_;  // the first member goes last
  Gpu& gpu_;
  std::atomic<std::size_t>& used_;
  std::size_t size_ = 0;
  const std::byte* data_ = nullptr;
  DeviceBytes memory_;
  compute::HostBytes host_;
  mutable DerivedStore derived_;
};

}  // namespace warplite::gpu
