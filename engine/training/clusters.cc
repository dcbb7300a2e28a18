#include "engine/training/clusters.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "compute/host/host_kernels.h"
#include "compute/host/parallel.h"
#include "compute/tally.h"
#include "core/bytes.h"
#include "engine/table/models.h"
#include "engine/table/parts.h"
#include "engine/training/passed_rows.h"
#include "index/clustering/kmeans.h"
#include "index/clustering/model_space.h"
#include "index/training_task.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kSampleRows = 32;   // per cluster
constexpr std::size_t kMostSampleRows = std::size_t{1} << 20;
// Few clusters begin far apart, since chance may put two of them where there should be one.
constexpr std::uint32_t kSpread = 256;
constexpr std::size_t kSpreadRows = 32;  // per cluster
// Another pass must be expected to lower the sum of squared distances by this part of it.
constexpr double kLeastGain = 1e-4;
constexpr double kSampleShare = 0.3;  // of the whole work, as it is reported

std::size_t sample_size(std::uint64_t rows, std::uint32_t clusters) {
  const std::size_t wanted = std::max<std::size_t>(
      clusters, std::min(std::size_t{clusters} * kSampleRows, kMostSampleRows));
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

// Brings rows to the front of which each is drawn with a chance that grows with the square of its
// distance to those before it (k-means++).
class Spreader {
 public:
  Spreader(const index::TrainingTask& task, float* rows, std::size_t count, std::uint32_t dim)
      : task_(task), rows_(rows), count_(count), dim_(dim) {}

  void run(std::uint32_t clusters) {
    const std::size_t count = std::min(count_, static_cast<std::size_t>(clusters) * kSpreadRows);
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
    constexpr std::size_t kGrainElements = std::size_t{1} << 18;
    const std::size_t grain = std::max<std::size_t>(1, kGrainElements / dim_);
    compute::in_parallel(weights_.size(), grain, weights_.size() / grain,
                         [&](std::size_t first, std::size_t end) { weigh(last, first, end); });
    double total = 0;
    for (double weight : weights_) total += weight;
    return total;
  }
  void weigh(std::size_t last, std::size_t first, std::size_t end) {
    std::vector<const std::byte*> rows(end - first);
    std::vector<std::uint32_t> ends(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = reinterpret_cast<const std::byte*>(rows_ + (first + i) * dim_);
      ends[i] = static_cast<std::uint32_t>(i + 1);
    }
    const MatrixView added{reinterpret_cast<const std::byte*>(rows_ + last * dim_), 1, dim_,
                           ElementType::kFloat32};
    std::vector<double> distances(rows.size());
    compute::host_kernels().nearest_in_groups({Distance::kL2, added, rows, ends}, distances.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      weights_[first + i] = std::min(weights_[first + i], distances[i] * distances[i]);
    }
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
    std::swap_ranges(rows_ + a * dim_, rows_ + (a + 1) * dim_, rows_ + b * dim_);
    std::swap(weights_[a], weights_[b]);
  }

  const index::TrainingTask& task_;
  float* const rows_;
  const std::size_t count_;
  std::uint32_t dim_;
  std::vector<double> weights_;
  std::mt19937_64 random_;
};

// Bytes that devices compare in a pass.
double bytes_compared(const View& view, const ClusterRequest& request) {
  const double elements = view.layout().vectors[request.column].dim;
  return static_cast<double>(view.live_rows()) * request.clusters * elements * sizeof(float);
}

class Clusterer {
 public:
  Clusterer(const View& view, const ClusterRequest& request, const compute::Devices& devices,
            const index::Progress& progress)
      : view_(view),
        request_(request),
        dim_(view.layout().vectors[request.column].dim),
        task_(devices, request.cancellation, progress),
        rows_(view, request.column, devices, bytes_compared(view, request), request.cancellation) {}

  Clusters run() {
    const index::TrainingTask passes = task_.part(kSampleShare, 1);
    begin();
    double before = std::numeric_limits<double>::infinity();
    for (std::size_t pass = 0;; ++pass) {
      if (pass < request_.passes) passes.report("pass", pass, request_.passes);
      const compute::ListTallies tallies = assign();
      double squares = 0;
      for (const double square : tallies.squares) squares += square;
      const bool settled = !(squares < (1 - kLeastGain) * before);
      if (pass == request_.passes || settled) return result(tallies);
      const bool begun_anew = move(tallies);
      before = begun_anew ? std::numeric_limits<double>::infinity() : squares;
    }
  }

 private:
  std::size_t clusters() const { return centroids_.size() / dim_; }

  void begin() {
    Bytes memory = sample();
    auto* const rows = reinterpret_cast<float*>(memory.data());
    const index::SampleView view{rows, memory.size() / (dim_ * sizeof(float)), dim_};
    if (request_.clusters <= kSpread) {
      Spreader(task_, rows, view.rows, dim_).run(request_.clusters);
    }
    if (view.rows != 0) {
      centroids_ = index::kmeans(task_.part(0, kSampleShare), view, request_.clusters);
    }
  }

  // Draws from each part its share of the rows, as float32; all of them in random order.
  Bytes sample() const {
    const std::uint64_t total = view_.live_rows();
    const std::uint64_t wanted = sample_size(total, request_.clusters);
    std::vector<std::vector<std::uint32_t>> drawn(view_.parts());
    std::size_t count = 0;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < view_.parts(); ++i) {
      const Part& part = view_.part(i);
      if (part.live_rows() == 0) continue;
      task_.poll()();
      const std::uint64_t begin = seen * wanted / total;
      seen += part.live_rows();
      const std::vector<std::uint32_t> rows = rows_of(part, part.vectors(request_.column));
      for (std::size_t at : index::random_order(rows.size(), seen * wanted / total - begin)) {
        drawn[i].push_back(rows[at]);
      }
      count += drawn[i].size();
    }
    return gather_mixed(drawn, count);
  }

  Bytes gather_mixed(const std::vector<std::vector<std::uint32_t>>& drawn,
                     std::size_t count) const {
    std::vector<std::uint32_t> place(count);  // of the i-th row that was drawn
    const std::vector<std::size_t> order = index::random_order(count, count);
    for (std::size_t i = 0; i < count; ++i) place[order[i]] = static_cast<std::uint32_t>(i);
    Bytes out(count * dim_ * sizeof(float), Bytes::Fill::kGradual);
    std::size_t before = 0;
    for (std::size_t first = 0; first < drawn.size(); first += kPartsAtOnce) {
      std::vector<Drawn> some;
      for (std::size_t i = first; i < std::min(first + kPartsAtOnce, drawn.size()); ++i) {
        if (drawn[i].empty()) continue;
        some.push_back({view_.part(i).vectors(request_.column), drawn[i], place.data() + before});
        before += drawn[i].size();
      }
      compute::in_parallel(some.size(), 1, some.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          place_rows(some[i], reinterpret_cast<float*>(out.data()));
        }
      });
    }
    return out;
  }

  // Rows of a part, and where each goes.
  struct Drawn {
    Part::Vectors vectors;
    const std::vector<std::uint32_t>& rows;
    const std::uint32_t* place;
  };
  void place_rows(const Drawn& drawn, float* out) const {
    task_.poll()();
    const std::vector<float> rows = gather(drawn.vectors, drawn.rows, request_.distance);
    for (std::size_t i = 0; i < drawn.rows.size(); ++i) {
      std::copy_n(rows.data() + i * dim_, dim_, out + drawn.place[i] * std::size_t{dim_});
    }
  }

  // A pass over all rows.
  compute::ListTallies assign() const {
    compute::ListTallies tallies(clusters(), dim_);
    if (centroids_.empty()) return tallies;
    compute::TallyWork work;
    work.type = view_.layout().vectors[request_.column].type;
    work.normalised = info(request_.distance).norms;
    work.dim = dim_;
    work.lists = static_cast<std::uint32_t>(clusters());
    rows_.add_up(task_, centroids_, work, tallies);
    return tallies;
  }

  // To the means of clusters that have rows; for as many as are missing then, to the rows that are
  // farthest from the centroid of a cluster, one of each. Returns whether any were.
  bool move(const compute::ListTallies& tallies) {
    using Row = compute::ListTallies::Row;
    std::vector<Row> far;
    std::vector<std::size_t> filled;
    for (std::size_t c = 0; c < tallies.counts.size(); ++c) {
      if (tallies.counts[c] == 0) continue;
      filled.push_back(c);
      if (tallies.farthest[c].distance > 0) far.push_back(tallies.farthest[c]);
    }
    std::vector<float> means = means_of(tallies, filled);
    const std::size_t missing = std::min(request_.clusters - means.size() / dim_, far.size());
    std::stable_sort(far.begin(), far.end(),
                     [](const Row& a, const Row& b) { return a.distance > b.distance; });
    for (std::size_t i = 0; i < missing; ++i) {
      const Part::Vectors vectors = view_.part(far[i].block).vectors(request_.column);
      const std::vector<float> row = gather(vectors, {far[i].row}, request_.distance);
      means.insert(means.end(), row.begin(), row.end());
    }
    centroids_ = std::move(means);
    return missing != 0;
  }

  std::vector<float> means_of(const compute::ListTallies& tallies,
                              const std::vector<std::size_t>& clusters) const {
    constexpr std::size_t kGrainElements = std::size_t{1} << 15;
    std::vector<float> means(clusters.size() * dim_);
    compute::in_parallel(clusters.size(), std::max<std::size_t>(1, kGrainElements / dim_),
                         means.size() / kGrainElements, [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) {
        const double* const sums = tallies.sums.data() + clusters[i] * dim_;
        const auto count = static_cast<double>(tallies.counts[clusters[i]]);
        for (std::uint32_t d = 0; d < dim_; ++d) {
          means[i * dim_ + d] = static_cast<float>(sums[d] / count);
        }
      }
    });
    return means;
  }

  Clusters result(const compute::ListTallies& tallies) const {
    Clusters clusters;
    for (std::size_t c = 0; c < tallies.counts.size(); ++c) {
      if (tallies.counts[c] == 0) continue;
      const float* centroid = centroids_.data() + c * dim_;
      clusters.centroids.insert(clusters.centroids.end(), centroid, centroid + dim_);
      clusters.sizes.push_back(tallies.counts[c]);
    }
    return clusters;
  }

  const View& view_;
  const ClusterRequest& request_;
  const std::uint32_t dim_;
  const index::TrainingTask task_;
  const PassedRows rows_;
  std::vector<float> centroids_;
};

}  // namespace

Clusters cluster_rows(const View& view, const ClusterRequest& request,
                      const index::Progress& progress) {
  const Demand demand{request.device, training_ability(), bytes_compared(view, request),
                      request.cancellation};
  Clusters clusters;
  on_workers(demand, [&](const compute::Devices& devices) {
    clusters = Clusterer(view, request, devices, progress).run();
  });
  return clusters;
}

}  // namespace warplite::engine
