#include "index/metric/list_of_clusters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "index/metric/metric_index.h"
#include "index/metric/metric_rows.h"
#include "index/metric/on_host.h"

namespace warplite::index {
namespace {

using compute::kMetricGroup;
using compute::MetricSpace;
using compute::VectorClusters;

constexpr std::uint32_t kDefaultSize = 64;  // metric-range §V, of vectors
constexpr std::uint32_t kMostSize = 65536;

// One block's clusters, cluster by cluster.
class Clustering {
 public:
  Clustering(compute::Device& host, MetricSpace space, std::uint32_t size, MetricRows& left)
      : host_(host), space_(space), size_(size), left_(left), point_(left.points().dim),
        distances_(std::size_t{metric_groups(left.size())} * kMetricGroup), sums_(left.size()) {
    const std::uint32_t clusters = (left.size() + size - 1) / size;
    const std::uint32_t groups = clusters * metric_groups(size);  // at most
    out_.centres = compute::MetricVectors(metric_groups(clusters), left.points().dim);
    out_.members = compute::MetricVectors(std::min(groups, left.size() / kMetricGroup + clusters),
                                          left.points().dim);
    std::fill_n(out_.centres.group(0), out_.centres.bytes.size() / sizeof(float), 0.0f);
    std::fill_n(out_.members.group(0), out_.members.bytes.size() / sizeof(float), 0.0f);
    out_.begins.push_back(0);
  }

  VectorClusters run(compute::Cancellation* cancellation) {
    std::uint32_t centre = 0;
    while (left_.size() != 0) {
      check_interrupt(cancellation);
      add_cluster(centre);
      centre = farthest();
    }
    finish();
    return std::move(out_);
  }

 private:
  // The centre and the rows nearest to it leave those that are left.
  void add_cluster(std::uint32_t centre) {
    left_.copy_point(centre, point_.data());
    left_.distances(host_, space_, point_.data(), distances_.data());
    for (std::uint32_t i = 0; i < left_.size(); ++i) sums_[i] += double{distances_[i]};
    left_.copy_to(centre, out_.centres, out_.count++);
    distances_[centre] = -1;  // itself first, whoever else is at distance 0
    float inner = std::numeric_limits<float>::infinity();
    const std::vector<std::uint32_t> taken = nearest(inner);
    distances_[centre] = 0;
    place(taken);
    remove(taken);
    out_.inner.push_back(inner);
  }

  // Returns the nearest, by distance, then place. `stays`: the least distance of the others, if
  // there are any.
  std::vector<std::uint32_t> nearest(float& stays) {
    const std::size_t count = std::min<std::size_t>(size_, left_.size());
    if (count == left_.size()) {
      near_.resize(count);
      std::iota(near_.begin(), near_.end(), 0u);
    } else {
      find_near(bound(count + 1));
      keep_nearest(count, stays);
    }
    std::stable_sort(near_.begin(), near_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return distances_[a] < distances_[b];
    });
    return near_;
  }

  // Returns a bound that at least `count` distances do not exceed: the smallest distances of as
  // many parts of 16 rows do not.
  float bound(std::size_t count) {
    constexpr std::size_t kChunk = std::size_t{kMetricGroup} * kMetricGroup;
    const std::size_t chunks = left_.size() / kChunk;
    if (chunks * kMetricGroup < count) return std::numeric_limits<float>::infinity();
    least_.resize(chunks * kMetricGroup);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      const float* const from = distances_.data() + chunk * kChunk;
      float* const least = least_.data() + chunk * kMetricGroup;
      std::copy_n(from, kMetricGroup, least);
      for (std::size_t at = kMetricGroup; at < kChunk; at += kMetricGroup) {
        for (std::size_t i = 0; i < kMetricGroup; ++i) {
          least[i] = from[at + i] < least[i] ? from[at + i] : least[i];
        }
      }
    }
    const auto kth = least_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(least_.begin(), kth, least_.end());
    return *kth;
  }

  void find_near(float most) {
    near_.resize(left_.size());
    std::size_t found = 0;
    for (std::uint32_t i = 0; i < left_.size(); ++i) {
      near_[found] = i;
      found += distances_[i] <= most ? 1 : 0;
    }
    near_.resize(found);
  }

  // Keeps the `count` nearest of those near, which are more than that. As many may be at the edge
  // as there are rows: it takes as many of those as are missing, and sorts no others.
  void keep_nearest(std::size_t count, float& stays) {
    least_.clear();
    for (const std::uint32_t i : near_) least_.push_back(distances_[i]);
    const auto after = least_.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(least_.begin(), after, least_.end());
    stays = *after;
    const float edge = *std::max_element(least_.begin(), after);
    std::size_t missing = count;
    for (auto value = least_.begin(); value != after; ++value) missing -= *value < edge ? 1 : 0;
    std::erase_if(near_, [&](std::uint32_t i) {
      if (distances_[i] != edge) return distances_[i] > edge;
      if (missing == 0) return true;
      --missing;
      return false;
    });
  }

