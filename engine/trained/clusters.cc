#include "engine/trained/clusters.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "compute/parallel.h"
#include "engine/table/models.h"
#include "engine/table/parts.h"
#include "index/ivf/kmeans.h"
#include "index/ivf/model_space.h"
#include "index/ivf/nearest_list.h"
#include "index/ivf/training_task.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kPartsAtOnce = 16;  // in memory
constexpr std::size_t kMostSampleRows = std::size_t{1} << 20;
// Few clusters begin far apart, since chance may put two of them where there should be one.
constexpr std::uint32_t kSpread = 256;
constexpr std::size_t kSpreadRows = 32;  // per cluster
// Another pass must be expected to lower the sum of squared distances by this part of it.
constexpr double kLeastGain = 1e-4;
constexpr double kSampleShare = 0.3;  // of the whole work, as it is reported

std::size_t sample_size(std::uint64_t rows, std::uint32_t clusters) {
  const std::size_t wanted = std::max<std::size_t>(
      clusters, std::min(std::size_t{clusters} * index::kKmeansRows, kMostSampleRows));
  return static_cast<std::size_t>(std::min<std::uint64_t>(rows, wanted));
}

// Live rows of a part that have a vector.
std::vector<std::uint32_t> rows_of(const Part& part, const Part::Vectors& vectors) {
  std::vector<std::uint32_t> rows;
  if (vectors.all_null) return rows;
  rows.reserve(part.live_rows());
  for (std::uint32_t row = 0; row < part.rows(); ++row) {
    if (!is_alive(part, row)) continue;
    if (vectors.present == nullptr || vectors.present->test(row)) rows.push_back(row);
  }
  return rows;
}

// Some rows as float32 vectors, as clusters compare them.
std::vector<float> gather(const Part::Vectors& vectors, const std::vector<std::uint32_t>& rows,
                          Distance distance) {
  const std::size_t stride = vectors.data.stride();
  std::vector<std::byte> bytes(rows.size() * stride);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(bytes.data() + i * stride, vectors.data.row(rows[i]), stride);
  }
  std::vector<float> out(rows.size() * vectors.data.dim);
  const MatrixView view{bytes.data(), rows.size(), vectors.data.dim, vectors.data.type};
  if (!rows.empty()) index::to_model_space(view, distance, {}, out.data());
  return out;
}

double squared_distance(const float* a, const float* b, std::uint32_t dim) {
  double sum = 0;
  for (std::uint32_t d = 0; d < dim; ++d) {
    const double difference = static_cast<double>(a[d]) - static_cast<double>(b[d]);
    sum += difference * difference;
  }
  return sum;
}

// Brings rows to the front of which each is drawn with a chance that grows with the square of its
// distance to those before it (k-means++).
class Spreader {
 public:
  Spreader(const index::TrainingTask& task, std::vector<float>& rows, std::uint32_t dim)
      : task_(task), rows_(rows), dim_(dim) {}

  void run(std::uint32_t clusters) {
    const std::size_t count =
        std::min(rows_.size() / dim_, static_cast<std::size_t>(clusters) * kSpreadRows);
    weights_.assign(count, std::numeric_limits<double>::infinity());
    for (std::uint32_t c = 1; c < clusters && c < count; ++c) {
      task_.poll()();
      const double total = weigh(c - 1);
      if (!(total > 0)) return;
      swap(c, draw(total * (static_cast<double>(random_() >> 11) * 0x1p-53)));
    }
  }

 private:
  // Weights by the first rows up to `last`; returns their sum.
  double weigh(std::size_t last) {
    const float* added = rows_.data() + last * dim_;
    compute::in_parallel(weights_.size(), 4096, weights_.size() / 4096,
                         [&](std::size_t first, std::size_t end) {
                           for (std::size_t i = first; i < end; ++i) {
                             weights_[i] = std::min(
                                 weights_[i],
                                 squared_distance(rows_.data() + i * dim_, added, dim_));
                           }
                         });
    double total = 0;
    for (double weight : weights_) total += weight;
    return total;
  }
  std::size_t draw(double at) const {
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (!(weights_[i] > 0)) continue;
      last = i;
      if ((at -= weights_[i]) < 0) break;
    }
    return last;
  }
  void swap(std::size_t a, std::size_t b) {
    std::swap_ranges(rows_.data() + a * dim_, rows_.data() + (a + 1) * dim_,
                     rows_.data() + b * dim_);
    std::swap(weights_[a], weights_[b]);
  }

  const index::TrainingTask& task_;
  std::vector<float>& rows_;
  std::uint32_t dim_;
  std::vector<double> weights_;
  std::mt19937_64 random_;
};

