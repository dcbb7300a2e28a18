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

// All live rows that have a vector.
struct SearchBlock {
  Part::Vectors vectors;             // keeps the vectors alive
  std::uint32_t part_live_rows = 0;  // with and without a vector
  Bitmap live;                       // what `block` points to, unless it is the part's
  compute::Block block;              // lacks its buffer, which is a device's

  SearchBlock() = default;
  SearchBlock(SearchBlock&&) = default;  // `block` points into `live`, which a copy would not
  SearchBlock& operator=(SearchBlock&&) = default;

  std::size_t bytes() const { return vectors.data.rows * vectors.data.stride(); }
  // Vectors that the cache knows, and devices keep.
  bool cached() const { return vectors.resident != nullptr; }
};
using SearchBlocks = std::vector<SearchBlock>;

// False when the part has no such row. REQUIRES: the view outlives the block.
bool load_block(const View& view, std::size_t column, std::uint32_t part, SearchBlock& out);

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
