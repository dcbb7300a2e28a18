// Match counting over columns of codes for many queries at once, each item of which counts 1, as
// kernels see it, and the steps of a search.
//
// A word is a slice: one bit of each of 32 queries. A code's slice of an item says whose ranges
// hold it, so that one look-up tests 32 queries, a warp 1,024; counts are added up bit by bit, as
// an adder does (32 queries of 14 items: about 30 logical instructions). Codes are first replaced
// by slots, the number of ranges' ends they have passed, so that a look-up table has no more
// slices than queries have ends. What the k-th best row of each query counts is found by counting
// again, with three thresholds at a time; nothing is stored but how many rows reach them. At last
// rows that reach it are written, of those that count just as much only strips of rows that may
// be of use: so rowids must ascend, from row to row and from tile to tile.
#pragma once

#include "gpu/match/codes.h"

namespace warplite::gpu {

inline constexpr std::uint32_t kSliceQueries = 1024;
// Columns come in groups; two 16-byte vectors say for each group and row where the slices are. A
// column that a query has several items on counts as several.
inline constexpr std::uint32_t kSliceColumns = 7;
inline constexpr std::uint32_t kSliceVectors = 2;
inline constexpr std::uint32_t kMostSliceGroups = 9;
// Slots of a column: one before all ends, and as many as there are ends.
inline constexpr std::uint32_t kSliceSlots = 2 * kSliceQueries + 8;
// Rows of a strip, for which a thread block counts.
inline constexpr std::uint32_t kSliceStrip = 4096;
inline constexpr std::uint32_t kTileStrips = compute::kTileRows / kSliceStrip;
// Counts have at most 6 bits, thresholds one more.
inline constexpr std::uint32_t kMostSliceBits = 7;
inline constexpr std::uint32_t kNoItem = ~std::uint32_t{0};
// Thresholds at a time.
inline constexpr std::uint32_t kSliceSteps = 3;

// A SliceRank says how many codes have an end of a range among 32, and how many have one before
// these.
struct SliceRank {
  std::uint32_t ends, before;
};

// The count of a query's k-th best row is `low` at least and below `high`.
struct SliceBounds {
  std::uint32_t low, high;
};

struct SliceView {
  CodeSearchView search;               // rows.queries ≤ kSliceQueries; k, most, kept, stop
  std::uint32_t groups;                // 1, 2, 4 or 9
  std::uint32_t strips;                // of all tiles: kTileStrips each
  const std::uint32_t* columns;        // [7 · groups] of codes, or kNoItem
  const std::uint32_t* items;          // [7 · groups][kSliceQueries] of ranges, or kNoItem
  // Made from these.
  SliceRank* ranks;                    // [tiles][7 · groups][kTileRows / 32]
  std::uint32_t* slices;               // [tiles][7 · groups][kSliceSlots][32]
  uint4* places;                       // [tiles][kTileRows][groups][kSliceVectors] in the slices
  // State of the search.
  SliceBounds* bounds;                 // [kSliceQueries]
  std::uint32_t* thresholds;           // [kSliceSteps][kMostSliceBits][32] slices
  std::uint32_t* totals;               // [kSliceSteps][kSliceQueries], 0 before
  std::uint16_t* counts;               // [2][strips][kSliceQueries] rows of a strip that reach it
  std::uint32_t* cuts;                 // [kSliceQueries] strips whose rows at the limit are of use
};

// The least of the numbers of groups that hold so many columns, 0: none.
constexpr std::uint32_t slice_groups(std::uint32_t columns) {
  for (const std::uint32_t groups : {1u, 2u, 4u, kMostSliceGroups}) {
    if (columns <= groups * kSliceColumns) return groups;
  }
  return 0;
}

// Bits of what a row may count.
constexpr unsigned slice_bits(std::uint32_t groups) {
  return groups == 1 ? 3 : groups == 2 ? 4 : groups == 4 ? 5 : 6;
}

// Slots and slices.
void launch_slice_tables(const SliceView& view, cudaStream_t stream);
// Narrows the bounds down, `steps` times; then finds the cuts and writes the rows that are kept.
void launch_slice_search(const SliceView& view, unsigned steps, cudaStream_t stream);

}  // namespace warplite::gpu
