#include "index/clustering/lloyd.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_set>

#include "compute/host/parallel.h"

namespace warplite::index {
namespace {

// Additions that are worth a thread of their own.
constexpr std::size_t kGrainElements = std::size_t{1} << 16;
// Another iteration must be expected to lower the sum of squared distances by this part of it.
constexpr double kLeastGain = 1e-4;

}  // namespace

Members::Members(const std::vector<Nearest>& nearest, std::size_t clusters)
    : begins(clusters + 1), rows(nearest.size()) {
  for (const Nearest& one : nearest) ++begins[one.list + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::uint32_t> at(begins.begin(), begins.end() - 1);
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    rows[at[nearest[i].list]++] = static_cast<std::uint32_t>(i);
  }
}

std::vector<std::uint32_t> Members::counts() const {
  std::vector<std::uint32_t> counts(clusters());
  for (std::size_t c = 0; c < counts.size(); ++c) counts[c] = count(c);
  return counts;
}

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

std::vector<Nearest> Lloyd::assign(const SampleView& sample) const {
  std::vector<Nearest> nearest(sample.rows);
  NearestList(task_.devices(), centroids_.data(), static_cast<std::uint32_t>(clusters()), dim_)
      .find(sample.data, sample.rows, task_.cancellation(), nearest.data());
  return nearest;
}

void Lloyd::move(const SampleView& sample, const std::vector<Nearest>& nearest, bool reseed) {
  const Members members(nearest, clusters());
  counts_ = members.counts();
  move_to_means(sample, members);
  if (!reseed) return;
  for (const Reseed& one : reseed_empty(counts_)) {
    const float* row = sample.row(members.rows[members.begins[one.donor] + one.member]);
    std::copy_n(row, dim_, centroids_.begin() + std::size_t{one.empty} * dim_);
  }
}

void Lloyd::run(const SampleView& sample, std::size_t iterations, bool reseed,
                const std::function<void(std::size_t)>& told) {
  double before = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < iterations; ++i) {
    if (told) told(i);
    const std::vector<Nearest> nearest = assign(sample);
    double sum = 0;
    for (const Nearest& one : nearest) sum += one.distance * one.distance;
    move(sample, nearest, reseed);
    if (sum >= (1 - kLeastGain) * before) break;
    before = sum;
  }
}

std::vector<float> Lloyd::take() const {
  std::vector<float> kept;
  kept.reserve(centroids_.size());
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    const auto from = centroids_.begin() + static_cast<std::ptrdiff_t>(c * dim_);
    if (counts_[c] != 0) kept.insert(kept.end(), from, from + dim_);
  }
  return kept;
}

void Lloyd::move_to_means(const SampleView& sample, const Members& members) {
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

}  // namespace warplite::index
