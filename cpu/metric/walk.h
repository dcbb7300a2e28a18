// One query's way through the metric index of a block (compute/metric.h), after metric-range §II:
// which rows are candidates, and the canonical distances of those.
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/metric.h"
#include "cpu/metric/blocks.h"
#include "cpu/metric/cost.h"
#include "cpu/metric/kernels.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {

class MetricWalk {
 public:
  MetricWalk(Worker& worker, compute::MetricSpace space);

  // Adds what the block has to the worker's collector. False, and nothing was added: this would
  // take more than `most` nanoseconds (see MetricCosts), or the index knows nothing of such a query.
  // `careful`: to find that out comes first; else it is noticed on the way.
  bool search(std::size_t query, const MetricBlock& block, double most, bool careful);

  // Returns what the walk took, in the unit of MetricCosts.
  double nanoseconds() const { return spent_; }
  std::uint64_t evaluated() const { return evaluated_; }
  std::uint64_t visited() const { return visited_; }

 private:
  using Clusters = compute::VectorClusters;
  using Pivots = compute::VectorPivots;
  using Window = compute::MetricWindow;

  // The ball that holds what is still of use.
  double radius() { return compute::metric_radius(space_, dim_, worker_.threshold(query_)); }
  BallTest ball_test(double radius) const;
  void distances(const compute::MetricVectors& to, std::size_t first, std::size_t groups,
                 float* out) const;

  bool all_clusters(const Clusters& index, double most, bool careful);
  std::size_t enough_clusters(const Clusters& index) const;
  void bound_by_nearest(const Clusters& index);
  std::size_t touched_clusters(const Clusters& index, double radius);
  double visits(const Clusters& index, std::size_t& touched, double radius) const;
  bool clusters_within(const Clusters& index, double most);
  void visit(const Clusters& index, std::uint32_t cluster, const Window& window, double radius);

  // Places of a table, a multiple of groups, and what tests of them took and left over.
  struct Places {
    std::size_t begin = 0, end = 0;
  };
  struct Tested {
    std::size_t left = 0;  // in `touched_`
    double nanoseconds = 0;
  };
  bool all_pivots(const Pivots& index, double most);
  std::vector<Window> windows(const Pivots& index, double radius) const;
  std::size_t near_places(const Pivots& index) const;
  std::size_t enough_places() const { return 2 * k_ + 8; }
  void bound_by_near(const Pivots& index);
  Places between(const Pivots& index, const Window& first) const;
  Tested test(const Pivots& index, const std::vector<Window>& windows, const Places& places,
              std::size_t run, std::size_t step = 1);
  double estimate(const Pivots& index, const std::vector<Window>& windows, const Places& places);

  bool live(std::uint32_t row) const {
    return row != compute::kNoRow &&
           (block_->live == nullptr || (block_->live[row / 64] >> (row % 64) & 1) != 0);
  }
  // Scores the candidates, of which there are none then.
  void score();
  // The canonical distances of the candidates bound that of the k-th nearest.
  void bound();

  Worker& worker_;
  const compute::MetricSpace space_;
  const std::uint32_t dim_;
  const compute::Slack slack_;
  const MetricKernels::Distances kernel_;
  const std::size_t k_;
  const MetricCosts costs_;
  std::size_t query_ = 0;
  const compute::Block* block_ = nullptr;
  std::vector<float> point_, from_centres_;
  std::vector<std::uint32_t> touched_, candidates_;
  std::vector<double> bounds_;
  std::uint64_t evaluated_ = 0, visited_ = 0;
  double spent_ = 0;
};

}  // namespace warplite::cpu
