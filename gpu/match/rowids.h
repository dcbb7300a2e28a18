// The rowids of a tile of postings (compute/match.h) that come as a list. To look at all of them,
// or to send them, takes longer than a query, and they stay the same: what is known is kept with
// the tile's buffer.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "core/types.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class MatchRowids {
 public:
  struct Extent {
    RowId least, greatest;
    bool ascending;
  };

  // `used` counts the device's bytes.
  explicit MatchRowids(std::atomic<std::size_t>& used) : used_(used) {}
  ~MatchRowids() { used_ -= copy_.size(); }

  // `list` holds `rows` rowids, the same in each call. REQUIRES: rows != 0
  Extent extent(const RowId* list, std::uint32_t rows);
  // A copy on the device. Throws Error{kNoMemory}.
  const RowId* resident(const RowId* list, std::uint32_t rows, Lane& lane);

 private:
  std::atomic<std::size_t>& used_;
  std::mutex mutex_;
  std::optional<Extent> extent_;
  DeviceBytes copy_;
};

// Returns what is kept with the tile's buffer.
inline MatchRowids& match_rowids(const compute::Buffer* tile) {
  const CudaBuffer& buffer = CudaBuffer::of(tile);
  return buffer.derived().of<MatchRowids>(buffer.used());
}

}  // namespace warplite::gpu
