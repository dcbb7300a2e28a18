// Vectors on a GPU: a copy in its memory, or the host's bytes, pinned and read over the bus.
// Threads: read-only after construction, but for the half-precision copy (shadow.h), metric indexes
// (metric_index.h) and what is known of rowids (match_rowids.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include "compute/device.h"
#include "gpu/lane.h"
#include "gpu/match_rowids.h"
#include "gpu/metric_index.h"
#include "gpu/shadow.h"

namespace warplite::gpu {

class CudaBuffer : public compute::Buffer {
 public:
  // Copies the bytes. `used` counts the device's bytes.
  CudaBuffer(Gpu& gpu, cudaStream_t stream, const compute::HostBytes& bytes, std::atomic<std::size_t>& used);
  // Pins the host's bytes for as long as it lives.
  struct Mapped {};
  CudaBuffer(Mapped, Gpu& gpu, compute::HostBytes bytes, std::atomic<std::size_t>& used);
  ~CudaBuffer() override;

  std::size_t size() const override { return size_; }
  const std::byte* data() const { return data_; }  // an address that kernels may read
  bool mapped() const { return host_.owner != nullptr; }

  // The half-precision copy; null: there is none yet. Whoever holds it waits for its own work before
  // letting go.
  std::shared_ptr<const Shadow> shadow() const;
  // Makes it, if nobody has, on the lane's stream. The shape is always the same: that of the column.
  std::shared_ptr<const Shadow> make_shadow(Lane& lane, ElementType type, std::uint32_t dim,
                                            std::uint32_t rows) const;
  void drop_shadow() const;

  // Of a tile of postings.
  MatchRowids& match_rowids() const { return match_rowids_; }
  // Of vectors, or of a tile of texts.
  MetricIndexes& metric_indexes() const { return metric_indexes_; }

 private:
  std::optional<CurrentDevice> ending_;  // the first member goes last
  Gpu& gpu_;
  std::atomic<std::size_t>& used_;
  std::size_t size_ = 0;
  const std::byte* data_ = nullptr;
  DeviceBytes memory_;
  compute::HostBytes host_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Shadow> shadow_;
  mutable MatchRowids match_rowids_{used_};
  mutable MetricIndexes metric_indexes_{used_};
};

}  // namespace warplite::gpu
