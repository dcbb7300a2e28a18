// A tile of texts as the CPU reads it (compute/edit.h).
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compute/edit.h"

namespace warplite::cpu {

class EditTileView {
 public:
  EditTileView(const compute::EditTile& tile, const std::byte* bytes)
      : tile_(&tile), alphabet_(reinterpret_cast<const std::uint32_t*>(bytes)) {
    const auto at = compute::EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width);
    rows_ = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
    lengths_ = reinterpret_cast<const std::uint16_t*>(bytes + at.lengths);
    begins_ = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
    symbols_ = bytes + at.symbols;
  }

  static constexpr std::uint32_t kNone = 0xffffffff;

  const compute::EditTile& tile() const { return *tile_; }
  std::uint32_t groups() const {
    return (tile_->texts + compute::kEditGroup - 1) / compute::kEditGroup;
  }
  // Of a group: how many texts it has, and of each of them row and length.
  std::uint32_t texts(std::uint32_t group) const {
    return std::min(tile_->texts - group * compute::kEditGroup, compute::kEditGroup);
  }
  const std::uint16_t* rows(std::uint32_t group) const {
    return rows_ + group * compute::kEditGroup;
  }
  const std::uint16_t* lengths(std::uint32_t group) const {
    return lengths_ + group * compute::kEditGroup;
  }
  std::uint32_t shortest(std::uint32_t group) const { return lengths(group)[0]; }
  std::uint32_t longest(std::uint32_t group) const { return begins_[group + 1] - begins_[group]; }
  // Those of a group from a position on.
  const std::byte* symbols(std::uint32_t group, std::uint32_t position) const {
    return symbols_ + (std::size_t{begins_[group]} + position) * compute::kEditGroup * tile_->width;
  }

  // kNone: no text has the character.
  std::uint32_t symbol(std::uint32_t point) const {
    if (tile_->width == 4) return point;
    const std::uint32_t* const end = alphabet_ + tile_->alphabet;
    const std::uint32_t* const found = std::lower_bound(alphabet_, end, point);
    return found == end || *found != point ? kNone
                                           : static_cast<std::uint32_t>(found - alphabet_);
  }
  // The first group with a text of at least this length, or groups().
  std::uint32_t first_of(std::size_t length) const {
    std::uint32_t low = 0, high = groups();
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (longest(middle) < length) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  const compute::EditTile* tile_;
  const std::uint32_t* alphabet_;
  const std::uint16_t* rows_;
  const std::uint16_t* lengths_;
  const std::uint32_t* begins_;
  const std::byte* symbols_;
};

}  // namespace warplite::cpu