// Rows of a part, and the cluster of each.
struct PartRows {
  std::vector<float> rows;
  std::vector<index::Nearest> nearest;
};

// What one pass learns of the rows of each cluster.
class Tally {
 public:
  Tally(std::size_t clusters, std::uint32_t dim)
      : dim_(dim), counts_(clusters), sums_(clusters * dim), farthest_(clusters, -1.0),
        far_rows_(clusters * dim) {}

  void add(std::span<const PartRows> parts, const index::Poll& poll) {
    std::size_t elements = 0;
    for (const PartRows& part : parts) {
      elements += part.rows.size();
      for (const index::Nearest& one : part.nearest) squares_ += one.distance * one.distance;
    }
    // Each thread looks at every row, and adds those of its own clusters, in their order.
    constexpr std::size_t kThreads = 16;
    compute::in_parallel(counts_.size(), (counts_.size() + kThreads - 1) / kThreads,
                         elements >> 16, [&](std::size_t first, std::size_t end) {
                           for (const PartRows& part : parts) {
                             poll();
                             add_rows(part, first, end);
                           }
                         });
  }

  double squares() const { return squares_; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }

  // The means of clusters that have rows; and for as many as are missing then, the rows that are
  // farthest from the centroid of a cluster, one of each.
  std::vector<float> centroids(std::size_t clusters, bool& begun_anew) const {
    std::vector<float> means;
    means.reserve(clusters * dim_);
    std::vector<std::pair<double, std::size_t>> far;
    for (std::size_t c = 0; c < counts_.size(); ++c) {
      if (counts_[c] == 0) continue;
      const double count = static_cast<double>(counts_[c]);
      for (std::uint32_t d = 0; d < dim_; ++d) {
        means.push_back(static_cast<float>(sums_[c * dim_ + d] / count));
      }
      if (farthest_[c] > 0) far.emplace_back(-farthest_[c], c);
    }
    const std::size_t missing = std::min(clusters - means.size() / dim_, far.size());
    std::sort(far.begin(), far.end());
    for (std::size_t i = 0; i < missing; ++i) {
      const float* row = far_rows_.data() + far[i].second * dim_;
      means.insert(means.end(), row, row + dim_);
    }
    begun_anew = missing != 0;
    return means;
  }

 private:
  // Those of clusters first … end − 1.
  void add_rows(const PartRows& part, std::size_t first, std::size_t end) {
    for (std::size_t i = 0; i < part.nearest.size(); ++i) {
      const std::size_t c = part.nearest[i].list;
      if (c >= first && c < end) add_row(c, part.rows.data() + i * dim_, part.nearest[i].distance);
    }
  }

  void add_row(std::size_t c, const float* row, double distance) {
    ++counts_[c];
    double* sum = sums_.data() + c * dim_;
    for (std::uint32_t d = 0; d < dim_; ++d) sum[d] += static_cast<double>(row[d]);
    if (distance <= farthest_[c]) return;
    farthest_[c] = distance;
    std::copy_n(row, dim_, far_rows_.data() + c * dim_);
  }

  std::uint32_t dim_;
  double squares_ = 0;
  std::vector<std::uint64_t> counts_;
  std::vector<double> sums_;
  std::vector<double> farthest_;
  std::vector<float> far_rows_;
};

class Clusterer {
 public:
  Clusterer(const View& view, const ClusterRequest& request, compute::Device& device,
            const index::Progress& progress)
      : view_(view), request_(request), dim_(view.layout().vectors[request.column].dim),
        task_(device, request.cancellation, progress) {}

  Clusters run() {
    const index::TrainingTask passes = task_.part(kSampleShare, 1);
    begin();
    double before = std::numeric_limits<double>::infinity();
    for (std::size_t pass = 0;; ++pass) {
      if (pass < request_.passes) passes.report("pass", pass, request_.passes);
      const Tally tally = assign();
      const bool settled = !(tally.squares() < (1 - kLeastGain) * before);
      if (pass == request_.passes || settled) return result(tally);
      bool begun_anew = false;
      centroids_ = tally.centroids(request_.clusters, begun_anew);
      before = begun_anew ? std::numeric_limits<double>::infinity() : tally.squares();
    }
  }

