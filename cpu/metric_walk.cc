#include "cpu/metric_walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace warplite::cpu {
namespace {

using compute::kMetricGroup;
using compute::MetricSpace;

constexpr std::size_t kScored = 256;  // candidates at a time
constexpr float kInfinite = std::numeric_limits<float>::infinity();

}  // namespace

MetricWalk::MetricWalk(Worker& worker, MetricSpace space)
    : worker_(worker), space_(space), dim_(worker.context().work.queries.dim),
      slack_(compute::Slack::of(space, dim_)),
      kernel_(worker.context().kernels.metric.distances[space == MetricSpace::kL1 ? 1 : 0]),
      k_(worker.context().k), point_(dim_) {}

bool MetricWalk::search(std::size_t query, const MetricBlock& block, double most_share) {
  const MatrixView& queries = worker_.context().work.queries;
  if (!compute::metric_bounded(space_, queries, query)) return false;
  compute::metric_coordinates(space_, queries, query, point_.data());
  query_ = query;
  block_ = block.block;
  const bool found = block.metric->clusters != nullptr
                         ? all_clusters(*block.metric->clusters, most_share)
                         : all_pivots(*block.metric->pivots, most_share);
  if (!found) return false;
  for (const std::uint32_t row : block.metric->outliers) {
    if (!live(row)) continue;
    candidates_.push_back(row);
    ++evaluated_;
  }
  score();
  return true;
}

void MetricWalk::distances(const compute::MetricVectors& to, std::size_t first,
                           std::size_t groups, float* out) const {
  kernel_(point_.data(), to.group(first), dim_, groups, out);
}

// Allows for what float32 takes from the test; see Slack.
BallTest MetricWalk::ball_test(double radius) const {
  BallTest test;
  if (space_ != MetricSpace::kAngle) {
    test.share = static_cast<float>(1 - 6 * slack_.relative);
    test.margin = static_cast<float>(8 * slack_.absolute);
    test.radius = static_cast<float>(radius * (1 + 4 * slack_.relative));
    test.whole = kInfinite;
    return test;
  }
  test.whole = -1;  // all of them
  if (!(radius < 2)) return test;
  test.margin = static_cast<float>(32 * slack_.relative + 16 * slack_.absolute);
  test.radius = static_cast<float>(radius);
  test.cosine = static_cast<float>(std::sqrt(1 - radius * radius / 4));
  test.square = static_cast<float>(radius * radius);
  test.whole = 4 - 0x1p-12f;
  return test;
}

bool MetricWalk::all_clusters(const Clusters& index, double most_share) {
  if (index.count == 0) return true;
  const std::size_t groups = (index.count + kMetricGroup - 1) / kMetricGroup;
  from_centres_.resize(groups * kMetricGroup);
  touched_.resize(groups * kMetricGroup);
  if (k_ == 0 && most_share >= 1) return clusters_within(index);
  distances(index.centres, 0, groups, from_centres_.data());
  evaluated_ += index.count;
  if (k_ != 0) bound_by_nearest(index);
  double ball = radius();
  const std::size_t count = worker_.context().kernels.metric.touched(
      ball_test(ball), from_centres_.data(), index.cover.data(), index.cosines.data(),
      groups * kMetricGroup, touched_.data());
  if (static_cast<double>(count) > most_share * index.count) return false;
  if (k_ != 0) {
    std::sort(touched_.begin(), touched_.begin() + static_cast<std::ptrdiff_t>(count),
              [&](std::uint32_t a, std::uint32_t b) {
                return from_centres_[a] != from_centres_[b] ? from_centres_[a] < from_centres_[b]
                                                            : a < b;
              });
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t cluster = touched_[i];
    const Window window = Window::of(space_, slack_, double{from_centres_[cluster]}, ball);
    if (window.low > double{index.cover[cluster]}) continue;
    visit(index, cluster, window, ball);
    if (k_ != 0) {
      score();
      ball = radius();
    } else if (window.high < double{index.inner[cluster]}) {
      break;  // the ball lies within this cluster's: later ones have nothing of it
    }
  }
  return true;
}

