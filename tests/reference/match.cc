#include <vector>

#include "tests/reference/reference.h"

namespace warplite::compute {
namespace {

// The count of every row of a tile.
std::vector<std::uint32_t> count_rows(const MatchTile& tile, const std::byte* bytes,
                                      std::span<const MatchItem> items) {
  const TileLayout at = TileLayout::of(tile.keywords, tile.postings);
  const auto* keys = reinterpret_cast<const Keyword*>(bytes + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* rows = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  std::vector<std::uint32_t> counts(tile.rows);
  for (const MatchItem& item : items) {
    for (std::uint32_t keyword = 0; keyword < tile.keywords; ++keyword) {
      if (keys[keyword] < item.low || keys[keyword] > item.high) continue;
      for (std::uint32_t p = begins[keyword]; p < begins[keyword + 1]; ++p) {
        counts[rows[p]] += item.weight;
      }
    }
  }
  return counts;
}

}  // namespace

void reference_match(const MatchWork& work, std::span<const std::byte* const> tiles,
                     HitTable& best) {
  for (std::size_t q = 0; q < work.queries(); ++q) {
    const auto items = work.items.subspan(work.begins[q], work.begins[q + 1] - work.begins[q]);
    for (std::size_t t = 0; t < work.tiles.size(); ++t) {
      const MatchTile& tile = work.tiles[t];
      const std::vector<std::uint32_t> counts = count_rows(tile, tiles[t], items);
      for (std::uint32_t row = 0; row < tile.rows; ++row) {
        const bool lives = tile.live == nullptr || ((tile.live[row / 64] >> (row % 64)) & 1) != 0;
        if (!lives || counts[row] < work.least) continue;
        best.row(q).push({-static_cast<double>(counts[row]), tile.rowids[row], tile.id, row});
      }
    }
  }
}

}  // namespace warplite::compute
