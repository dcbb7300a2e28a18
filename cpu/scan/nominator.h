// Batches of queries under l2, ip and cosine: a float32 matrix product nominates rows
// for each query, and nominees are re-scored canonically, so that results are exact
// (bounded_product.h has the proof).
// With a sample, threads leave their nominees where they are, for ThresholdSelect.
// Threads: one Nominator is shared and constant; each thread has a Tile.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "cpu/scan/bounded_product.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {

// Returns a bound that at least k of the keys do not exceed, and not many more than k. REQUIRES: at
// least k keys, all of them finite.
double bound_of(const std::vector<float>& keys, std::size_t k);

class Nominator {
 public:
  // Says whether the workload can be, and is worth being, done this way.
  static bool suits(const compute::Workload& work, std::size_t k, std::size_t live_rows);

  // `keeps`: nominees of any number stay until finish(), or whoever else takes them. Throws
  // std::bad_alloc.
  Nominator(const SearchContext& context, bool keeps);

  // A nominee whose canonical distance is not known yet: bounds of it as keys, which are
  // half a squared distance (l2) or the distance (ip, cosine), but for the query's share.
  struct Candidate {
    double low, high;
    std::uint32_t block;  // index into the workload's blocks
    std::uint32_t row;
  };
  // A query's nominees in one thread. Most are overtaken by nearer ones before anybody needs
  // their distance.
  struct Pending {
    std::vector<Candidate> candidates;
    double threshold = std::numeric_limits<double>::quiet_NaN();
    float offset = 0;  // for that threshold

    // Returns what a candidate's `low` must not exceed.
    double farthest() const { return -static_cast<double>(offset); }
  };
  // One thread's packed rows, products and nominees.
  struct Tile {
    std::vector<std::uint32_t> rows;  // live ones, in order
    BoundedProduct::Rows packed;
    Bytes dots;
    std::vector<std::uint32_t> found;
    std::vector<float> keys;
    std::vector<std::uint32_t> scored;
    std::vector<Pending> pending;  // per query
  };
  Tile make_tile() const;
  std::size_t tile_rows() const { return product_.block_rows(); }
  // Bytes of a query's nominees in one thread, at most, for that k.
  static std::size_t pending_bytes(std::size_t k) { return most_kept(k) * sizeof(Candidate); }

  const BoundedProduct& product() const { return product_; }
  const BoundedProduct::Queries& queries() const { return queries_; }

  void search(Worker& worker, Tile& tile, const Span& span) const;
  // Call this after the last span: it scores the nominees that are left.
  void finish(Worker& worker, Tile& tile) const;
  // Drops what lies beyond the query's threshold.
  void drop_distant(Worker& worker, std::size_t query, Pending& pending) const;

 private:
  // Candidates of a query that wait.
  static std::size_t most_kept(std::size_t k) { return k + std::max<std::size_t>(8, k / 2); }

  std::span<const std::byte> next_rows(const Span& span, std::uint32_t row) const;
  void select(Worker& worker, std::size_t query, const float* dots, const compute::Block& block,
              Tile& tile) const;
  static std::size_t keep_own(const std::uint64_t* own, std::size_t found, Tile& tile);
  void defer(Worker& worker, std::size_t query, const float* dots, const compute::Block& block,
             std::size_t found, Tile& tile) const;
  // Returns the bounds of a row of the tile, as a Candidate has them.
  BoundedProduct::Bounds bounds(std::size_t query, const float* dots, std::uint32_t row,
                                const Tile& tile) const;
  // The k-th smallest upper bound of a distance becomes the threshold.
  void tighten(Worker& worker, std::size_t query, const float* dots, std::size_t found,
               Tile& tile) const;
  void update_offset(Worker& worker, std::size_t query, Pending& pending) const;
  void drop_distant(Pending& pending) const;
  void score(Worker& worker, std::size_t query, Tile& tile) const;

  const SearchContext& context_;
  const GemmKernels& gemm_;
  const BoundedProduct product_;
  bool deferred_;  // false: nominees are scored at once
  BoundedProduct::Queries queries_;
};

}  // namespace warplite::cpu
