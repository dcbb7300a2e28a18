// Finds what a query meets in a tile of postings: slices of lists, and bitmaps of lists that
// are long. Not thread-safe: one per thread, which keeps its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compute/match.h"
#include "cpu/match/tile.h"

namespace warplite::cpu {

// Postings that add `weight` to their rows.
struct Slice {
  std::uint32_t begin, end, weight;
};

class MatchLists {
 public:
  // Met is what an item meets: keywords `first` … `end` − 1.
  struct Met {
    std::uint32_t first, end, weight;
  };

  // Finds what a query's items meet. Returns a number that no row's count exceeds. `check` is
  // called about every millisecond, and may throw.
  std::uint64_t find(const MatchTileView& view, std::span<const compute::MatchItem> items,
                     const std::function<void()>& check);
  const std::vector<Met>& met() const { return met_; }
  // Fills what follows. `lists` are those of the same tile.
  void take(const MatchTileView& view, const LongLists& lists);

  // Whoever counts takes from the front of slices and bitmaps what is counted.
  std::vector<Slice>& slices() { return slices_; }
  std::vector<const std::uint8_t*>& bitmaps() { return bitmaps_; }
  // True: a slice may hold several lists, so that its rows do not ascend; there are no bitmaps.
  bool whole() const { return whole_; }

 private:
  std::uint64_t find_some(const MatchTileView& view, std::span<const compute::MatchItem> items);
  void take_list(const MatchTileView& view, const LongLists& lists, std::uint32_t keyword,
                 std::uint32_t weight);

  std::vector<compute::Keyword> ends_;  // of some items
  std::vector<std::uint32_t> found_;    // by ends_
  std::vector<Met> met_;
  std::vector<Slice> slices_;
  std::vector<const std::uint8_t*> bitmaps_;
  bool whole_ = false;
};

}  // namespace warplite::cpu
