// Metric indexes of texts under edit distance (metric-range §II): as compute/metric.h has them of
// vectors, without slack, since distances are whole numbers. They follow from a tile of texts
// (edit.h), and hold its texts by its symbols in an order of their own.
// Threads: what a builder made is constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compute/edit.h"
#include "compute/metric.h"
#include "core/bytes.h"

namespace warplite::compute {

// Texts by groups of 32, interleaved as in a tile, in any order.
struct MetricTexts {
  static constexpr std::uint16_t kNoText = 0xffff;  // the length of places without a text

  std::uint32_t groups = 0;
  std::vector<std::uint32_t> begins;   // [groups + 1] first position of each
  std::vector<std::uint16_t> lengths;  // [groups · 32]
  Bytes symbols;                       // width[positions][32], of the tile's width

  const std::byte* group(std::size_t i, std::uint32_t width) const {
    return symbols.data() + std::size_t{begins[i]} * kEditGroup * width;
  }
};

// List of Clusters; as VectorClusters.
struct TextClusters {
  std::uint32_t count = 0;
  MetricTexts centres;
  std::vector<std::uint16_t> cover;   // [count]
  std::vector<std::uint16_t> inner;   // [count] no text of a later cluster is nearer than that
  std::vector<std::uint32_t> begins;  // [count + 1] first group of each in `members`
  MetricTexts members;                // nearest to the centre first
  std::vector<std::uint16_t> rows;    // [groups · 32] of members
  std::vector<std::uint16_t> rings;   // the same: distance to the centre
};

// Sparse spatial selection; as VectorPivots.
struct TextPivots {
  // Distances are held up to that; a larger one counts as this, on both sides of a comparison,
  // which makes no difference larger.
  static constexpr std::uint32_t kFarthest = 255;

  std::uint32_t count = 0;
  MetricTexts pivots;
  MetricTexts members;               // texts that are alike in their distances near each other
  std::vector<std::uint16_t> rows;   // [groups · 32] of members
  std::vector<std::uint8_t> table;   // [count][groups · 32] distance of each member to each pivot
};

// Exactly one of both.
struct TextMetric {
  std::uint32_t width = 1;  // of symbols: the tile's
  std::unique_ptr<TextClusters> clusters;
  std::unique_ptr<TextPivots> pivots;
};

class TextMetricBuilder {
 public:
  virtual ~TextMetricBuilder() = default;
  // Distances that build() evaluates for so many texts, about.
  virtual double cost(std::size_t texts) const = 0;
  // `bytes`: of the tile, in host memory. Throws Error{kInterrupted}. On any thread; `host`
  // computes distances.
  virtual std::shared_ptr<const TextMetric> build(Device& host, const EditTile& tile,
                                                  const std::byte* bytes,
                                                  Cancellation* cancellation) const = 0;
};

}  // namespace warplite::compute
