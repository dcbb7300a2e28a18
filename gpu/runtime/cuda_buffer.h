// Vectors on a GPU: a copy in its memory, or the host's bytes, pinned and read over the bus; or a
// copy of the first of them, and the others read so.
// Threads: any; the bytes never change.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "compute/device.h"
#include "core/process/derived_store.h"
#include "gpu/runtime/host_pin.h"
#include "gpu/runtime/lane.h"
#include "gpu/runtime/upload.h"

namespace warplite::gpu {

class CudaBuffer : public compute::Buffer {
 public:
  // Copies the bytes, from another GPU that has them where the two are linked. `used` counts the
  // device's bytes.
  CudaBuffer(Gpu& gpu, Upload& upload, const compute::HostBytes& bytes,
             std::atomic<std::size_t>& used);
  // The same of the first `held` alone. Keeps the host's bytes pinned for as long as it lives.
  CudaBuffer(Gpu& gpu, Upload& upload, compute::HostBytes bytes, std::size_t held,
             std::atomic<std::size_t>& used);
  ~CudaBuffer() override;

  std::size_t size() const override { return size_; }
  const std::byte* data() const { return at<std::byte>(0); }  // an address that kernels may read
  // Elements from a place of the buffer's layout on: all of the same, as it holds or maps it.
  template <typename T>
  const T* at(std::size_t offset) const {
    return reinterpret_cast<const T*>(offset < held() ? memory_.data() + offset
                                                      : mapped_ + (offset - held()));
  }
  // Says whether any of it is read over the bus.
  bool mapped() const { return held() != size_; }

  // Returns what searches made of the buffer. These things lie in this device's memory; `used()`
  // counts their bytes.
  DerivedStore& derived() const { return derived_; }
  Gpu& gpu() const { return gpu_; }
  std::atomic<std::size_t>& used() const { return used_; }

  static const CudaBuffer& of(const compute::Buffer* buffer) {
    return *static_cast<const CudaBuffer*>(buffer);
  }

 private:
  std::size_t held() const { return memory_.size(); }
  // Fills memory_.
  void hold(Upload& upload, const compute::HostBytes& bytes);
  bool copy(const CudaBuffer* twin, cudaStream_t stream);

  std::optional<CurrentDevice> ending_;  // the first member goes last
  Gpu& gpu_;
  std::atomic<std::size_t>& used_;
  std::size_t size_ = 0;
  compute::HostBytes host_;  // outlives its pin
  HostPin pin_;
  const std::byte* mapped_ = nullptr;  // what comes behind memory_
  DeviceBytes memory_;
  mutable DerivedStore derived_;
};

}  // namespace warplite::gpu
