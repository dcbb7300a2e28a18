// The rows of one part, ready to be searched on any device.
// Threads: loading reads through the connection; what was loaded may be searched by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compute/ops.h"
#include "core/bitmap.h"
#include "engine/filter/filter.h"
#include "engine/table/view.h"

namespace warplite::engine {

// All live rows that have a vector, or some that were read by themselves.
struct SearchBlock {
  Part::Vectors vectors;             // keeps the vectors alive, where the host has them
  compute::Device* handed_to = nullptr;  // which alone has them; null: the host has them
  std::shared_ptr<const compute::Buffer> handed;  // its copy
  std::vector<std::uint32_t> some;   // numbers, in their part, of rows that were read; empty: all
  std::vector<RowId> rowids;         // of these
  std::uint32_t part_live_rows = 0;  // with and without a vector
  Bitmap live;                       // what `block` points to, unless it is the part's
  compute::Block block;              // lacks its buffer, which is a device's

  SearchBlock() = default;
  // `block` points into `live` and `rowids`, which a copy would not.
  SearchBlock(SearchBlock&&) = default;
  SearchBlock& operator=(SearchBlock&&) = default;

  std::size_t bytes() const { return vectors.data.rows * vectors.data.stride(); }
  // Vectors that the cache knows, and devices keep.
  bool cached() const { return !vectors.key.is_null(); }
};
using SearchBlocks = std::vector<SearchBlock>;

// False when the part has no such row. REQUIRES: the view outlives the block.
bool load_block(const View& view, std::size_t column, std::uint32_t part, SearchBlock& out);

// The same of a sealed part, whose vectors the device is to hold and the host is not. `shape`: of any of them. Throws
// NotTaken.
bool hand_over_block(compute::Device& device, const View& view, std::size_t column, std::uint32_t part,
                     const MatrixView& shape, SearchBlock& out);

// The same of the rows of a part that a selection leaves, which alone are read where that is
// possible. Hits in such a block have the row's place in `some`. REQUIRES: the selection leaves
// any.
bool load_some(const View& view, std::size_t column, std::uint32_t part, const Selection& rows,
               SearchBlock& out);

// Blocks as a device takes them, cut down to the rows that a selection leaves.
class Workset {
 public:
  // `whole`: blocks of which no row is left stay, so that those of all selections are the same ones.
  explicit Workset(bool whole = false) : whole_(whole) {}
  // REQUIRES: everything outlives this.
  void add(const SearchBlock& from, const Selection& rows, const compute::Buffer* buffer);
  void clear();
  const std::vector<compute::Block>& blocks() const { return blocks_; }

 private:
  const bool whole_;
  std::vector<compute::Block> blocks_;
  std::vector<Bitmap> live_;  // of blocks whose vectors are NULL in places, or of which no row is left
};

}  // namespace warplite::engine
