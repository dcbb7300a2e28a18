// Searches of sparse vectors by postings (compute/sparse/postings.h) as kernels see them, and their
// steps. Plain data, the same for host and device code; pointers are device addresses unless they
// say otherwise.
//
// A thread block counts for one query in one strip, a tile's rows or part of them, as
// compute/sparse/scale.h says: 16 bits a row in shared memory. Rows that may be among the nearest are
// kept by the most that their sum S of products can be. Strips come in phases; after each, the k-th
// best of a query's rows says what the others must reach. Units differ from tile to tile, so bounds
// are sums S, as doubles not below 0, whose bits are in the order of the numbers. The host compares
// the stored values of those that are left.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/sparse.h"

namespace warplite::gpu {

// The rows of a strip at most, so many that several thread blocks share a multiprocessor's memory.
inline constexpr std::uint32_t kSparseStrip = 16384;

struct SparseTileView {
  const std::uint32_t* column_keys;
  const float* column_steps;
  const std::uint8_t* columns;
  const std::uint32_t* buckets;
  const std::uint32_t* list_keys;
  const float* list_steps;
  const std::uint32_t* begins;
  const std::uint16_t* places;
  const std::uint8_t* impacts;
  const std::uint64_t* live;  // null: all rows live
  std::uint32_t rows, padded_rows;
  std::uint32_t column_count;
  std::uint32_t shift;
  std::uint32_t negative;     // not 0: there are values below 0
  std::uint32_t widest;       // entries of a row, at most
};

struct SparseStrip {
  std::uint32_t tile, first;  // row, a multiple of kSparseStrip
};

// A strip that cannot be searched by postings for a query.
struct SparseLeft {
  std::uint32_t strip, query;
};

struct SparseSearchView {
  const SparseTileView* tiles;
  const SparseStrip* strips;
  std::uint32_t queries;
  const std::uint32_t* begins;    // [queries + 1]
  const SparseEntry* entries;
  std::uint32_t k;                // 0: nobody knows how many rows reach what, all are kept
  const std::uint32_t* stop;      // not 0 once the search was cancelled
  std::uint64_t* floors;          // [queries] what S must reach
  std::uint64_t* windows;         // [queries] so far S may lie below what it can be at most; 0 before
  std::uint64_t* others;          // [queries] what S of rows that were not looked at stays below; 0 before
  std::uint64_t* kept;            // [queries][stride] keys
  std::uint32_t* kept_counts;     // [queries], 0 before; more than `stride`: some are lost
  std::size_t stride;
  SparseLeft* left;               // [strips · queries]
  std::uint32_t* left_count;      // 0 before
};

// A key: the upper half of the double that is above what S can be, then the tile and the row in 16
// bits each.
constexpr std::uint64_t make_sparse_key(std::uint32_t bound, std::uint32_t tile,
                                        std::uint32_t row) {
  return std::uint64_t{bound} << 32 | tile << 16 | row;
}
constexpr std::uint32_t sparse_key_bound(std::uint64_t key) {
  return static_cast<std::uint32_t>(key >> 32);
}
constexpr std::uint32_t sparse_key_tile(std::uint64_t key) { return key >> 16 & 0xffff; }
constexpr std::uint32_t sparse_key_row(std::uint64_t key) { return key & 0xffff; }
// Bounds as numbers, and what S of a key's row is at most.
constexpr double sparse_number(std::uint64_t bound) { return std::bit_cast<double>(bound); }
constexpr double sparse_key_most(std::uint64_t key) {
  return sparse_number(std::uint64_t{sparse_key_bound(key)} << 32);
}

// Counts in `count` strips from `first` on, and keeps what may belong to the k best.
void launch_sparse_count(const SparseSearchView& search, std::uint32_t first, std::uint32_t count,
                         cudaStream_t stream);

// Raises floors by what was kept, and drops what does not reach them.
void launch_sparse_cut(const SparseSearchView& search, cudaStream_t stream);

// The same, and hands over what is left: memory that the host reads.
struct SparseResultsView {
  std::uint64_t* out;         // [queries][stride] keys
  std::uint32_t* found;       // [queries]; more than `stride`: some are lost
  std::uint64_t* floors;      // [queries], as above
  std::uint64_t* others;      // [queries], as above
  SparseLeft* left;           // [strips · queries]
  std::uint32_t* left_count;
};
void launch_sparse_results(const SparseSearchView& search, const SparseResultsView& results,
                           cudaStream_t stream);

// Marks the rows of all strips that have an entry in common with a query: bit `row` of the strip's
// words from marks[query · words + strip · kSparseStrip / 32] on. Strips that were left are not
// marked.
void launch_sparse_marks(const SparseSearchView& search, std::uint32_t strips,
                         std::uint32_t* marks, cudaStream_t stream);

}  // namespace warplite::gpu