  void place(const std::vector<std::uint32_t>& taken) {
    const std::uint32_t first = out_.begins.back();
    const std::uint32_t groups = metric_groups(taken.size());
    out_.rows.resize(std::size_t{first + groups} * kMetricGroup, compute::kNoRow);
    out_.rings.resize(out_.rows.size(), std::numeric_limits<float>::infinity());
    for (std::uint32_t i = 0; i < taken.size(); ++i) {
      const std::uint32_t at = first * kMetricGroup + i;
      left_.copy_to(taken[i], out_.members, at);
      out_.rows[at] = left_.row(taken[i]);
      out_.rings[at] = distances_[taken[i]];
    }
    out_.begins.push_back(first + groups);
    out_.cover.push_back(distances_[taken.back()]);
  }

  void remove(std::vector<std::uint32_t> taken) {
    std::sort(taken.begin(), taken.end(), std::greater<>());
    for (const std::uint32_t i : taken) {
      left_.remove(i);
      distances_[i] = distances_[left_.size()];
      sums_[i] = sums_[left_.size()];
    }
  }

  // The next centre maximises the sum of distances to those before.
  std::uint32_t farthest() const {
    constexpr std::size_t kLanes = 8;  // independent maxima
    double most[kLanes] = {};
    const std::size_t whole = left_.size() / kLanes * kLanes;
    for (std::size_t at = 0; at < whole; at += kLanes) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        most[i] = sums_[at + i] > most[i] ? sums_[at + i] : most[i];
      }
    }
    const auto end = sums_.begin() + left_.size();
    const double largest = std::max(*std::max_element(most, most + kLanes),
                                    whole == left_.size() ? 0.0 : *std::max_element(
                                        sums_.begin() + static_cast<std::ptrdiff_t>(whole), end));
    return static_cast<std::uint32_t>(std::find(sums_.begin(), end, largest) - sums_.begin());
  }

  void finish() {
    const std::size_t padded = std::size_t{metric_groups(out_.count)} * kMetricGroup;
    for (const float cover : out_.cover) {
      const double chord = std::min(double{cover}, 2.0);
      out_.cosines.push_back(space_ == MetricSpace::kAngle
                                 ? static_cast<float>(std::sqrt(1 - chord * chord / 4))
                                 : 1.0f);
    }
    out_.cover.resize(padded, -1);
    out_.cosines.resize(padded, 1);
  }

  compute::Device& host_;
  const MetricSpace space_;
  const std::uint32_t size_;
  MetricRows& left_;
  std::vector<float> point_, distances_, least_;
  std::vector<double> sums_;
  std::vector<std::uint32_t> near_;
  VectorClusters out_;
};

class ClusterBuilder : public compute::VectorMetricBuilder {
 public:
  ClusterBuilder(MetricSpace space, std::uint32_t size) : space_(space), size_(size) {}

  MetricSpace space() const override { return space_; }
  double cost(std::size_t rows) const override {
    const double n = static_cast<double>(rows);
    return n * (n / size_ / 2 + 1);
  }
  std::shared_ptr<const compute::VectorMetric> build(
      compute::Device& host, MatrixView rows,
      compute::Cancellation* cancellation) const override {
    auto out = std::make_shared<compute::VectorMetric>();
    out->space = space_;
    MetricRows left(space_, rows, out->outliers, cancellation);
    out->clusters = std::make_unique<VectorClusters>();
    if (left.size() != 0) {
      *out->clusters = Clustering(host, space_, size_, left).run(cancellation);
    }
    return out;
  }

 private:
  const MetricSpace space_;
  const std::uint32_t size_;
};

std::unique_ptr<Index> make(const Spec& spec, const ColumnShape& shape) {
  const MetricSpace space = metric_space(spec.kind, shape);
  return std::make_unique<MetricIndex>(std::make_unique<VectorsOnHost>(
      std::make_unique<ClusterBuilder>(space, cluster_size(spec, kDefaultSize))));
}

}  // namespace

std::uint32_t cluster_size(const Spec& spec, std::uint32_t otherwise) {
  std::uint32_t size = otherwise;
  for (const auto& [name, text] : spec.parameters) {
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, size);
    if (name != "size" || result.ec != std::errc() || result.ptr != end || size < 1 ||
        size > kMostSize) {
      throw Error(ErrorKind::kInvalid, "index=list_of_clusters takes the parameter size, 1 to " +
                                           std::to_string(kMostSize) + " rows of a cluster, but \"" +
                                           name + "=" + text + "\" was given");
    }
  }
  return size;
}

Kind list_of_clusters_kind() { return {"list_of_clusters", make}; }

}  // namespace warplite::index
