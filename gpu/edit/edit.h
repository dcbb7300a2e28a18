// Edit distances (compute/edit.h) as kernels see them, and the steps of a search. Plain data, the
// same for host and device code; pointers are device addresses unless they say otherwise.
//
// A warp takes a group of 32 texts, a lane a text, and compares it with several queries at once,
// so that a character is loaded once for all of them. Columns of the dynamic programme are bits
// (Myers), in as many 32-bit words as the longest of these queries needs; where its characters
// occur in a query stands in shared memory. Groups whose lengths alone make them too far are
// passed over. Nearest texts: a threshold for each query falls as texts are found; first some
// texts of about the query's length are looked at. What is found goes into one list, and is then
// sorted by query.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "compute/edit.h"
#include "gpu/select/hit_sort.h"

namespace warplite::gpu {

struct EditTileView {
  const std::uint32_t* alphabet;  // null: symbols are code points
  const std::uint16_t* rows;
  const std::uint16_t* lengths;
  const std::uint32_t* begins;
  const void* symbols;
  const std::uint64_t* live;      // null: all rows live
  std::uint32_t alphabet_size, texts, groups, width;
};

// Longer queries are compared one at a time, by kernels of their own.
inline constexpr std::uint32_t kMostEditWords = 8;
inline constexpr std::uint32_t kMostShortQuery = 32 * kMostEditWords;
// Queries and tiles of a search: their numbers have 16 bits. Fewer queries than that at a time, so
// that the host takes the hits of some while others are compared.
inline constexpr std::uint32_t kMostEditQueries = 8192;
inline constexpr std::uint32_t kMostEditTiles = 4096;
// Distances that a query's hits are counted by, 2^shift of them together.
inline constexpr std::uint32_t kEditBins = 256;

// A hit is this until it is sorted: tile, row, query, distance in 16 bits each. For a long query:
// tile and row in 16 bits each, distance in 32.
struct EditSearchView {
  const EditTileView* tiles;      // those of a width follow each other
  std::uint32_t queries;          // by length; 1 when it is a long one
  const std::uint32_t* begins;    // [queries + 1]
  const std::uint32_t* points;
  std::uint32_t least;            // distances below are no hits
  std::uint32_t k;                // 0: all within the threshold
  std::uint32_t* thresholds;      // [queries] the largest distance that is of use
  std::uint32_t* tallies;         // [queries][kEditBins] hits at a distance, 0 before; k > 0 only
  unsigned shift;
  unsigned distance_bits;         // 16 or 32
  const std::uint32_t* stop;      // not 0 once the search was cancelled
  std::uint64_t* hits;            // [room]
  std::uint64_t room;
  unsigned long long* found;      // of hits, those without room too; 0 before
  unsigned long long* compared;   // texts with queries, added to; null: nobody asks
  std::uint32_t* states;          // long query: [warps][words][2][32]
  std::uint32_t state_warps;
};

// Tiles of one width, from `first` on.
struct EditTiles {
  std::uint32_t first, count, width;
};

// 32-bit words of a query so long, one of 1, 2, 3, 4, 8.
std::uint32_t edit_words(std::uint32_t points);
// Lowers thresholds by a look at some texts of about the queries' lengths.
void launch_edit_prime(const EditSearchView& search, const EditTiles& tiles, std::uint32_t words,
                       cudaStream_t stream);
// Finds the hits.
void launch_edit_scan(const EditSearchView& search, const EditTiles& tiles, std::uint32_t words,
                      cudaStream_t stream);
// The same for a query of any length, in thread blocks that use search.states.
void launch_edit_long(const EditSearchView& search, const EditTiles& tiles, cudaStream_t stream);

// Sorts hits within the thresholds by query: those of query q into sorted[begins[q] …
// begins[q + 1] − 1], tile and row in the upper 32 bits, distance in the lower.
// REQUIRES: counts are 0.
void launch_edit_sort(const EditSearchView& search, const HitCounts& hits, std::uint64_t* sorted,
                      cudaStream_t stream);

}  // namespace warplite::gpu
