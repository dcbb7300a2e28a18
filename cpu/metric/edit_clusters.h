// A batch of queries through the List of Clusters of a tile (compute/edit_metric.h).
// Threads: one, which shares the work out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/metric/edit_measures.h"
#include "cpu/metric/edit_visits.h"

namespace warplite::cpu {

class ClusterSearch {
 public:
  // Everything outlives it. `k`: 0 for all within the limits.
  ClusterSearch(const compute::EditWork& work, const EditTileView& view,
                const compute::TextClusters& clusters, std::span<const std::uint32_t> queries,
                std::size_t k, const EditResults& results, EditThreads& threads);

  // Adds results of the queries, but for those returned, for which comparing all takes less.
  std::vector<std::uint32_t> run();
  // Clusters that were visited.
  std::uint64_t visited() const { return visited_; }

 private:
  // One query's way: clusters in the order in which they are visited, and how many were.
  struct Walk {
    std::uint32_t place;  // in the batch
    std::size_t length;
    std::vector<std::uint32_t> clusters;  // that limits do not rule out at first
    std::vector<std::uint16_t> bounds;    // by cluster: none of its texts is nearer
    std::size_t next = 0;
  };

  void find_bounds(Walk& walk) const;
  std::int64_t radius(const Walk& walk) const;
  bool worthwhile(const Walk& walk) const;
  void order(Walk& walk) const;
  bool add_next(Walk& walk, std::size_t most);
  void visit(const Walk& walk, std::uint32_t cluster, std::int64_t limit);

  std::int64_t limit(const Walk& walk) const { return results_.limit(queries_[walk.place]); }
  // Returns the distances to centres.
  const std::uint16_t* distances(const Walk& walk) const { return measures_.of(walk.place); }

  const compute::EditWork& work_;
  const EditTileView& view_;
  const compute::TextClusters& clusters_;
  const std::span<const std::uint32_t> queries_;
  const std::size_t k_;
  const EditResults& results_;
  EditThreads& threads_;
  const EditKernels& kernels_;
  const EditMeasures measures_;
  EditVisits visits_;
  std::uint64_t visited_ = 0;
};

}  // namespace warplite::cpu
