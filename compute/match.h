// Match counts over postings, as devices count them: what is resident, what a search asks, and how
// results are ordered. papers/genie-2018 §II (match-count model), §III (counting and selection).
//
// A row is a set of keywords, a query a list of items, each a range of keywords with a weight. The
// count of a row is the sum, over the items and over the row's keywords within the item's range, of
// the item's weight. What encoders put into a row (index/) makes a keyword of it meet an item once,
// or as often as it should count.
//
// Rows are searched by tiles, at most kTileRows at a time, so that a row's number within its tile
// takes 16 bits and the counters of a tile lie in a cache, or in a GPU's shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/ops.h"
#include "core/types.h"

namespace warplite::compute {

inline constexpr std::uint32_t kTileRows = 65536;

// Keywords are 64-bit numbers that the encoder chooses.
using Keyword = std::uint64_t;

// A TileLayout says where things lie in the bytes of a tile, each on 64 bytes:
//   keys    u64[keywords]      ascending
//   begins  u32[keywords + 1]  first posting of each keyword, and the number of postings
//   rows    u16[postings]      rows that have the keyword, ascending, each once
struct TileLayout {
  std::size_t keys = 0, begins = 0, rows = 0, size = 0;

  static TileLayout of(std::uint32_t keywords, std::uint32_t postings) {
    const auto round = [](std::size_t n) { return (n + 63) / 64 * 64; };
    TileLayout at;
    at.begins = round(std::size_t{keywords} * sizeof(Keyword));
    at.rows = at.begins + round((std::size_t{keywords} + 1) * sizeof(std::uint32_t));
    at.size = at.rows + round(std::size_t{postings} * sizeof(std::uint16_t));
    return at;
  }
};

// Everything but `bytes` is host memory and outlives the call. Rows keep their rowids for as long as
// the buffer lives.
struct MatchTile {
  const Buffer* bytes = nullptr;  // TileLayout::of(keywords, postings)
  std::uint32_t keywords = 0;
  std::uint32_t postings = 0;
  // As in Block, these say where hits come from, and which rows take part.
  std::uint32_t rows = 0;
  std::uint32_t id = 0;
  RowIdView rowids;
  const std::uint64_t* live = nullptr;
  std::uint32_t live_rows = 0;
};

struct MatchItem {
  Keyword low, high;         // inclusive
  std::uint32_t weight = 1;
};

struct MatchWork {
  std::span<const MatchTile> tiles;
  // Query q has the items [begins[q], begins[q + 1]); the sum of a query's weights, times what its
  // ranges may meet in a row, stays below 2^31.
  std::span<const std::uint32_t> begins;  // queries + 1
  std::span<const MatchItem> items;
  // Only rows with at least this count are results. REQUIRES: ≥ 1
  std::uint32_t least = 1;
  Cancellation* cancellation = nullptr;

  std::size_t queries() const { return begins.size() - 1; }
};

// Results are hits at distance −count: the order of hits is then that of match counts, larger ones
// first, ties by rowid. Adds the k best of each query to `best`, k being that of the table.
// Threads, errors: as Device's operations.

}  // namespace warplite::compute