// Centres in the order they were chosen, until the ball lies within a cluster.
bool MetricWalk::clusters_within(const Clusters& index) {
  constexpr std::size_t kAtOnce = 256;
  const double ball = radius();
  const BallTest test = ball_test(ball);
  for (std::size_t first = 0; first < index.count; first += kAtOnce) {
    const std::size_t some = std::min(kAtOnce, from_centres_.size() - first);
    distances(index.centres, first / kMetricGroup, some / kMetricGroup, from_centres_.data());
    evaluated_ += std::min<std::size_t>(kAtOnce, index.count - first);
    const std::size_t count = worker_.context().kernels.metric.touched(
        test, from_centres_.data(), index.cover.data() + first, index.cosines.data() + first, some,
        touched_.data());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t cluster = first + touched_[i];
      const Window window =
          Window::of(space_, slack_, double{from_centres_[touched_[i]]}, ball);
      if (window.low > double{index.cover[cluster]}) continue;
      visit(index, static_cast<std::uint32_t>(cluster), window, ball);
      if (window.high < double{index.inner[cluster]}) return true;
    }
  }
  return true;
}

// Of the clusters of the nearest centres, as many rows as are asked for.
void MetricWalk::bound_by_nearest(const Clusters& index) {
  std::vector<std::uint32_t> order(index.count);
  std::iota(order.begin(), order.end(), 0u);
  const std::size_t rows = std::max<std::size_t>(1, block_->rows / index.count);
  const std::size_t enough = std::min<std::size_t>(index.count, 2 + k_ / rows);
  const auto nearer = [&](std::uint32_t a, std::uint32_t b) {
    return from_centres_[a] < from_centres_[b];
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(enough),
                    order.end(), nearer);
  for (std::size_t i = 0; i < enough; ++i) {
    const std::size_t end = std::size_t{index.begins[order[i] + 1]} * kMetricGroup;
    for (std::size_t at = std::size_t{index.begins[order[i]]} * kMetricGroup; at < end; ++at) {
      if (live(index.rows[at])) candidates_.push_back(index.rows[at]);
    }
  }
  bound();
}

void MetricWalk::visit(const Clusters& index, std::uint32_t cluster, const Window& window,
                       double radius) {
  ++visited_;
  const auto low = static_cast<float>(window.low), high = static_cast<float>(window.high);
  const auto limit = static_cast<float>(slack_.up(radius));
  std::array<float, kMetricGroup> near;
  for (std::uint32_t group = index.begins[cluster]; group < index.begins[cluster + 1]; ++group) {
    const float* const rings = index.rings.data() + std::size_t{group} * kMetricGroup;
    if (rings[kMetricGroup - 1] < low) continue;
    if (rings[0] > high) break;
    distances(index.members, group, 1, near.data());
    const std::uint32_t* const rows = index.rows.data() + std::size_t{group} * kMetricGroup;
    for (std::size_t i = 0; i < kMetricGroup; ++i) {
      evaluated_ += rows[i] != compute::kNoRow;
      if (near[i] <= limit && live(rows[i])) candidates_.push_back(rows[i]);
    }
  }
  if (candidates_.size() >= kScored) score();
}

std::vector<compute::MetricWindow> MetricWalk::windows(const Pivots& index, double radius) const {
  std::vector<Window> out(index.count);
  for (std::uint32_t i = 0; i < index.count; ++i) {
    out[i] = Window::of(space_, slack_, double{from_centres_[i]}, radius);
  }
  return out;
}

bool MetricWalk::all_pivots(const Pivots& index, double most_share) {
  if (index.count == 0) return true;
  const std::size_t groups = (index.count + kMetricGroup - 1) / kMetricGroup;
  from_centres_.resize(groups * kMetricGroup);
  distances(index.pivots, 0, groups, from_centres_.data());
  evaluated_ += index.count;
  if (k_ != 0) bound_by_near(index);
  const std::size_t before = candidates_.size();
  add_between(index, windows(index, radius()));
  if (static_cast<double>(candidates_.size() - before) > most_share * block_->rows) {
    candidates_.clear();
    return false;
  }
  visited_ += candidates_.size();
  return true;
}

