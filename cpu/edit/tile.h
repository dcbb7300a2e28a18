// A tile of texts as the CPU reads it (compute/edit.h).
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compute/edit.h"
#include "cpu/edit/group.h"

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

  const compute::EditTile& tile() const { return *tile_; }
  std::uint32_t groups() const {
    return (tile_->texts + compute::kEditGroup - 1) / compute::kEditGroup;
  }
  EditGroup group(std::size_t i) const {
    const std::size_t place = i * compute::kEditGroup;
    const std::size_t texts = std::min<std::size_t>(tile_->texts - place, compute::kEditGroup);
    EditGroup group;
    group.symbols = symbols_ + std::size_t{begins_[i]} * compute::kEditGroup * tile_->width;
    group.lengths = lengths_ + place;
    group.rows = rows_ + place;
    group.shortest = group.lengths[0];
    group.longest = longest(i);
    group.texts = static_cast<std::uint32_t>((std::uint64_t{1} << texts) - 1);
    return group;
  }
  std::uint32_t longest(std::size_t group) const { return begins_[group + 1] - begins_[group]; }

  // kNoSymbol: no text has the character.
  std::uint32_t symbol(std::uint32_t point) const {
    if (tile_->width == 4) return point;
    const std::uint32_t* const end = alphabet_ + tile_->alphabet;
    const std::uint32_t* const found = std::lower_bound(alphabet_, end, point);
    return found == end || *found != point ? kNoSymbol
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
  // Returns how many groups have texts whose lengths are at most that far from a length.
  std::uint32_t groups_near(std::size_t length, std::int64_t apart) const {
    constexpr std::int64_t kMost = compute::kLongestEditText + 1;
    if (apart < 0) return 0;
    const auto middle = static_cast<std::int64_t>(length);
    const std::int64_t low = std::clamp<std::int64_t>(middle - apart, 0, kMost);
    const std::int64_t high = std::min(middle + std::min(apart, kMost) + 1, kMost);
    return first_of(static_cast<std::size_t>(high)) - first_of(static_cast<std::size_t>(low));
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
