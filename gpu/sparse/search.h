// Searches of sparse vectors on a GPU (compute/sparse.h): kernels nominate rows by postings, threads of
// the host compare their stored values, which lie in its memory. Tiles without postings, strips whose
// counters could not tell rows apart, and rows that have nothing in common with a query, where too few
// others are near, are the host's, too.
// Takes any k and any queries. Keys of rows have limited room; queries whose keys did not fit are
// searched once more, with room for as many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/sparse.h"
#include "compute/sparse/results.h"
#include "gpu/runtime/lane.h"
#include "gpu/sparse/compare.h"
#include "gpu/sparse/sparse.h"
#include "gpu/sparse/tiles.h"

namespace warplite::gpu {

class SparseSearch {
 public:
  SparseSearch(Lane& lane, const compute::SparseWork& work, compute::SparseResults& results);

  // Adds what is found to the results. Throws Error{kNoMemory}, Error{kInterrupted}.
  void run();

 private:
  using Queries = std::span<const std::uint32_t>;
  struct Pieces;
  // A query to which rows may be near that kernels did not look at.
  struct Unfinished {
    std::uint32_t query;
    std::vector<std::uint32_t> done;     // nominees, by tile and row
    std::vector<std::uint32_t> strips;   // that were left, ascending
  };

  void search_tiles(std::span<const compute::SparseTile* const> tiles);
  // `room`: for so many keys of each query at least.
  void search_queries(Queries queries, std::size_t room);
  void search_group(Queries queries, std::size_t room);
  SparseSearchView send(Queries queries, const Pieces& at, const Arena& arena);
  void launch(const SparseSearchView& search, const SparseResultsView& results) const;
  void take(Queries queries, std::size_t stride, const SparseResultsView& results);
  void compare_nominees(Queries queries, std::size_t stride, const SparseResultsView& results);
  void compare_left(std::span<const SparseLeft> left);
  void count_searched(std::size_t queries, std::span<const SparseLeft> left) const;
  void search_others();
  void search_others(std::span<const Unfinished> queries);
  void search_plain(std::span<const compute::SparseTile* const> tiles);
  SparseCompare::Rows rows_of(const SparseStrip& strip) const;
  double floor_of(std::uint32_t query) const;

  Lane& lane_;
  const compute::SparseWork& work_;
  compute::SparseResults& results_;
  SparseCompare compare_;
  const std::size_t k_;             // 0: nobody knows how many rows are in the range
  const SparseTiles* tiles_ = nullptr;
  std::vector<double> floors_;      // of queries: what kernels know that S must reach
  std::vector<std::uint32_t> lost_;
  std::size_t lost_room_ = 0;
  std::vector<Unfinished> unfinished_;
};

}  // namespace warplite::gpu
