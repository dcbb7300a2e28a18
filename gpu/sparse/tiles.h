// Tiles of sparse vectors that have postings, as kernels search them.
// Threads: belongs to one search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/sparse.h"
#include "gpu/runtime/lane.h"
#include "gpu/sparse/sparse.h"

namespace warplite::gpu {

class SparseTiles {
 public:
  // A number of a tile has 16 bits.
  static constexpr std::size_t kMost = 4096;

  // Sends what tells of the tiles, and bitmaps of rows that live, to the lane's table.
  // REQUIRES: at most kMost, and rows in each. Throws Error{kNoMemory}.
  SparseTiles(Lane& lane, std::span<const compute::SparseTile* const> tiles);

  const compute::SparseTile& tile(std::uint32_t number) const { return *tiles_[number]; }
  std::span<const SparseStrip> strips() const { return strips_; }
  std::size_t rows() const { return rows_; }
  std::uint64_t live_rows() const { return live_rows_; }

  // Sets what a search reads of them.
  void describe(SparseSearchView& search) const {
    search.tiles = views_;
    search.strips = placed_;
  }

 private:
  const std::span<const compute::SparseTile* const> tiles_;
  std::vector<SparseStrip> strips_;
  std::size_t rows_ = 0;
  std::uint64_t live_rows_ = 0;
  const SparseTileView* views_ = nullptr;
  const SparseStrip* placed_ = nullptr;
};

}  // namespace warplite::gpu
