// The keywords of a tile as columns: keywords that follow each other, of which no row has two. The
// buckets of a hash function are such a column. Where most rows have one in every column, rows are
// a table of keywords, and many queries are counted by going through it (match_sliced.h).
// Threads: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/match/tile.h"

namespace warplite::cpu {

class MatchColumns {
 public:
  MatchColumns(const MatchTileView& tile, std::uint32_t rows);

  // Returns the first keyword of each of columns() = n columns, and the number of keywords; it is
  // empty when rows are no such table.
  const std::vector<std::uint32_t>& begins() const { return begins_; }
  std::uint32_t columns() const {
    return begins_.empty() ? 0 : static_cast<std::uint32_t>(begins_.size() - 1);
  }

 private:
  std::vector<std::uint32_t> begins_;
};

}  // namespace warplite::cpu
