// Searches the postings of a tile for the rows that may be among a query's nearest, and compares
// those by their stored values.
//
// Rows whose counter (compute/sparse/scale.h) is below a floor are ruled out, and the floor follows
// from the distance that no hit exceeds. Ranges of rows in which no sum can reach it are passed over
// by their largest impacts.
// Threads: a PostingSearch is one thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/sparse.h"
#include "compute/sparse/postings.h"
#include "compute/sparse/results.h"
#include "compute/sparse/scale.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/sparse/kernels.h"

namespace warplite::cpu {

class PostingSearch {
 public:
  PostingSearch(const compute::SparseWork& work, compute::SparseResults& results, ItemLoop& loop,
                unsigned thread);

  struct Upcoming {
    const compute::SparseTile* tile;
    std::size_t query;
  };
  static constexpr std::size_t kAhead = 3;

  // Adds the hits of query `q` in the tile. False: this is no way to search it for the query, and
  // nothing was added. Of the searches that follow, the memory is asked for that they read: one that
  // waited for each list in turn would take half as long again. REQUIRES: the tiles have postings.
  bool search(const compute::SparseTile& tile, std::size_t q, std::span<const Upcoming> upcoming);

 private:
  using Postings = compute::SparsePostings<const std::byte>;
  struct List {
    std::uint32_t begin, end;
    double each;  // what an impact of 1 adds to S, or takes off
    std::uint16_t weight;
    bool taken_off;
  };
  struct Candidate {
    std::uint32_t row;
    std::int16_t counter;
  };

  // The lists of a tile that a query asks for.
  struct Plan {
    const compute::SparseTile* tile = nullptr;
    std::size_t query = 0;
    std::vector<List> columns;  // `begin` is the column
    std::vector<List> lists;
  };

  void look_ahead(std::span<const Upcoming> upcoming);
  static Postings postings_of(const compute::SparseTile& tile);
  void find_lists(const compute::SparseTile& tile, std::size_t q, Plan& plan) const;
  static void find_list(const Postings& postings, std::uint32_t key, double weight, bool taken_off,
                        Plan& plan);
  bool set_scale(std::uint32_t widest);
  void add_lists(const Postings& postings);
  void bound_ranges(std::size_t ranges);
  bool add_columns(std::uint32_t range);
  void search_ranges(const compute::SparseTile& tile, const Postings& postings);
  void take(const compute::SparseTile& tile, const std::uint32_t* places, std::size_t n,
            std::size_t first);
  void raise_floor();
  double floor_of(double distance) const;
  void compare_candidates(const compute::SparseTile& tile);
  void compare(const compute::SparseTile& tile, std::uint32_t row);
  void add_hits();
  bool is_done() const;
  void compare_others(const compute::SparseTile& tile, const Postings& postings);
  void mark_rows(const Postings& postings);

  const compute::SparseWork& work_;
  compute::SparseResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const SparseKernels& kernels_;
  // Of the query and the tile at hand.
  std::size_t query_ = 0;
  Plan plan_, next_;
  // Those that add come first, by what they add at most; maxima are of these.
  std::vector<SparseColumn> columns_, maxima_;
  compute::SparseScale scale_;
  std::int16_t floor_ = 1;
  std::vector<std::int16_t> counters_;
  std::vector<std::int16_t> bounds_;  // [group][range]: what this and the later groups of columns add
  std::vector<std::uint32_t> places_;
  std::vector<Candidate> candidates_;
  std::size_t cut_at_ = 0;  // candidates
  std::vector<Hit> hits_;
  std::vector<std::uint64_t> compared_, marked_;  // a bit a row
};

}  // namespace warplite::cpu
