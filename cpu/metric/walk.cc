#include "cpu/metric/walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include "cpu/metric/kernels.h"

namespace warplite::cpu {
namespace {

using compute::kMetricGroup;
using compute::MetricSpace;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

}  // namespace

MetricWalk::MetricWalk(Worker& worker, MetricSpace space)
    : worker_(worker), space_(space), dim_(worker.context().work.queries.dim),
      slack_(compute::Slack::of(space, dim_)),
      kernel_(metric_kernels().distances[space == MetricSpace::kL1 ? 1 : 0]),
      k_(worker.context().k), costs_(dim_), point_(dim_) {}

bool MetricWalk::search(std::size_t query, const MetricBlock& block, double most,
                        bool careful) {
  const MatrixView& queries = worker_.context().work.queries;
  if (!compute::metric_bounded(space_, queries, query)) return false;
  compute::metric_coordinates(space_, queries, query, point_.data());
  query_ = query;
  block_ = block.block;
  const bool found = block.metric->clusters != nullptr
                         ? all_clusters(*block.metric->clusters, most, careful)
                         : all_pivots(*block.metric->pivots, most);
  if (!found) {
    candidates_.clear();
    return false;
  }
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

bool MetricWalk::all_clusters(const Clusters& index, double most, bool careful) {
  if (index.count == 0) return true;
  const std::size_t groups = (index.count + kMetricGroup - 1) / kMetricGroup;
  from_centres_.resize(groups * kMetricGroup);
  touched_.resize(groups * kMetricGroup);
  if (k_ == 0 && !careful) return clusters_within(index, most);
  double needed = costs_.distance * index.count;
  if (k_ != 0) {
    const double rows = static_cast<double>(block_->rows) / index.count;
    needed += costs_.score * rows * static_cast<double>(enough_clusters(index));
  }
  if (needed > most) return false;
  spent_ += needed;
  distances(index.centres, 0, groups, from_centres_.data());
  evaluated_ += index.count;
  if (k_ != 0) bound_by_nearest(index);
  double ball = radius();
  std::size_t count = touched_clusters(index, ball);
  const double visits = this->visits(index, count, ball);
  if (needed + visits > most) return false;
  spent_ += visits;
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
    if (k_ == 0) continue;
    score();
    ball = radius();
  }
  return true;
}

std::size_t MetricWalk::touched_clusters(const Clusters& index, double radius) {
  return metric_kernels().touched(ball_test(radius), from_centres_.data(),
                                                  index.cover.data(), index.cosines.data(),
                                                  from_centres_.size(), touched_.data());
}

// Returns at most what visits of the touched clusters take. Of all clusters within the radius,
// those up to the first that holds the ball are `touched`: later ones have nothing of it.
double MetricWalk::visits(const Clusters& index, std::size_t& touched, double radius) const {
  std::size_t groups = 0;
  for (std::size_t i = 0; i < touched; ++i) {
    const std::uint32_t cluster = touched_[i];
    const Window window = Window::of(space_, slack_, double{from_centres_[cluster]}, radius);
    const auto low = static_cast<float>(window.low), high = static_cast<float>(window.high);
    for (std::uint32_t group = index.begins[cluster]; group < index.begins[cluster + 1]; ++group) {
      const float* const rings = index.rings.data() + std::size_t{group} * kMetricGroup;
      groups += static_cast<std::size_t>((rings[kMetricGroup - 1] >= low) & (rings[0] <= high));
    }
    if (k_ == 0 && window.high < double{index.inner[cluster]}) touched = i + 1;
  }
  return costs_.touched * static_cast<double>(touched) +
         costs_.distance * kMetricGroup * static_cast<double>(groups);
}

// Centres in the order they were chosen, until the ball lies within a cluster.
bool MetricWalk::clusters_within(const Clusters& index, double most) {
  constexpr std::size_t kAtOnce = 256;
  const double ball = radius();
  const BallTest test = ball_test(ball);
  const double before = spent_;
  for (std::size_t first = 0; first < index.count; first += kAtOnce) {
    if (spent_ - before > most) return false;
    const std::size_t some = std::min(kAtOnce, from_centres_.size() - first);
    distances(index.centres, first / kMetricGroup, some / kMetricGroup, from_centres_.data());
    evaluated_ += std::min<std::size_t>(kAtOnce, index.count - first);
    spent_ += costs_.distance * static_cast<double>(some);
    const std::size_t count = metric_kernels().touched(
        test, from_centres_.data(), index.cover.data() + first, index.cosines.data() + first, some,
        touched_.data());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t cluster = first + touched_[i];
      const Window window =
          Window::of(space_, slack_, double{from_centres_[touched_[i]]}, ball);
      if (window.low > double{index.cover[cluster]}) continue;
      const std::uint64_t evaluated = evaluated_;
      visit(index, static_cast<std::uint32_t>(cluster), window, ball);
      spent_ += costs_.touched + costs_.distance * static_cast<double>(evaluated_ - evaluated);
      if (window.high < double{index.inner[cluster]}) return true;
    }
  }
  return true;
}

// Clusters that hold as many rows as are asked for, and some more.
std::size_t MetricWalk::enough_clusters(const Clusters& index) const {
  const std::size_t rows = std::max<std::size_t>(1, block_->rows / index.count);
  return std::min<std::size_t>(index.count, 2 + k_ / rows);
}

// Bounds the radius by as many rows of the clusters of the nearest centres as are asked for.
void MetricWalk::bound_by_nearest(const Clusters& index) {
  std::vector<std::uint32_t> order(index.count);
  std::iota(order.begin(), order.end(), 0u);
  const std::size_t enough = enough_clusters(index);
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
}

