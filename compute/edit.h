// Edit distances of texts, as devices compute them: what is resident, and what a search asks. The
// distance is Levenshtein's over code points; results are the same on every device.
//
// Texts lie in tiles, sorted by length, 32 of them to a group whose characters are interleaved: as
// many lanes compare as many texts with one query, all of about the same length, and those whose
// length alone makes them too far are a prefix and a suffix of the tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/match.h"
#include "compute/ops.h"
#include "core/types.h"

namespace warplite::compute {

class TextMetricBuilder;

inline constexpr std::uint32_t kEditGroup = 32;
// Longer texts are in no tile: whoever searches compares them one by one (edit_distance.h).
inline constexpr std::uint32_t kLongestEditText = 4096;

// An EditLayout says where things lie in the bytes of a tile, each on 64 bytes. Texts are in the
// order (length, row); places past the last text, up to a whole group, have length 0, row 0, and
// count for nothing.
//   alphabet  u32[alphabet]          code points that occur, ascending; none where width is 4
//   rows      u16[32 · groups]       of each text
//   lengths   u16[32 · groups]       of each text, in code points
//   begins    u32[groups + 1]        first position of each group, and the number of positions
//   symbols   width[positions][32]   symbol of each text of the group at this position of it;
//                                    past a text's end the largest number of the width
// A symbol is an index into the alphabet; of width 1 with at most 255 of them, of width 2 with at
// most 65,535. Of width 4 it is the code point itself.
struct EditLayout {
  std::size_t alphabet = 0, rows = 0, lengths = 0, begins = 0, symbols = 0, size = 0;

  static EditLayout of(std::uint32_t alphabet, std::uint32_t texts, std::uint32_t positions,
                       std::uint32_t width) {
    const auto round = [](std::size_t n) { return (n + 63) / 64 * 64; };
    const std::size_t places = (std::size_t{texts} + kEditGroup - 1) / kEditGroup * kEditGroup;
    EditLayout at;
    at.rows = round(std::size_t{alphabet} * sizeof(std::uint32_t));
    at.lengths = at.rows + round(places * sizeof(std::uint16_t));
    at.begins = at.lengths + round(places * sizeof(std::uint16_t));
    at.symbols = at.begins + round((places / kEditGroup + 1) * sizeof(std::uint32_t));
    at.size = at.symbols + round(std::size_t{positions} * kEditGroup * width);
    return at;
  }
};

// Everything but `bytes` is host memory and outlives the call.
struct EditTile {
  const Buffer* bytes = nullptr;  // EditLayout::of(alphabet, texts, positions, width)
  const std::byte* host = nullptr;  // the same in host memory; null: not at hand
  std::uint32_t alphabet = 0, texts = 0, positions = 0, width = 0;
  // These mean what they mean in MatchTile. Rows without a text in the tile are no results.
  std::uint32_t rows = 0;  // at most kTileRows
  std::uint32_t id = 0;
  RowIdView rowids;
  const std::uint64_t* live = nullptr;
  std::uint32_t live_rows = 0;
};

struct EditWork {
  std::span<const EditTile> tiles;
  // Query q has the code points [begins[q], begins[q + 1]); any length.
  std::span<const std::uint32_t> begins;  // queries + 1
  std::span<const std::uint32_t> points;
  DistanceRange range;  // hits outside are not returned
  Cancellation* cancellation = nullptr;
  // Says by what a device may pass over texts (edit_metric.h), if tiles have host bytes; null:
  // nothing.
  const TextMetricBuilder* metric = nullptr;
  SearchCounters* counters = nullptr;  // added to; null: nobody asks

  std::size_t queries() const { return begins.size() - 1; }
  std::span<const std::uint32_t> query(std::size_t q) const {
    return points.subspan(begins[q], begins[q + 1] - begins[q]);
  }
};

// Threads, errors: as Device's operations. `edit_nearest` adds to a table whose thresholds hold
// from the start (TopK::threshold), `edit_within` appends, in any order.

}  // namespace warplite::compute
