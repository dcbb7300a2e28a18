// Edit distances on a GPU (compute/edit.h), many queries at a time. With a search go the tiles'
// descriptors, bitmaps of rows that live, and the queries. Takes queries of any length and any
// number of hits: where these exceed the room there is, with more room or fewer queries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compute/edit.h"
#include "gpu/edit/tiles.h"
#include "gpu/metric/texts.h"
#include "gpu/select/hit_taker.h"

namespace warplite::gpu {

class EditSearch {
 public:
  // `indexed`: all tiles have metric indexes, which within() uses.
  EditSearch(const Gpu& gpu, Lane& lane, const compute::EditWork& work, bool indexed = false);

  // Each throws Error{kNoMemory}, Error{kInterrupted}.
  void nearest(compute::HitTable& best);
  void within(compute::HitLists& out);

 private:
  struct Query {
    std::uint32_t number, length;
    std::uint32_t threshold;  // the largest distance that is of use
  };
  struct Pieces;
  // Takes the hits of a query: tile and row in 16 bits each, distance in 32.
  using Take = std::function<void(std::uint32_t query, std::span<const std::uint64_t> hits)>;
  // The largest distance that is of use to a query so far; negative: none.
  using Threshold = std::function<double(std::uint32_t query)>;

  void search(std::size_t k, const Threshold& threshold, const Take& take);
  std::vector<Query> useful_queries(const Threshold& threshold) const;
  // Queries of as many words (0: a long one).
  void search_class(std::span<Query> queries, std::uint32_t words, std::size_t k, const Take& take);
  void search_some(std::span<Query> queries, std::uint32_t words, std::size_t k, const Take& take);
  void search_group(std::span<Query> queries, std::uint32_t words, std::size_t k, const Take& take);
  // Returns the number of hits, more than `room`: not all of them are there.
  std::uint64_t run(std::span<Query> queries, std::uint32_t words, std::size_t k,
                    std::uint64_t room, bool prime);
  void launch(const EditSearchView& view, std::uint32_t words, bool prime);
  // Compares queries of as many words through metric indexes, first those that tell whether it is
  // worth it; returns those that are left.
  std::span<Query> search_by_metric(std::span<Query> queries, std::uint32_t words,
                                    const Take& take);
  MetricTextSearch metric_view(const EditSearchView& view, const Pieces& at,
                               const Arena& arena) const;
  void count(const MetricTotals& totals, std::size_t queries);
  Pieces lay_out(std::span<const Query> queries, std::uint32_t words, std::size_t k,
                 std::uint64_t room) const;
  EditSearchView view_of(std::span<const Query> queries, const Pieces& at, const Arena& arena,
                         std::size_t k) const;
  void fill(std::span<const Query> queries, const Pieces& at, const Staging& host) const;
  // Takes the hits of the last run, mostly while others are searched for.
  void take_hits(std::span<const Query> queries, const Take& take);
  compute::Cancellation* cancellation() const { return work_.cancellation; }
  Hit hit_of(std::uint64_t hit) const;

  const Gpu& gpu_;
  Lane& lane_;
  const compute::EditWork& work_;
  const bool indexed_;
  bool by_metric_ = false;  // the queries at hand are compared through metric indexes
  MetricTotals evaluated_{};  // through them
  // Distances that may be hits.
  std::uint32_t least_ = 0;
  double most_ = 0;
  std::vector<const compute::EditTile*> tiles_;  // by width
  // Tiles that are searched.
  std::span<const compute::EditTile* const> sent_;
  EditTable table_{};
  HitTaker<std::uint64_t> hits_;
};

}  // namespace warplite::gpu
