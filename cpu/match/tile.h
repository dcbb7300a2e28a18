// A tile of postings as the CPU reads it (compute/match.h): its lists, and bitmaps of those that
// are long. A list that one row in 32 is in takes twice its bytes as a bitmap, and is added to
// counters several times as fast (bench/kernels/NOTES.md). Bitmaps are made when a query first
// wants them, and stay with the tile's buffer.
// Rows are counted kStripRows at a time, so that their counters stay in the first-level cache.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "compute/match.h"
#include "cpu/match/kernels.h"

namespace warplite::cpu {

constexpr std::uint32_t kStripRows = 32768;
constexpr std::size_t kSearches = 16;

// Counters for `rows` rows, as the kernels want them.
constexpr std::size_t padded(std::uint32_t rows) {
  return (rows + kMatchPadding - 1) / kMatchPadding * kMatchPadding;
}

class MatchTileView {
 public:
  MatchTileView(const compute::MatchTile& tile, const std::byte* bytes)
      : keywords_(tile.keywords) {
    const compute::TileLayout at = compute::TileLayout::of(tile.keywords, tile.postings);
    keys_ = reinterpret_cast<const compute::Keyword*>(bytes + at.keys);
    begins_ = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
    rows_ = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  }

  std::uint32_t keywords() const { return keywords_; }
  compute::Keyword key(std::uint32_t keyword) const { return keys_[keyword]; }
  std::uint32_t begin(std::uint32_t keyword) const { return begins_[keyword]; }
  const std::uint16_t* rows() const { return rows_; }
  // Writes the first keyword that is not below keys[i] to first[i]. Searches that wait for memory
  // do so together: kSearches of them take little more time than one.
  void lower_bounds(const compute::Keyword* keys, std::size_t n, std::uint32_t* first) const;

 private:
  const compute::Keyword* keys_;
  const std::uint32_t* begins_;
  const std::uint16_t* rows_;
  std::uint32_t keywords_;
};

// The bitmaps of one tile.
class LongLists {
 public:
  LongLists(const MatchTileView& tile, std::uint32_t rows);

  // Postings that make a list long.
  std::uint32_t long_from() const { return long_from_; }
  // Numbers of the keywords with long lists, ascending.
  const std::vector<std::uint32_t>& keywords() const { return keywords_; }
  // Returns the bitmap of keywords()[i]: strip by strip what MatchKernels::sum_bitmaps() takes, at
  // a stride of padded() / 8. `tile` is the one that this was made from.
  const std::uint8_t* bitmap(const MatchTileView& tile, std::size_t i) const;

 private:
  struct Slot {
    std::atomic<std::uint8_t*> memory{nullptr};  // null until somebody wanted it
    ~Slot() { delete[] memory.load(); }
  };

  void fill(const MatchTileView& tile, std::uint32_t keyword, std::uint8_t* bitmap) const;

  std::uint32_t rows_;
  std::uint32_t long_from_;
  std::vector<std::uint32_t> keywords_;
  std::unique_ptr<Slot[]> slots_;  // of keywords_[i]
};

}  // namespace warplite::cpu
