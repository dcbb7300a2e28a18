// The keywords of a tile by hashing, for more look-ups than there are keywords: a fifth of the time
// of a binary search.
// Threads: find() by any.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "cpu/match/tile.h"

namespace warplite::cpu {

class KeywordTable {
 public:
  void fill(const MatchTileView& tile) {
    const std::size_t slots = std::bit_ceil(2 * std::size_t{tile.keywords()} + 2);
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots));
    slots_.assign(slots, kEmpty);
    for (std::uint32_t keyword = 0; keyword < tile.keywords(); ++keyword) {
      std::size_t slot = home(tile.key(keyword));
      while (slots_[slot] != kEmpty) slot = (slot + 1) & (slots - 1);
      slots_[slot] = keyword;
    }
  }

  // The number of the keyword; tile.keywords() when it is none of this tile, with which the table
  // was filled.
  std::uint32_t find(const MatchTileView& tile, compute::Keyword key) const {
    for (std::size_t slot = home(key);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot] == kEmpty) return tile.keywords();
      if (tile.key(slots_[slot]) == key) return slots_[slot];
    }
  }

 private:
  static constexpr std::uint32_t kEmpty = 0xffffffffu;

  std::size_t home(compute::Keyword key) const {
    return static_cast<std::size_t>((key ^ key >> 32) * 0x9e3779b97f4a7c15u >> shift_);
  }

  std::vector<std::uint32_t> slots_;
  unsigned shift_ = 0;
};

}  // namespace warplite::cpu
