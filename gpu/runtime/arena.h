// Memory by type: a plan says where each piece of one allocation lies, and a slot names the piece,
// in the device's memory as well as in the pinned memory from which the host sends it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <span>

#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {

// Pieces follow each other in the order in which they are added, each on 256 bytes. A copy of a
// plan stands for the pieces that there were at the time.
class Plan {
 public:
  std::size_t size() const { return size_; }

 private:
  template <typename T>
  friend class Slot;

  std::size_t add(std::size_t bytes) {
    const std::size_t at = size_;
    size_ += (bytes + 255) / 256 * 256;
    return at;
  }

  std::size_t size_ = 0;
};

// `count` elements, added to a plan.
template <typename T>
class Slot {
 public:
  Slot(Plan& plan, std::size_t count) : at_(plan.add(count * sizeof(T))), count_(count) {}

  std::size_t at() const { return at_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  std::size_t at_, count_;
};

// Memory that kernels read and write, as long as whoever gave it keeps it.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}

  template <typename T>
  T* operator[](const Slot<T>& slot) const {
    return reinterpret_cast<T*>(base_ + slot.at());
  }
  template <typename T>
  std::byte* bytes(const Slot<T>& slot) const {
    return base_ + slot.at();
  }

 private:
  friend class Staging;
  std::byte* base_;
};

// Pinned memory in which the host writes what goes to an arena.
class Staging {
 public:
  explicit Staging(std::byte* base) : base_(base) {}

  template <typename T>
  std::span<T> operator[](const Slot<T>& slot) const {
    return {reinterpret_cast<T*>(base_ + slot.at()), slot.count()};
  }
  // Writes zeros from `first` on up to the end of the plan.
  template <typename T>
  void clear(const Slot<T>& first, const Plan& plan) const {
    std::memset(base_ + first.at(), 0, plan.size() - first.at());
  }
  // Sends the pieces of the plan to their places in `to`.
  void send(const Plan& plan, const Arena& to, cudaStream_t stream, const char* what) const {
    check(cudaMemcpyAsync(to.base_, base_, plan.size(), cudaMemcpyHostToDevice, stream), what);
  }

 private:
  std::byte* base_;
};

}  // namespace warplite::gpu