// The candidates that no pivot excludes. Rows are in the order of the first one's distances.
void MetricWalk::add_between(const Pivots& index, const std::vector<Window>& windows) {
  const float* const first = index.table.data();
  const float* const end = first + index.places;
  const auto low = static_cast<float>(windows[0].low), high = static_cast<float>(windows[0].high);
  const std::size_t from = static_cast<std::size_t>(std::lower_bound(first, end, low) - first);
  const std::size_t to = static_cast<std::size_t>(std::upper_bound(first, end, high) - first);
  const std::size_t begin = from / kMetricGroup * kMetricGroup;
  const std::size_t places =
      to <= begin ? 0 : (to - begin + kMetricGroup - 1) / kMetricGroup * kMetricGroup;
  touched_.resize(places + kMetricGroup);
  // The pivot of the second test is that of the most others, which reads its numbers as vectors.
  const std::size_t second = index.count > 1 ? 1 : 0;
  std::size_t count = worker_.context().kernels.metric.between(
      first + second * index.places + begin, static_cast<float>(windows[second].low),
      static_cast<float>(windows[second].high), places, static_cast<std::uint32_t>(begin),
      touched_.data());
  for (std::size_t pivot = 0; pivot < index.count && count != 0; ++pivot) {
    if (pivot == second && index.count > 1) continue;
    const float* const table = first + pivot * index.places;
    const auto least = static_cast<float>(windows[pivot].low);
    const auto most = static_cast<float>(windows[pivot].high);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const float value = table[touched_[i]];
      touched_[kept] = touched_[i];
      kept += static_cast<std::size_t>((value >= least) & (value <= most));
    }
    count = kept;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t row = index.rows[touched_[i]];
    if (!live(row)) continue;
    candidates_.push_back(row);
    ++evaluated_;
  }
}

// Rows whose distances to the pivots are about the query's.
void MetricWalk::bound_by_near(const Pivots& index) {
  const std::size_t wanted = std::min<std::size_t>(index.places, 8 * k_ + 256);
  const float* const first = index.table.data();
  const float* const place = std::lower_bound(first, first + index.places, from_centres_[0]);
  std::size_t begin = static_cast<std::size_t>(place - first);
  begin = std::min(begin > wanted / 2 ? begin - wanted / 2 : 0, index.places - wanted);
  std::vector<std::pair<float, std::uint32_t>> order;
  for (std::size_t at = begin; at < begin + wanted; ++at) {
    if (!live(index.rows[at])) continue;
    float worst = 0;
    for (std::size_t pivot = 0; pivot < index.count; ++pivot) {
      const float value = index.table[pivot * index.places + at];
      worst = std::max(worst, std::abs(value - from_centres_[pivot]));
    }
    order.emplace_back(worst, index.rows[at]);
  }
  const std::size_t enough = std::min(order.size(), 2 * k_ + 8);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(enough),
                   order.end());
  for (std::size_t i = 0; i < enough; ++i) candidates_.push_back(order[i].second);
  bound();
}

void MetricWalk::bound() {
  if (candidates_.size() >= k_) {
    bounds_.resize(candidates_.size());
    worker_.measure(query_, *block_, candidates_.data(), candidates_.size(), bounds_.data());
    evaluated_ += candidates_.size();
    const compute::Workload& work = worker_.context().work;
    std::size_t useful = 0;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      const std::uint32_t row = candidates_[i];
      if (!work.admits({bounds_[i], block_->rowids[row], block_->id, row})) continue;
      bounds_[useful++] = bounds_[i];
    }
    if (useful >= k_) {
      const auto kth = bounds_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
      std::nth_element(bounds_.begin(), kth, bounds_.begin() + static_cast<std::ptrdiff_t>(useful));
      worker_.tighten(query_, *kth);
    }
  }
  candidates_.clear();
}

void MetricWalk::score() {
  if (!candidates_.empty()) {
    worker_.score(query_, *block_, candidates_.data(), candidates_.size());
  }
  candidates_.clear();
}

}  // namespace warplite::cpu
