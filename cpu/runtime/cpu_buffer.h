// Buffers of this device are host bytes, with what searches make of them.
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "compute/device.h"
#include "core/process/derived_store.h"

namespace warplite::cpu {

class CpuBuffer : public compute::Buffer {
 public:
  explicit CpuBuffer(compute::HostBytes bytes, std::atomic<std::size_t>& used)
      : bytes_(std::move(bytes)), used_(used) {
    used_ += bytes_.size;
  }
  ~CpuBuffer() override { used_ -= bytes_.size; }
  std::size_t size() const override { return bytes_.size; }
  const std::byte* data() const { return bytes_.data; }
  DerivedStore& derived() const { return derived_; }

  static const CpuBuffer& of(const compute::Buffer* buffer) {
    return *static_cast<const CpuBuffer*>(buffer);
  }

 private:
  compute::HostBytes bytes_;
  std::atomic<std::size_t>& used_;
  mutable DerivedStore derived_;
};

inline const std::byte* vectors_of(const compute::Block& block) {
  return CpuBuffer::of(block.vectors).data();
}

}  // namespace warplite::cpu
