#include "cpu/match/columns.h"

namespace warplite::cpu {

MatchColumns::MatchColumns(const MatchTileView& tile, std::uint32_t rows) {
  const std::uint32_t postings = tile.begin(tile.keywords());
  // Rows have a keyword in every other column at least.
  const std::uint64_t most = rows == 0 ? 0 : 2 * std::uint64_t{postings} / rows + 1;
  std::vector<std::uint32_t> last(rows, 0);  // the column that a row was last seen in, from 1 on
  const auto seen = [&](std::uint32_t keyword, std::uint32_t column) {
    for (std::uint32_t p = tile.begin(keyword); p < tile.begin(keyword + 1); ++p) {
      if (last[tile.rows()[p]] == column) return true;
    }
    return false;
  };
  for (std::uint32_t keyword = 0; keyword < tile.keywords(); ++keyword) {
    if (begins_.empty() || seen(keyword, static_cast<std::uint32_t>(begins_.size()))) {
      begins_.push_back(keyword);
      if (begins_.size() > most) {
        begins_.clear();
        return;
      }
    }
    const auto column = static_cast<std::uint32_t>(begins_.size());
    for (std::uint32_t p = tile.begin(keyword); p < tile.begin(keyword + 1); ++p) {
      last[tile.rows()[p]] = column;
    }
  }
  begins_.push_back(tile.keywords());
}

}  // namespace warplite::cpu