 private:
  std::size_t clusters() const { return centroids_.size() / dim_; }

  void begin() {
    std::vector<float> rows = sample();
    if (request_.clusters <= kSpread) Spreader(task_, rows, dim_).run(request_.clusters);
    const index::SampleView view{rows.data(), rows.size() / dim_, dim_};
    if (!rows.empty()) {
      centroids_ = index::kmeans(task_.part(0, kSampleShare), view, request_.clusters);
    }
  }

  // Draws from each part its share of the rows, in random order.
  std::vector<float> sample() const {
    const std::uint64_t total = view_.live_rows();
    const std::uint64_t wanted = sample_size(total, request_.clusters);
    std::vector<float> found;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      const Part& part = view_.part(i);
      if (part.live_rows() == 0) continue;
      task_.poll()();
      const std::uint64_t begin = seen * wanted / total;
      seen += part.live_rows();
      const Part::Vectors vectors = part.vectors(request_.column);
      const std::vector<std::uint32_t> rows = rows_of(part, vectors);
      std::vector<std::uint32_t> drawn;
      for (std::size_t at : index::random_order(rows.size(), seen * wanted / total - begin)) {
        drawn.push_back(rows[at]);
      }
      if (drawn.empty()) continue;
      const std::vector<float> some = gather(vectors, drawn, request_.distance);
      found.insert(found.end(), some.begin(), some.end());
    }
    const std::size_t count = found.size() / dim_;
    std::vector<float> mixed;
    mixed.reserve(found.size());
    for (std::size_t at : index::random_order(count, count)) {
      mixed.insert(mixed.end(), found.data() + at * dim_, found.data() + (at + 1) * dim_);
    }
    return mixed;
  }

  // A pass over all rows.
  Tally assign() const {
    Tally tally(clusters(), dim_);
    if (centroids_.empty()) return tally;
    const index::NearestList lists(task_.device(), centroids_.data(),
                                   static_cast<std::uint32_t>(clusters()), dim_);
    std::vector<PartRows> some(kPartsAtOnce);
    for (std::size_t first = 0; first < view_.parts(); first += kPartsAtOnce) {
      const std::size_t count = std::min(kPartsAtOnce, view_.parts() - first);
      find_nearest(first, lists, std::span(some).first(count));
      tally.add(std::span(some).first(count), task_.poll());
    }
    return tally;
  }

  // The parts from `first` on: read here, and given to a GPU by several threads.
  void find_nearest(std::size_t first, const index::NearestList& lists,
                    std::span<PartRows> out) const {
    std::vector<Part::Vectors> vectors(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      task_.poll()();
      const Part& part = view_.part(first + i);
      if (part.live_rows() != 0) vectors[i] = part.vectors(request_.column);
    }
    const std::size_t threads = task_.device().own_memory() ? out.size() : 1;
    compute::in_parallel(out.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        task_.poll()();
        const Part& part = view_.part(first + i);
        const auto found = part.live_rows() == 0 ? std::vector<std::uint32_t>()
                                                 : rows_of(part, vectors[i]);
        out[i].rows = gather(vectors[i], found, request_.distance);
        out[i].nearest.resize(found.size());
        lists.find(out[i].rows.data(), found.size(), task_.cancellation(), out[i].nearest.data());
      }
    });
  }

  Clusters result(const Tally& tally) const {
    Clusters clusters;
    for (std::size_t c = 0; c < tally.counts().size(); ++c) {
      if (tally.counts()[c] == 0) continue;
      const float* centroid = centroids_.data() + c * dim_;
      clusters.centroids.insert(clusters.centroids.end(), centroid, centroid + dim_);
      clusters.sizes.push_back(tally.counts()[c]);
    }
    return clusters;
  }

  const View& view_;
  const ClusterRequest& request_;
  const std::uint32_t dim_;
  const index::TrainingTask task_;
  std::vector<float> centroids_;
};

}  // namespace

Clusters cluster_rows(const View& view, const ClusterRequest& request,
                      const index::Progress& progress) {
  const double rows = static_cast<double>(view.live_rows());
  const std::uint32_t dim = view.layout().vectors[request.column].dim;
  const Demand demand{request.device, training_ability(),
                      rows * request.clusters * dim * sizeof(float), request.cancellation};
  Clusters clusters;
  on_worker(demand, [&](compute::Device& device) {
    clusters = Clusterer(view, request, device, progress).run();
  });
  return clusters;
}

}  // namespace warplite::engine
