#include "index/clustering/grouped_kmeans.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "compute/host/parallel.h"
#include "compute/reference.h"
#include "index/clustering/lloyd.h"

namespace warplite::index {
namespace {

// Of all that is reported: groups, the clusters of each, iterations over all.
constexpr double kGroupsDone = 0.05, kClustersDone = 0.5;
constexpr std::size_t kIterations = 3;
constexpr std::size_t kNear = 16;  // groups whose clusters a row is compared with, its own too
constexpr std::size_t kHashGrain = 1024;  // rows

const Progress kSilent;

// A number for a row; different ones for different rows, but by chance.
std::uint64_t hash_of(const float* row, std::uint32_t dim) {
  constexpr std::size_t kLanes = 8;  // which do not wait for each other
  std::uint64_t lanes[kLanes] = {};
  for (std::uint32_t d = 0; d < dim; ++d) {
    std::uint64_t& lane = lanes[d % kLanes];
    lane = (lane ^ std::bit_cast<std::uint32_t>(row[d])) * 0x9e3779b97f4a7c15u;
    lane ^= lane >> 32;
  }
  std::uint64_t hash = dim;
  for (const std::uint64_t lane : lanes) hash = (hash ^ lane ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
  return hash;
}

// Which clusters stand where: those of group g are begins[g] … begins[g + 1] − 1.
struct Clusters {
  std::vector<float> centroids;
  std::vector<std::uint32_t> begins{0};
};

class GroupedKmeans {
 public:
  GroupedKmeans(const TrainingTask& task, const SampleView& sample, std::uint32_t clusters)
      : task_(task), sample_(sample.first(std::size_t{clusters} * kKmeansRows)),
        centres_(find_groups(task.part(0, kGroupsDone), sample_, clusters)),
        nearest_(Lloyd(task_, centres_, sample.dim).assign(sample_)),
        members_(nearest_, centres_.size() / sample.dim) {}

  std::vector<float> run(std::uint32_t clusters) {
    Clusters found = find_clusters(allot(clusters));
    Lloyd all(task_, std::move(found.centroids), sample_.dim);
    const TrainingTask rest = task_.part(kClustersDone, 1);
    const std::vector<std::vector<std::uint32_t>> near = near_groups();
    for (std::size_t i = 0; i < kIterations; ++i) {
      rest.report("k-means", i, kIterations);
      assign(all, found.begins, near);
      all.move(sample_, nearest_, true);
    }
    return all.take();
  }

 private:
  static std::vector<float> find_groups(const TrainingTask& task, const SampleView& sample,
                                        std::uint32_t clusters) {
    return kmeans(task, sample, static_cast<std::uint32_t>(std::lround(std::sqrt(clusters))));
  }

  std::size_t groups() const { return members_.clusters(); }

  // Calls body(g) for every group, on several threads.
  void for_each_group(const std::function<void(std::size_t)>& body) const {
    compute::in_parallel(groups(), 1, groups(), [&](std::size_t first, std::size_t last) {
      for (std::size_t g = first; g < last; ++g) body(g);
    });
  }

  // The rows of a group, one after the other.
  std::vector<float> rows_of(std::size_t g) const {
    const std::size_t dim = sample_.dim;
    std::vector<float> rows;
    rows.reserve(members_.count(g) * dim);
    for (std::uint32_t i = members_.begins[g]; i < members_.begins[g + 1]; ++i) {
      const float* row = sample_.row(members_.rows[i]);
      rows.insert(rows.end(), row, row + dim);
    }
    return rows;
  }

  // How many different rows each group has.
  std::vector<std::uint32_t> different() const {
    std::vector<std::uint64_t> hashes(sample_.rows);
    compute::in_parallel(sample_.rows, kHashGrain, sample_.rows / kHashGrain,
                         [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        hashes[i] = hash_of(sample_.row(members_.rows[i]), sample_.dim);
      }
    });
    std::vector<std::uint32_t> counts(groups());
    for_each_group([&](std::size_t g) {
      const auto begin = hashes.begin() + members_.begins[g];
      const auto end = hashes.begin() + members_.begins[g + 1];
      std::sort(begin, end);
      counts[g] = static_cast<std::uint32_t>(std::unique(begin, end) - begin);
    });
    return counts;
  }

  // What part of all a group is: by its rows, which makes clusters of equal size, and by the
  // squares of their distances, which makes the sum of squares small, each to one half.
  std::vector<double> shares() const {
    std::vector<double> squares(groups());
    double sum = 0;
    for (const Nearest& one : nearest_) squares[one.list] += one.distance * one.distance;
    for (const double square : squares) sum += square;
    std::vector<double> shares(groups());
    for (std::size_t g = 0; g < groups(); ++g) {
      shares[g] = members_.count(g) / static_cast<double>(sample_.rows);
      if (sum > 0) shares[g] += squares[g] / sum;
    }
    return shares;
  }

  // Clusters of each group, by its share (Sainte-Laguë); no more than it has different rows.
  std::vector<std::uint32_t> allot(std::uint32_t clusters) const {
    const std::vector<std::uint32_t> most = different();
    const std::vector<double> share = shares();
    std::vector<std::uint32_t> allotted(groups());
    std::priority_queue<std::pair<double, std::uint32_t>> claims;
    for (std::uint32_t g = 0; g < groups(); ++g) {
      if (most[g] != 0) claims.emplace(share[g], ~g);
    }
    for (; clusters != 0 && !claims.empty(); --clusters) {
      const std::uint32_t g = ~claims.top().second;
      claims.pop();
      if (++allotted[g] < most[g]) claims.emplace(share[g] / (2.0 * allotted[g] + 1), ~g);
    }
    return allotted;
  }

  Clusters find_clusters(const std::vector<std::uint32_t>& allotted) const {
    const TrainingTask told = task_.part(kGroupsDone, kClustersDone);
    const TrainingTask silent(task_, kSilent);
    std::vector<std::vector<float>> found(groups());
    for_each_group([&](std::size_t g) {
      told.report("k-means of groups", g, groups());
      if (allotted[g] == 0) return;
      const std::vector<float> rows = rows_of(g);
      const SampleView own{rows.data(), members_.count(g), sample_.dim};
      found[g] = kmeans(silent.turn(g), own, allotted[g], true);
    });
    Clusters all;
    for (const std::vector<float>& some : found) {
      all.centroids.insert(all.centroids.end(), some.begin(), some.end());
      all.begins.push_back(static_cast<std::uint32_t>(all.centroids.size() / sample_.dim));
    }
    return all;
  }

  // For each group those that are nearest to it, itself among them, ascending.
  std::vector<std::vector<std::uint32_t>> near_groups() const {
    const auto centre = [&](std::size_t g) {
      return reinterpret_cast<const std::byte*>(centres_.data() + g * sample_.dim);
    };
    const auto wanted = static_cast<std::ptrdiff_t>(std::min(kNear, groups()));
    std::vector<std::vector<std::uint32_t>> near(groups());
    for_each_group([&](std::size_t g) {
      std::vector<std::pair<double, std::uint32_t>> all;
      for (std::uint32_t other = 0; other < groups(); ++other) {
        const double distance =
            other == g ? -1
                       : compute::canonical_distance(Distance::kL2, ElementType::kFloat32,
                                                     sample_.dim, centre(g), centre(other));
        all.emplace_back(distance, other);
      }
      std::partial_sort(all.begin(), all.begin() + wanted, all.end());
      for (std::ptrdiff_t i = 0; i < wanted; ++i) {
        near[g].push_back(all[static_cast<std::size_t>(i)].second);
      }
      std::sort(near[g].begin(), near[g].end());
    });
    return near;
  }

  // Finds the nearest centroid of each row among those of the groups near its own.
  void assign(const Lloyd& all, const std::vector<std::uint32_t>& begins,
              const std::vector<std::vector<std::uint32_t>>& near) {
    for_each_group([&](std::size_t g) {
      std::vector<float> centroids;
      std::vector<std::uint32_t> numbers;
      for (const std::uint32_t other : near[g]) {
        const std::uint32_t begin = begins[other], end = begins[other + 1];
        centroids.insert(centroids.end(), all.centroid(begin), all.centroid(end));
        for (std::uint32_t c = begin; c < end; ++c) numbers.push_back(c);
      }
      const std::vector<float> rows = rows_of(g);
      std::vector<Nearest> found(members_.count(g));
      const TrainingTask task = task_.turn(g);
      NearestList(task.device(), centroids.data(), static_cast<std::uint32_t>(numbers.size()),
                  sample_.dim)
          .find(rows.data(), found.size(), task.cancellation(), found.data());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::uint32_t row = members_.rows[members_.begins[g] + i];
        nearest_[row] = {numbers[found[i].list], found[i].distance};
      }
    });
  }

  const TrainingTask& task_;
  const SampleView sample_;
  const std::vector<float> centres_;  // of groups
  std::vector<Nearest> nearest_;      // of each row: its group, then its cluster
  const Members members_;             // of groups
};

}  // namespace

std::vector<float> grouped_kmeans(const TrainingTask& task, const SampleView& sample,
                                  std::uint32_t clusters) {
  return GroupedKmeans(task, sample, clusters).run(clusters);
}

}  // namespace warplite::index
