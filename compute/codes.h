// Match counts over columns of codes, as devices count them: the model of match.h for rows that
// have one keyword in every column. Rows are read one after another, whatever a query asks, so
// that items which most rows match cost no more than others. papers/genie-2018 §II, §V-C.
//
// The code of a value is its rank among those of its column in the tile, so that a range of values
// is a range of codes, and what a query asks is said anew for each tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/match.h"

namespace warplite::compute {

// Bytes of a column's codes are u16[code_slots(rows)]; those past `rows` may be anything.
constexpr std::size_t code_slots(std::size_t rows) { return (rows + 63) / 64 * 64; }

// Everything but the buffers is host memory and outlives the call. Rows keep their rowids for as
// long as any of the buffers lives.
struct CodeTile {
  const Buffer* const* columns = nullptr;  // [CodeWork::columns]; null: no row matches in it
  // These mean what they mean in MatchTile.
  std::uint32_t rows = 0;  // at most kTileRows
  std::uint32_t id = 0;
  RowIdView rowids;
  const std::uint64_t* live = nullptr;
  std::uint32_t live_rows = 0;
};

struct CodeItem {
  std::uint32_t column;  // index into CodeTile::columns
  std::uint32_t weight;
};

// Both inclusive; low > high: no row matches.
struct CodeRange {
  std::uint16_t low = 1, high = 0;
};

struct CodeWork {
  std::span<const CodeTile> tiles;
  std::uint32_t columns = 0;
  // Query q has the items [begins[q], begins[q + 1]), in any order of columns; a row counts the
  // weights of those whose range holds its code. What a row may count is below 2^31.
  std::span<const std::uint32_t> begins;  // queries + 1
  std::span<const CodeItem> items;
  std::span<const CodeRange> ranges;      // [tiles][items]
  // Only rows with such counts are results. REQUIRES: least ≥ 1
  std::uint32_t least = 1, most = 0xffffffffu;
  Cancellation* cancellation = nullptr;

  std::size_t queries() const { return begins.size() - 1; }
};

// Results as in match.h: hits at distance −count; the k best of each query are added to `best`.

}  // namespace warplite::compute
