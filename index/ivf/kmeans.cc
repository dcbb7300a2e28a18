#include "index/ivf/kmeans.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "compute/parallel.h"
#include "index/ivf/nearest_list.h"

namespace warplite::index {
namespace {

// Rows per cluster, and iterations on them: most of the way is made on few rows.
struct Stage {
  std::size_t rows, iterations;
};
constexpr Stage kStages[] = {{32, 6}, {128, 4}, {kKmeansRows, 4}};
constexpr std::size_t kIterations = 14;  // of all stages
// Another iteration must be expected to lower the sum of squared distances by this part of it.
constexpr double kLeastGain = 1e-4;
// Additions that are worth a thread of their own.
constexpr std::size_t kGrainElements = std::size_t{1} << 16;

// splitmix64: the same numbers with every standard library.
class Random {
 public:
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 0;
};

// The first `wanted` different rows.
std::vector<float> different_rows(const SampleView& sample, std::size_t wanted) {
  std::vector<float> rows;
  rows.reserve(wanted * sample.dim);
  std::unordered_set<std::string_view> seen;
  const std::size_t size = sample.dim * sizeof(float);
  for (std::size_t i = 0; i < sample.rows && seen.size() < wanted; ++i) {
    const float* row = sample.row(i);
    if (!seen.emplace(reinterpret_cast<const char*>(row), size).second) continue;
    rows.insert(rows.end(), row, row + sample.dim);
  }
  return rows;
}

// Rows by cluster: those of cluster c are rows[begins[c]] … rows[begins[c + 1] − 1], ascending.
struct Members {
  std::vector<std::uint32_t> begins, rows;

  Members(const std::vector<Nearest>& nearest, std::size_t clusters)
      : begins(clusters + 1), rows(nearest.size()) {
    for (const Nearest& one : nearest) ++begins[one.list + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<std::uint32_t> at(begins.begin(), begins.end() - 1);
    for (std::size_t i = 0; i < nearest.size(); ++i) {
      rows[at[nearest[i].list]++] = static_cast<std::uint32_t>(i);
    }
  }
  std::vector<std::uint32_t> counts() const {
    std::vector<std::uint32_t> counts(begins.size() - 1);
    for (std::size_t c = 0; c < counts.size(); ++c) counts[c] = begins[c + 1] - begins[c];
    return counts;
  }
};

class Lloyd {
 public:
  Lloyd(const TrainingTask& task, std::vector<float> centroids, std::uint32_t dim)
      : task_(task), centroids_(std::move(centroids)), dim_(dim) {}

  std::size_t clusters() const { return centroids_.size() / dim_; }

  // Returns the sum of squared distances before the centroids moved. With `reseed`, those without
  // rows begin anew.
  double step(const SampleView& sample, bool reseed) {
    const std::vector<Nearest> nearest = assign(sample);
    double sum = 0;
    for (const Nearest& one : nearest) sum += one.distance * one.distance;
    const Members members(nearest, clusters());
    counts_ = members.counts();
    move(sample, members);
    if (!reseed) return sum;
    for (const Reseed& one : reseed_empty(counts_)) {
      const float* row = sample.row(members.rows[members.begins[one.donor] + one.member]);
      std::copy_n(row, dim_, centroids_.begin() + std::size_t{one.empty} * dim_);
    }
    return sum;
  }

  // Returns the centroids that had rows before the last step.
  std::vector<float> take() const {
    std::vector<float> kept;
    kept.reserve(centroids_.size());
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      const auto centroid = centroids_.begin() + static_cast<std::ptrdiff_t>(c * dim_);
      if (counts_[c] != 0) kept.insert(kept.end(), centroid, centroid + dim_);
    }
    return kept;
  }

 private:
  std::vector<Nearest> assign(const SampleView& sample) const {
    std::vector<Nearest> nearest(sample.rows);
    NearestList(task_.device(), centroids_.data(), static_cast<std::uint32_t>(clusters()), dim_)
        .find(sample.data, sample.rows, task_.cancellation(), nearest.data());
    return nearest;
  }

  void move(const SampleView& sample, const Members& members) {
    const std::size_t elements = sample.rows * dim_;
    const std::size_t grain = std::max<std::size_t>(1, clusters() * kGrainElements / elements);
    compute::in_parallel(clusters(), grain, elements / kGrainElements,
                         [&](std::size_t first, std::size_t last) {
      std::vector<double> sums(dim_);
      for (std::size_t c = first; c < last; ++c) {
        task_.poll()();
        const std::uint32_t begin = members.begins[c], end = members.begins[c + 1];
        if (begin == end) continue;
        std::fill(sums.begin(), sums.end(), 0.0);
        for (std::uint32_t i = begin; i < end; ++i) {
          const float* row = sample.row(members.rows[i]);
          for (std::uint32_t d = 0; d < dim_; ++d) sums[d] += static_cast<double>(row[d]);
        }
        for (std::uint32_t d = 0; d < dim_; ++d) {
          centroids_[c * dim_ + d] = static_cast<float>(sums[d] / (end - begin));
        }
      }
    });
  }

  const TrainingTask& task_;
  std::vector<float> centroids_;
  std::uint32_t dim_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace

std::vector<std::size_t> random_order(std::size_t count, std::size_t wanted) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  wanted = std::min(wanted, count);
  Random random;
  for (std::size_t i = 0; i < wanted; ++i) std::swap(order[i], order[i + random() % (count - i)]);
  order.resize(wanted);
  return order;
}

std::vector<Reseed> reseed_empty(std::vector<std::uint32_t> counts) {
  std::vector<Reseed> reseeds;
  // The largest first, the lower of equal ones.
  std::priority_queue<std::pair<std::uint32_t, std::uint32_t>> donors;
  for (std::uint32_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 1) donors.emplace(counts[c], ~c);
  }
  std::vector<std::uint32_t> taken(counts.size());
  for (std::uint32_t c = 0; c < counts.size() && !donors.empty(); ++c) {
    if (counts[c] != 0) continue;
    const auto [rows, inverted] = donors.top();
    const std::uint32_t donor = ~inverted;
    donors.pop();
    reseeds.push_back({c, donor, taken[donor]++});
    if (rows / 2 > 1) donors.emplace(rows / 2, inverted);
  }
  return reseeds;
}

std::vector<float> kmeans(const TrainingTask& task, const SampleView& sample,
                          std::uint32_t clusters) {
  Lloyd lloyd(task, different_rows(sample, clusters), sample.dim);
  std::size_t done = 0;
  for (const Stage& stage : kStages) {
    const SampleView rows = sample.first(stage.rows * clusters);
    // A cluster without rows in this part of the sample may have some among the rows left out.
    const bool reseed = stage.rows == kKmeansRows;
    double before = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < stage.iterations; ++i) {
      task.report("k-means", done + i, kIterations);
      const double sum = lloyd.step(rows, reseed);
      if (sum >= (1 - kLeastGain) * before) break;
      before = sum;
    }
    done += stage.iterations;
  }
  return lloyd.take();
}

}  // namespace warplite::index
