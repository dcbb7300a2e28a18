// Selection by threshold (th-heap §III–V) on the CPU: the work around the nominating product.
//   1. the product of all queries and the sample; the k-th upper bound of a query's distances to
//      it is the query's first threshold;
//   2. the product of all queries and the other rows (Nominator::search): what is beyond a query's
//      threshold is dropped, what is left is kept, compact;
//   3. for some queries at a time: what all threads have kept is cut down once more, its distances
//      are computed, block by block, so that queries share the rows they read, and a bounded
//      min-max heap selects.
// Right for every sample: the k-th least of upper bounds of any k rows' distances is no less than
// the k-th distance. Rows and queries of norms beyond the product's range have no bounds; they are
// never dropped.
// Threads: each stage is cut into units; any thread may do any unit of a stage, once the stage
// before has ended.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/bitmap.h"
#include "core/min_max_heap.h"
#include "core/types.h"
#include "cpu/scan/nominator.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {

// A workload's blocks without its sample, which is looked at apart.
class OtherRows {
 public:
  explicit OtherRows(const compute::Workload& work);
  OtherRows(const OtherRows&) = delete;
  OtherRows& operator=(const OtherRows&) = delete;

  std::span<const compute::Block> blocks() const { return blocks_; }

 private:
  std::vector<compute::Block> blocks_;
  std::vector<Bitmap> live_;
};

class ThresholdSelect {
 public:
  // Says whether the workload has a sample that bounds something, and a product.
  static bool suits(const compute::Workload& work, std::size_t k, std::size_t live_rows);
  // Memory of a query, about.
  static std::size_t query_bytes(const compute::Workload& work, std::size_t k, unsigned threads);

  // REQUIRES: the workload's blocks are OtherRows. Throws std::bad_alloc.
  ThresholdSelect(const SearchContext& context, const Nominator& nominator, unsigned threads);

  std::size_t sample_tiles() const;
  std::size_t query_batches() const;

  void multiply_sample(Worker& worker, Nominator::Tile& tile, std::size_t sample_tile);
  // Sets the thresholds of a batch, and keeps what they leave of the sample.
  void bound(Worker& worker, std::size_t batch, SharedThresholds& thresholds);
  // Leaves the hits of a batch in the worker's collectors. `tiles`: of all threads.
  void select(Worker& worker, std::size_t batch, std::vector<Nominator::Tile>& tiles);

 private:
  using Candidate = Nominator::Candidate;
  // One query's nominees on the way to hits.
  struct Selection {
    std::vector<Candidate> candidates;  // by block and row
    std::vector<double> distances;      // of those that are measured
  };

  BoundedProduct::Bounds bounds(std::size_t query, std::size_t sample_row) const;
  void keep_sample(std::size_t query, double threshold);
  void gather(Worker& worker, std::size_t query, std::vector<Nominator::Tile>& tiles,
              Selection& out);
  void measure(Worker& worker, std::size_t first, std::vector<Selection>& batch) const;
  void take_nearest(Worker& worker, std::size_t query, const Selection& from,
                    MinMaxHeap<Hit>& heap) const;

  const SearchContext& context_;
  const Nominator& nominator_;
  const std::size_t batch_queries_;
  std::vector<float> dots_;                      // [query][row of the sample]
  std::vector<float> halves_, norms_;            // of the sample, as BoundedProduct::Rows has them
  std::vector<std::vector<Candidate>> sampled_;  // per query
};

}  // namespace warplite::cpu