std::vector<compute::MetricWindow> MetricWalk::windows(const Pivots& index, double radius) const {
  std::vector<Window> out(index.count);
  for (std::uint32_t i = 0; i < index.count; ++i) {
    out[i] = Window::of(space_, slack_, double{from_centres_[i]}, radius);
  }
  return out;
}

// Some places tell what testing all of them takes and leaves over.
bool MetricWalk::all_pivots(const Pivots& index, double most) {
  if (index.count == 0) return true;
  const std::size_t groups = (index.count + kMetricGroup - 1) / kMetricGroup;
  double needed = costs_.distance * index.count;
  if (k_ != 0) {
    needed += costs_.place * index.count * static_cast<double>(near_places(index)) +
              costs_.score * static_cast<double>(enough_places());
  }
  if (needed > most) return false;
  spent_ += needed;
  from_centres_.resize(groups * kMetricGroup);
  distances(index.pivots, 0, groups, from_centres_.data());
  evaluated_ += index.count;
  if (k_ != 0) bound_by_near(index);
  const std::vector<Window> windows = this->windows(index, radius());
  const Places places = between(index, windows[0]);
  if (needed + estimate(index, windows, places) > most) return false;
  const Tested tested = test(index, windows, places, places.end - places.begin);
  spent_ += tested.nanoseconds;
  const double scores = costs_.score * static_cast<double>(tested.left);
  if (scores > most) return false;
  spent_ += scores;
  for (std::size_t i = 0; i < tested.left; ++i) {
    const std::uint32_t row = index.rows[touched_[i]];
    if (live(row)) candidates_.push_back(row);
  }
  evaluated_ += candidates_.size();
  visited_ += candidates_.size();
  return true;
}

// Estimates by runs of places: places that lie alone would be as dear to read as what is around
// them.
double MetricWalk::estimate(const Pivots& index, const std::vector<Window>& windows,
                            const Places& places) {
  constexpr std::size_t kRuns = 8, kRun = 4 * kMetricGroup, kFewest = 4 * kRuns * kRun;
  const std::size_t all = places.end - places.begin;
  if (all < kFewest) return 0;
  const std::size_t step = all / kRuns / kRun;
  const Tested some = test(index, windows, places, kRun, step);
  spent_ += some.nanoseconds;
  return static_cast<double>(step) *
         (some.nanoseconds + costs_.score * static_cast<double>(some.left));
}

// Rows are in the order of the first pivot's distances.
MetricWalk::Places MetricWalk::between(const Pivots& index, const Window& first) const {
  const float* const table = index.table.data();
  const float* const end = table + index.places;
  const float* const from = std::lower_bound(table, end, static_cast<float>(first.low));
  const float* const to = std::upper_bound(from, end, static_cast<float>(first.high));
  if (from == to) return {};
  const auto round = [](std::ptrdiff_t place, std::size_t up) {
    return (static_cast<std::size_t>(place) + up) / kMetricGroup * kMetricGroup;
  };
  return {round(from - table, 0), round(to - table, kMetricGroup - 1)};
}

// Finds the places of every `step`-th run that no pivot excludes.
MetricWalk::Tested MetricWalk::test(const Pivots& index, const std::vector<Window>& windows,
                                    const Places& places, std::size_t run, std::size_t step) {
  const float* const first = index.table.data();
  touched_.resize(places.end - places.begin + kMetricGroup);
  // The pivot of the second test is that of the most others, which reads its numbers as vectors.
  const std::size_t second = index.count > 1 ? 1 : 0;
  const auto low = static_cast<float>(windows[second].low);
  const auto high = static_cast<float>(windows[second].high);
  Tested tested;
  for (std::size_t at = places.begin; at < places.end; at += step * run) {
    const std::size_t some = std::min(run, places.end - at);
    tested.left += metric_kernels().between(
        first + second * index.places + at, low, high, some, static_cast<std::uint32_t>(at),
        touched_.data() + tested.left);
    tested.nanoseconds += costs_.place * static_cast<double>(some);
  }
  for (std::size_t pivot = 0; pivot < index.count && tested.left != 0; ++pivot) {
    if (pivot == second && index.count > 1) continue;
    const float* const table = first + pivot * index.places;
    const auto least = static_cast<float>(windows[pivot].low);
    const auto most = static_cast<float>(windows[pivot].high);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tested.left; ++i) {
      const float value = table[touched_[i]];
      touched_[kept] = touched_[i];
      kept += static_cast<std::size_t>((value >= least) & (value <= most));
    }
    tested.nanoseconds += costs_.test * static_cast<double>(tested.left);
    tested.left = kept;
  }
  return tested;
}

std::size_t MetricWalk::near_places(const Pivots& index) const {
  return std::min<std::size_t>(index.places, 8 * k_ + 256);
}

// Rows whose distances to the pivots are about the query's.
void MetricWalk::bound_by_near(const Pivots& index) {
  const std::size_t wanted = near_places(index);
  const float* const first = index.table.data();
  const float* const place = std::lower_bound(first, first + index.places, from_centres_[0]);
  std::size_t begin = static_cast<std::size_t>(place - first);
  begin = std::min(begin > wanted / 2 ? begin - wanted / 2 : 0, index.places - wanted);
  std::vector<float> apart(wanted);
  for (std::size_t pivot = 0; pivot < index.count; ++pivot) {
    const float* const table = first + pivot * index.places + begin;
    const float distance = from_centres_[pivot];
    for (std::size_t i = 0; i < wanted; ++i) {
      apart[i] = std::max(apart[i], std::abs(table[i] - distance));
    }
  }
  std::vector<std::pair<float, std::uint32_t>> order;
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::uint32_t row = index.rows[begin + i];
    if (live(row)) order.emplace_back(apart[i], row);
  }
  const std::size_t enough = std::min(order.size(), enough_places());
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
