#include <vector>

#include "tests/reference/reference.h"

namespace warplite::compute {
namespace {

// The count of a row; `ranges`, `columns`: the tile's.
std::uint64_t count_row(std::span<const CodeItem> items, const CodeRange* ranges,
                        const std::uint16_t* const* columns, std::uint32_t row) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint16_t* const codes = columns[items[i].column];
    if (codes == nullptr) continue;
    if (codes[row] >= ranges[i].low && codes[row] <= ranges[i].high) count += items[i].weight;
  }
  return count;
}

}  // namespace

void reference_match_codes(const CodeWork& work, std::span<const std::uint16_t* const> columns,
                           HitTable& best) {
  for (std::size_t q = 0; q < work.queries(); ++q) {
    const auto items = work.items.subspan(work.begins[q], work.begins[q + 1] - work.begins[q]);
    for (std::size_t t = 0; t < work.tiles.size(); ++t) {
      const CodeTile& tile = work.tiles[t];
      const CodeRange* const ranges =
          work.ranges.data() + t * work.items.size() + work.begins[q];
      for (std::uint32_t row = 0; row < tile.rows; ++row) {
        const bool lives = tile.live == nullptr || ((tile.live[row / 64] >> (row % 64)) & 1) != 0;
        if (!lives) continue;
        const std::uint64_t count =
            count_row(items, ranges, columns.data() + t * work.columns, row);
        if (count < work.least || count > work.most) continue;
        best.row(q).push({-static_cast<double>(count), tile.rowids[row], tile.id, row});
      }
    }
  }
}

}  // namespace warplite::compute
