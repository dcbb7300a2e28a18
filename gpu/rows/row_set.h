// The rows of a workload as kernels see them: builds a RowTable in a lane's table memory, and
// turns ordinals back into hits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "gpu/rows/row_table.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// Words of the bitmap that says which rows live; null: there is none, all do.
inline std::size_t live_words(const std::uint64_t* live, std::uint32_t rows) {
  return live == nullptr ? 0 : (std::size_t{rows} + 63) / 64;
}

struct KeptRowTable;

class RowSet {
 public:
  // Rows that one set may hold: their distances to kScanQueries queries lie in scratch memory.
  static constexpr std::uint32_t kMostRows = std::uint32_t{1} << 27;

  // Takes blocks of `work` from `first` on, one and those that `most` rows have room for beside it; `first`
  // moves past them.
  RowSet(const compute::Workload& work, std::size_t& first, std::uint32_t most = kMostRows);
  // Takes all blocks, those without rows to search too, so that ordinals are what the caller
  // counts them to be, and so more rows than a scan may. Throws Error{kUnsupported} when ordinals do
  // not suffice.
  RowSet(std::span<const compute::Block> blocks, const MatrixView& queries);

  std::uint32_t rows() const { return rows_; }
  std::uint32_t live_rows() const { return live_rows_; }
  bool all_live() const { return live_rows_ == rows_; }
  bool mapped() const { return mapped_; }  // some of them are read over the bus
  const std::vector<const compute::Block*>& blocks() const { return blocks_; }
  std::uint32_t first_ordinal(std::size_t block) const { return first_ordinals_[block]; }

  // Sends the table on its way; usable by what is launched on the lane's stream from now on.
  RowTable upload(Lane& lane);
  // The same, in memory that the set holds, whatever else the lane sends. The GPU keeps the table for the next
  // search of the same rows where all of them live, or those that a filter leaves (compute::IvfWork::filter): to
  // send that of a thousand blocks takes longer than to look into lists of rows.
  RowTable upload_once(const Gpu& gpu, Lane& lane, std::uint64_t filter = 0);
  // Returns, by block, the device address of its live bits; null where all rows live. Call it after
  // upload().
  const std::vector<const std::uint64_t*>& live() const { return live_; }

  Hit hit(const Candidate& candidate) const {
    const compute::Block& block = *blocks_[candidate.block];
    return {candidate.distance, block.rowids[candidate.row], block.id, candidate.row};
  }

 private:
  // What is sent, and where it lies.
  struct Pieces {
    Plan plan = {};
    Slot<RowBlock> descriptors;
    std::vector<Slot<std::uint64_t>> bits = {};

    explicit Pieces(const std::vector<const compute::Block*>& blocks);
  };

  void add(const compute::Block& block);
  RowTable send(const Pieces& pieces, const Arena& device, Lane& lane);
  RowTable describe(std::span<RowBlock> out) const;

  const std::uint32_t dim_;
  const std::size_t stride_;
  std::shared_ptr<const KeptRowTable> kept_;
  std::vector<const compute::Block*> blocks_;
  std::vector<std::uint32_t> first_ordinals_;
  std::vector<const std::uint64_t*> live_;
  std::uint32_t rows_ = 0;
  std::uint32_t live_rows_ = 0;
  bool mapped_ = false;
};

}  // namespace warplite::gpu
