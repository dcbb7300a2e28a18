// Match counting (compute/match.h) as kernels see it, and the steps of a search. Plain data, the
// same for host and device code; pointers are device addresses unless they say otherwise.
//
// A thread block counts for one query in one strip, a tile's rows or part of them: it finds the
// items' slices of the postings, adds them up in shared memory with as many bits a row as the query
// needs, and keeps the rows that can be among the k best, at most k of them. So nothing overflows.
// A floor, raised by whatever block finds k rows, tells later ones what is too little. The k best
// of what all strips kept come last. papers/genie-2018 §III counts in a table of the whole data set
// and gates what enters a hash table; a tile's counters fit in shared memory and need none.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compute/match.h"

#ifdef __CUDACC__
#define WARPLITE_HOST_DEVICE __host__ __device__
#else
#define WARPLITE_HOST_DEVICE
#endif

namespace warplite::gpu {

struct MatchTileView {
  const compute::Keyword* keys;
  const std::uint32_t* begins;
  const std::uint16_t* postings;
  const std::uint64_t* live;  // null: all rows live
  const RowId* rowids;        // null: a run from first_rowid on, or nobody asks
  RowId first_rowid;
  std::uint32_t keywords;
  std::uint32_t rows;
  std::uint32_t ascending;    // not 0: rowids do, from row to row
  std::uint32_t after;        // the first tile from which on all rowids are greater than here
};

// A row that was kept, and what it counts: (2^bits − 1 − count) in the upper `bits` bits, then the
// tile and the row in 16 bits each. So the best key is the least, and radix selection looks at few
// bits that are all the same.
struct MatchKey {
  std::uint32_t count, tile, row;
};
WARPLITE_HOST_DEVICE inline std::uint64_t make_match_key(unsigned bits, const MatchKey& key) {
  const std::uint64_t rest = (std::uint64_t{1} << bits) - 1 - key.count;
  const std::uint64_t place = std::uint64_t{key.tile} << 16 | key.row;
  return rest << (64 - bits) | place << (32 - bits);
}
WARPLITE_HOST_DEVICE inline MatchKey take_match_key(unsigned bits, std::uint64_t key) {
  const std::uint64_t rest = key >> (64 - bits);
  const auto place = static_cast<std::uint32_t>(key >> (32 - bits));
  return {static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1 - rest), place >> 16,
          place & 0xffff};
}

// The least count that is of use, which k rows reach, and the first tile from which on all rowids
// are greater than those of these rows: there, rows need more. kNoTile: nowhere.
inline constexpr std::uint32_t kNoTile = ~std::uint32_t{0};
WARPLITE_HOST_DEVICE inline std::uint64_t make_match_floor(std::uint32_t count,
                                                           std::uint32_t after) {
  return std::uint64_t{count} << 32 | (kNoTile - after);
}

// Queries that are counted with the same number of bits.
struct MatchSearchView {
  const MatchTileView* tiles;    // by their least rowid
  std::uint32_t tile_count;
  std::uint32_t strip_rows;      // a power of two, at most kTileRows
  unsigned bits;                 // of a counter: 4, 8, 16 or 32
  unsigned key_bits;             // of a count in a key: 8 at least
  std::uint32_t queries;
  const std::uint32_t* begins;   // [queries + 1]
  const compute::MatchItem* items;
  std::uint32_t k;
  std::uint32_t most;            // rows that count more are no results
  bool ascending;                // rowids do, from row to row and from tile to tile
  std::uint32_t* sums;           // [tiles][kTileRows], counts of the only query; null: count
  const std::uint32_t* stop;     // not 0 once the search was cancelled
  std::uint64_t* floors;         // [queries], as make_match_floor() has them
  std::uint64_t* kept;           // [queries][stride] keys
  std::uint32_t* kept_counts;    // [queries], 0 before
  std::size_t stride;
};

// The rows of a strip that leave room for what else the kernel keeps in shared memory.
std::uint32_t match_strip_rows(unsigned bits, std::size_t shared_memory);
// Counts, and keeps what may belong to the k best.
void launch_match_count(const MatchSearchView& search, cudaStream_t stream);

// Adds up sums of one query with so many items that a thread block would take too long. `most`:
// postings that an item may meet in a tile. Sums are 0 before.
void launch_match_sums(const MatchSearchView& search, std::uint32_t items, std::uint32_t most,
                       cudaStream_t stream);

// The k best of each query into out[q · room …], memory that the host reads, their number into
// found. With ascending rowids and up to kMostSortedMatches: best first. REQUIRES: room ≥ k, or
// there cannot be more.
inline constexpr std::uint32_t kMostSortedMatches = 1024;
struct MatchResultsView {
  std::uint64_t* out;
  std::uint32_t* found;
  std::uint32_t room;
};
void launch_match_select(const MatchSearchView& search, const MatchResultsView& results,
                         cudaStream_t stream);

}  // namespace warplite::gpu
