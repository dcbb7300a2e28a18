// Batches of queries under l2, ip and cosine: a float32 matrix product nominates rows
// for each query, and nominees are re-scored canonically, so that results are exact.
//
// Why nothing is missed. Let x, y be query and row after centring (l2: subtract one fixed
// vector from both), scaling (a power of two; cosine: division by the norm), and s the
// scale; x', y' their float32 values, u = 2^-24. Each element has a relative error of at
// most 3u, plus an absolute one where it underflows. The product of dim elements, summed
// in any fixed order with or without fusing, obeys
//   |dot' − x'·y'| ≤ γ ‖x'‖‖y'‖,  γ = dim·u / (1 − dim·u)       (Cauchy–Schwarz),
// and every further float32 operation of the test adds at most u of its operands. A row
// is dropped only if
//   dot' + slack·norm < half + offset,  slack ≥ (γ + 16u)(‖x'‖ + 2^-40),
//                                       norm  ≥ ‖y'‖ + 2^-40,
//   l2:     half = (1 − 32u)·‖y'‖²/2,  offset = (1 − 32u)·‖x'‖²/2 − (1 + 2^-28)·(sT)²/2
//   ip:     half = 0,                  offset = −s·s_x·T
//   cosine: half = 0,                  offset = 1 − T
// with offset lowered by 8u of itself, T the query's threshold. For l2, ‖x−y‖ ≤ sT means
// ‖x'−y'‖² ≤ (sT)² + 8.6u(‖x'‖² + ‖y'‖²), which the factors 1 − 32u cover together with
// the 16u by which the squared norms are rounded and the two roundings on that side. The 2^-40 make slack·norm at least 2^-104·dim, more than
// dim products can lose by underflow (2^-126 each even where denormals are flushed).
// Norms above 2^40 could overflow: such a row has half = −∞, such a query offset = −∞,
// and the test is false for NaN, so they are re-scored canonically.
//
// Threads: one Nominator is shared and constant; each thread has a Tile.
#pragma once

#include <limits>
#include <vector>

#include "core/bytes.h"
#include "cpu/worker.h"

namespace warplite::cpu {

class Nominator {
 public:
  // Whether the workload can be, and is worth being, done this way.
  static bool suits(const compute::Workload& work, std::size_t k, std::size_t live_rows);

  // Throws std::bad_alloc.
  explicit Nominator(const SearchContext& context);

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

    // What a candidate's `low` must not exceed.
    double farthest() const { return -static_cast<double>(offset); }
  };
  // One thread's packed rows, products and nominees.
  struct Tile {
    std::vector<std::uint32_t> rows;  // live ones, in order
    Bytes packed;
    std::vector<double> squares;
    std::vector<float> halves, norms;
    Bytes dots;
    std::vector<std::uint32_t> found;
    std::vector<float> keys;
    std::vector<std::uint32_t> scored;
    std::vector<Pending> pending;  // per query
  };
  Tile make_tile() const;
  std::size_t tile_rows() const { return tile_rows_; }

  void search(Worker& worker, Tile& tile, const Span& span) const;
  // After the last span: scores the nominees that are left.
  void finish(Worker& worker, Tile& tile) const;

 private:
  struct Query {
    double square = 0;    // ‖x'‖²
    float slack = 0;
    bool usable = false;  // its norm is in range
  };

  void choose_centre_and_scale();
  void pack_queries();
  void pack_rows(const compute::Block& block, Tile& tile) const;
  void multiply(std::size_t first_panel, std::size_t panels, Tile& tile) const;
  void select(Worker& worker, std::size_t query, const float* dots, const compute::Block& block,
              Tile& tile) const;
  void defer(Worker& worker, std::size_t query, const float* dots, const compute::Block& block,
             std::size_t found, Tile& tile) const;
  // Of a row of the tile, as a Candidate has them.
  struct Bounds {
    double low, high;
  };
  Bounds bounds(std::size_t query, const float* dots, std::uint32_t row, const Tile& tile) const;
  // The k-th smallest upper bound of a distance becomes the threshold.
  void tighten(Worker& worker, std::size_t query, const float* dots, std::size_t found,
               Tile& tile) const;
  void update_offset(Worker& worker, std::size_t query, Pending& pending) const;
  void drop_distant(Pending& pending) const;
  void score(Worker& worker, std::size_t query, Tile& tile) const;
  void ask_for_candidates(const Pending& pending) const;
  float offset(std::size_t query, double threshold) const;
  double farthest(std::size_t query, double key) const;

  const SearchContext& context_;
  const GemmKernels& gemm_;
  std::uint32_t dim_;
  std::size_t tile_rows_;     // a multiple of gemm_.rows
  std::size_t panel_group_;   // panels multiplied before their products are looked at
  std::size_t most_pending_;  // candidates of a query; 0: nominees are scored at once
  std::vector<float> centre_;
  double row_scale_ = 1, query_scale_ = 1;
  Bytes panels_;
  std::vector<Query> queries_;
};

}  // namespace warplite::cpu
