// Metric indexes: what lets a search for all within a radius, or for the nearest, pass over rows
// whose distance the triangle inequality bounds (metric-range §II, IV). They only ever pass over
// rows that are no results, so that a device may use them, or not: results are the same. They
// follow from the rows of one block or tile, whichever are alive; a device has the builder make
// them from its host bytes once searches have become worth it, and keeps them with its buffer.
//
// Distances here are approximate; `Slack` says by how much, and every test allows for it.
// Threads: what a builder made is constant.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/distance.h"
#include "core/types.h"

namespace warplite::compute {

class Cancellation;
class Device;

// SearchCounters count what searches did, over all their queries; see warp_explain(). Devices add
// what they do.
struct SearchCounters {
  std::atomic<std::uint64_t> distances{0};  // evaluated, those of centres and pivots included
  std::atomic<std::uint64_t> clusters{0};   // visited; of pivots: rows that none of them excluded
  std::atomic<std::uint64_t> indexed{0};    // rows, times queries, searched through a metric index
};

using warplite::MetricSpace;

// The chords of the sum and the difference of the angles of two chords; else sum and difference.
// ASSUMES: 0 ≤ a, b, and ≤ 2 for chords.
inline double metric_sum(MetricSpace space, double a, double b) {
  if (space != MetricSpace::kAngle) return a + b;
  if (a * a + b * b >= 4) return 2;  // half a turn or more
  return a * std::sqrt(1 - b * b / 4) + b * std::sqrt(1 - a * a / 4);
}
inline double metric_difference(MetricSpace space, double a, double b) {
  if (a <= b) return 0;
  if (space != MetricSpace::kAngle) return a - b;
  return a * std::sqrt(1 - b * b / 4) - b * std::sqrt(std::max(0.0, 1 - a * a / 4));
}

// A Slack bounds how far a distance e, computed in float32 from the differences of coordinates in
// any order, may be from the true one, D: |e − D| ≤ relative·D + absolute. Nothing cancels: a
// difference of two floats and its square are each off by a part in 2^24 at most, and sums have one
// sign.
struct Slack {
  double relative = 0, absolute = 0;

  static Slack of(MetricSpace space, std::uint32_t dim) {
    Slack slack;
    slack.relative = (dim + 8.0) * 0x1p-23;  // twice what was argued
    // Squares below float32's range; and unit vectors, whose coordinates were rounded.
    slack.absolute = std::sqrt(static_cast<double>(dim)) * 0x1p-62;
    if (space == MetricSpace::kAngle) slack.absolute = 0x1p-20;
    return slack;
  }
  double up(double e) const { return e * (1 + 2 * relative) + 2 * absolute; }
  double down(double e) const { return std::max(0.0, e * (1 - 2 * relative) - 2 * absolute); }
};

// The radius in a metric space that holds every row whose canonical distance is at most `radius`.
// Infinite where there is none.
double metric_radius(MetricSpace space, std::uint32_t dim, double radius);

// A MetricWindow holds those distances e to a centre or pivot, computed as above, that rows within
// `radius` of a query may have, when the query's own is `e`.
struct MetricWindow {
  double low, high;

  static MetricWindow of(MetricSpace space, const Slack& slack, double e, double radius) {
    const double most = space == MetricSpace::kAngle ? 2 : INFINITY;
    MetricWindow window;
    window.low = slack.down(metric_difference(space, slack.down(e), std::min(radius, most)));
    window.high =
        slack.up(metric_sum(space, std::min(slack.up(e), most), std::min(radius, most)));
    return window;
  }
};

// Vectors by groups of 16, coordinate by coordinate: [group][dim][16] floats, on 64 bytes.
inline constexpr std::uint32_t kMetricGroup = 16;
inline constexpr std::uint32_t kNoRow = 0xffffffff;

struct MetricVectors {
  std::uint32_t groups = 0, dim = 0;
  Bytes bytes;

  MetricVectors() = default;
  MetricVectors(std::uint32_t of_groups, std::uint32_t of_dim)
      : groups(of_groups), dim(of_dim), bytes(std::size_t{groups} * dim * kMetricGroup * 4) {}
  float* group(std::size_t i) {
    return reinterpret_cast<float*>(bytes.data()) + i * dim * kMetricGroup;
  }
  const float* group(std::size_t i) const {
    return reinterpret_cast<const float*>(bytes.data()) + i * dim * kMetricGroup;
  }
};

// List of Clusters (metric-range §II-A): centres in the order they were chosen, each with the rows
// that were nearest to it among those that no cluster before had taken, itself the first of them.
struct VectorClusters {
  std::uint32_t count = 0;
  MetricVectors centres;              // places past the last cluster: zeros
  std::vector<float> cover;           // [count, up to whole groups] distance of the farthest row
                                      // from its centre; −1 past the last
  std::vector<float> cosines;         // the same: of half the angle of `cover`; 1 in other spaces
  std::vector<float> inner;           // [count] no row of a later cluster is nearer than that
  std::vector<std::uint32_t> begins;  // [count + 1] first group of each in `members`
  MetricVectors members;              // nearest to the centre first
  std::vector<std::uint32_t> rows;    // [groups · 16] of members; kNoRow past a cluster's last
  std::vector<float> rings;           // the same: distance to the centre, infinite past the last
};

// Sparse spatial selection (metric-range §II-B): pivots far from each other, and the distance of
// every row to each of them.
struct VectorPivots {
  std::uint32_t count = 0;
  MetricVectors pivots;             // places past the last pivot: zeros
  std::uint32_t places = 0;         // rows, up to a whole group
  std::vector<std::uint32_t> rows;  // [places] by distance to the first pivot; kNoRow past the last
  std::vector<float> table;         // [count][places] infinite past the last
};

// Exactly one of clusters and pivots.
struct VectorMetric {
  MetricSpace space = MetricSpace::kL2;
  std::unique_ptr<VectorClusters> clusters;
  std::unique_ptr<VectorPivots> pivots;
  std::vector<std::uint32_t> outliers;  // in neither, ascending: rows whose distances have no bound
};

// Says whether a vector is none of the outliers: finite distances in float32; for angles, a
// direction. Queries that are not are compared with every row.
bool metric_bounded(MetricSpace space, MatrixView vectors, std::size_t row);
// A vector as coordinates of the space. REQUIRES: metric_bounded()
void metric_coordinates(MetricSpace space, MatrixView vectors, std::size_t row, float* out);

class VectorMetricBuilder {
 public:
  virtual ~VectorMetricBuilder() = default;
  virtual MetricSpace space() const = 0;
  // Distances that build() evaluates for so many rows, about.
  virtual double cost(std::size_t rows) const = 0;
  // Throws Error{kInterrupted}. On any thread; `host` computes distances.
  virtual std::shared_ptr<const VectorMetric> build(Device& host, MatrixView rows,
                                                    Cancellation* cancellation) const = 0;
};

}  // namespace warplite::compute
