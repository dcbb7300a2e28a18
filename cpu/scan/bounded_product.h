// The float32 product of queries and rows under l2, ip and cosine, and what proves from it that
// a row is farther from a query than a threshold. What is not proved is scored canonically, so
// that results are exact.
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
// with offset lowered by 8u of itself, T the query's threshold; or, of the same terms in another
// order, half − (dot' + slack·norm) > −offset. For l2, ‖x−y‖ ≤ sT means
// ‖x'−y'‖² ≤ (sT)² + 8.6u(‖x'‖² + ‖y'‖²), which the factors 1 − 32u cover together with
// the 16u by which the squared norms are rounded and the two roundings of either order. The
// 2^-40 make slack·norm at least 2^-104·dim, more than dim products can lose by underflow
// (2^-126 each even where denormals are flushed).
// In bfloat16 the operands x", y" are x', y' with a relative error of 2^-8 of each element more, so that
//   |x"·y" − x'·y'| ≤ (2^-7 + 2^-16) ‖x'‖‖y'‖
// is added to the slack; their products are exact in float32, and their sum obeys the same γ, of which
// the 2^-8 more in the norms are within what the slack rounds up. Denormals may be taken for zeros, which
// loses less than the (2^-7 · 2^-40)‖y'‖ that the slack has at least.
// Norms above 2^40 could overflow: such a row has half = −∞, such a query offset = −∞,
// and the test is false for NaN, so they are scored canonically.
//
// Threads: constant once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/distance.h"
#include "core/types.h"
#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

// Saturates to infinity.
inline float to_float(double value) {
  constexpr double kMax = std::numeric_limits<float>::max();
  if (value > kMax) return std::numeric_limits<float>::infinity();
  if (value < -kMax) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(value);
}

class BoundedProduct {
 public:
  using Vectors = std::vector<const std::byte*>;

  struct Query {
    double square = 0;    // ‖x'‖²
    float slack = 0;
    bool usable = false;  // its norm is in range
  };
  struct Queries {
    Bytes panels;  // [panel][element, or two][query of the panel], zeros behind the last query
    std::vector<Query> bounds;
  };
  struct Rows {
    Bytes packed;  // tiles of gemm.rows
    std::vector<float> halves, norms;
    std::vector<double> squares;  // of one tile
    Bytes wide;                   // a tile before its elements are narrowed
  };

  // Makes a product for vectors like those of the samples: the samples choose the centre and the
  // scales, on which what is proved does not depend. Throws std::bad_alloc.
  BoundedProduct(const GemmKernels& gemm, const GemmKernels::Panel& panel, Distance distance,
                 ElementType type, std::uint32_t dim, const Vectors& rows, const Vectors& queries);
  static bool suits(Distance distance, std::uint32_t dim);

  // A part of the vectors, for the samples.
  static constexpr std::size_t kSampleRows = 64;
  static Vectors sample_of(const MatrixView& vectors);

  // Rows that are multiplied before the next are, and panels whose products of these rows are
  // looked at before the next are multiplied. `dots` has room for both.
  std::size_t block_rows() const { return block_rows_; }
  std::size_t panel_group() const { return panel_group_; }
  std::size_t panel_queries() const { return panel_.queries; }
  std::size_t dots_bytes() const {
    return panel_group_ * panel_.queries * block_rows_ * sizeof(float);
  }
  std::size_t panels_of(std::size_t queries) const {
    return (queries + panel_.queries - 1) / panel_.queries;
  }
  std::size_t padded_rows(std::size_t rows) const {
    return (rows + gemm_.rows - 1) / gemm_.rows * gemm_.rows;
  }

  void pack_queries(const MatrixView& queries, Queries* out) const;
  // Room for that many.
  Rows make_rows(std::size_t rows) const;
  // `n` rows of `base`, numbered, or anywhere; what pads them to a group is zeros.
  void pack_rows(const std::byte* base, const std::uint32_t* numbers, std::size_t n,
                 Rows* out) const;
  void pack_rows(std::span<const std::byte* const> rows, Rows* out) const;

  // dots[query of those panels · block_rows() + row], for padded_rows(rows) rows; of a panel by row it is
  // dots[panel · panel_queries() · block_rows() + row · panel_queries() + query]. Meanwhile memory is asked
  // for `next`, which is packed next: it would be idle else.
  void multiply(const Queries& queries, std::size_t first_panel, std::size_t panels,
                const Rows& packed, std::size_t rows, float* dots,
                std::span<const std::byte> next = {}) const;

  float offset(const Query& query, double threshold) const;

  // Bounds hold what a row's distance is within, as keys: half a squared distance (l2) or the
  // distance (ip, cosine), but for the query's share.
  struct Bounds {
    double low, high;
  };
  static Bounds bounds(const Query& query, float dot, float half, float norm) {
    const double margin = static_cast<double>(query.slack) * norm;
    return {static_cast<double>(half) - dot - margin,
            static_cast<double>(half) * (1 + 80 * kUnit) - dot + margin};
  }
  // The distance at `key`, rounded up.
  double farthest(const Query& query, double key) const;

 private:
  static constexpr double kUnit = 0x1p-24;  // rounding of float32
  static constexpr double kNarrowed = 0x1p-7 + 0x1p-15;

  template <class RowAt>
  void pack_rows(std::size_t n, const RowAt& row_at, Rows* out) const;
  double largest_norm(const Vectors& vectors) const;
  void choose_blocks();

  const GemmKernels& gemm_;
  const GemmKernels::Panel& panel_;
  const Distance distance_;
  const ElementType type_;
  const std::uint32_t dim_;
  const std::size_t depth_;      // elements, or pairs of narrowed ones
  std::size_t row_size_ = 0;     // of a packed row, the same
  std::size_t block_rows_ = 0;   // a multiple of gemm_.rows
  std::size_t panel_group_ = 0;
  std::vector<float> centre_;
  double row_scale_ = 1, query_scale_ = 1;
};

}  // namespace warplite::cpu
