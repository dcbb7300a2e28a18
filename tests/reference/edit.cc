#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/reference/reference.h"

namespace warplite::compute {
namespace {

using Points = std::vector<std::uint32_t>;

// The bytes of a tile, read text by text.
class TileTexts {
 public:
  TileTexts(const EditTile& tile, const std::byte* bytes)
      : tile_(tile), bytes_(bytes),
        at_(EditLayout::of(tile.alphabet, tile.texts, tile.positions, tile.width)) {}

  std::uint32_t row(std::uint32_t text) const { return number<std::uint16_t>(at_.rows, text); }

  Points points(std::uint32_t text) const {
    const auto begin = number<std::uint32_t>(at_.begins, text / kEditGroup);
    Points points(number<std::uint16_t>(at_.lengths, text));
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i] = point((std::size_t{begin} + i) * kEditGroup + text % kEditGroup);
    }
    return points;
  }

 private:
  template <class T>
  T number(std::size_t begin, std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_ + begin + i * sizeof value, sizeof value);
    return value;
  }
  std::uint32_t point(std::size_t place) const {
    if (tile_.width == 4) return number<std::uint32_t>(at_.symbols, place);
    const std::uint32_t symbol = tile_.width == 1 ? number<std::uint8_t>(at_.symbols, place)
                                                  : number<std::uint16_t>(at_.symbols, place);
    return number<std::uint32_t>(at_.alphabet, symbol);
  }

  const EditTile& tile_;
  const std::byte* bytes_;
  const EditLayout at_;
};

// Row by row of the dynamic programme.
std::size_t distance_between(std::span<const std::uint32_t> a, const Points& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

template <typename Body>
void for_each_hit(const EditWork& work, std::span<const std::byte* const> tiles,
                  const Body& body) {
  for (std::size_t t = 0; t < work.tiles.size(); ++t) {
    const EditTile& tile = work.tiles[t];
    const TileTexts texts(tile, tiles[t]);
    for (std::uint32_t text = 0; text < tile.texts; ++text) {
      const std::uint32_t row = texts.row(text);
      const bool lives = tile.live == nullptr || ((tile.live[row / 64] >> (row % 64)) & 1) != 0;
      if (!lives) continue;
      const Points points = texts.points(text);
      for (std::size_t q = 0; q < work.queries(); ++q) {
        const auto distance = static_cast<double>(distance_between(work.query(q), points));
        if (work.range.contains(distance)) {
          body(q, Hit{distance, tile.rowids[row], tile.id, row});
        }
      }
    }
  }
}

}  // namespace

void reference_edit_nearest(const EditWork& work, std::span<const std::byte* const> tiles,
                            HitTable& best) {
  for_each_hit(work, tiles, [&](std::size_t q, const Hit& hit) { best.row(q).push(hit); });
}

void reference_edit_within(const EditWork& work, std::span<const std::byte* const> tiles,
                           HitLists& out) {
  for_each_hit(work, tiles, [&](std::size_t q, const Hit& hit) { out[q].push_back(hit); });
}

}  // namespace warplite::compute
