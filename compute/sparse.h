// Sparse vectors (core/sparse.h) under the inner product, as devices search them: what is resident,
// what a search asks, and the canonical distance.
//
// The distance of a row x from a query q is −S with −0 made 0, S the sum over the indexes that both
// have, ascending, of (double)q·(double)x, rounded after each sum: products are exact. Every live
// row that is not NULL has one, 0 where nothing is in common. Postings with impacts of 8 bits only
// nominate rows (index/tiles/sparse_postings.h); stored values decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compute/ops.h"
#include "core/column.h"
#include "core/sparse.h"

namespace warplite::compute {

// A query, or any value that others are compared with: finds the value at an index in about a step.
class SparseQuery {
 public:
  // REQUIRES: the bytes begin with a value that has no fault (core/sparse.h).
  explicit SparseQuery(const char* bytes);

  std::span<const SparseEntry> entries() const { return entries_; }
  // The end of those bytes.
  const char* end() const { return end_; }
  // The distance of a value, likewise.
  double distance(const char* bytes) const;

 private:
  // Two places of a hash table; the second is taken after the first, and what finds both taken goes to
  // the next pair. Free ones have an index that no entry has.
  struct Pair {
    std::uint32_t index[2];
    float value[2];
  };

  std::size_t home(std::uint32_t index) const {
    return static_cast<std::size_t>(index * std::uint32_t{0x9e3779b1} >> shift_);
  }

  std::vector<SparseEntry> entries_;
  const char* end_;
  std::vector<Pair> pairs_;
  unsigned shift_;  // 32 less the bits of a pair's place
};

// Everything is host memory but `postings`, and outlives the call.
struct SparseTile {
  const Column* values = nullptr;    // of type kSparse
  const Buffer* postings = nullptr;  // of these rows; null: they are compared one by one
  // These mean what they mean in MatchTile.
  std::uint32_t rows = 0;  // at most kTileRows where there are postings
  std::uint32_t id = 0;
  RowIdView rowids;
  const std::uint64_t* live = nullptr;
  std::uint32_t live_rows = 0;

  bool takes_part(std::uint32_t row) const {
    return (live == nullptr || (live[row / 64] >> row % 64 & 1) != 0) && !values->is_null(row);
  }
};

struct SparseWork {
  std::span<const SparseTile> tiles;
  std::span<const SparseQuery> queries;
  DistanceRange range;                 // hits outside are not returned
  Cancellation* cancellation = nullptr;
  SearchCounters* counters = nullptr;  // added to; null: nobody asks
};

}  // namespace warplite::compute
