#include "index/ivf/grouping.h"

#include <algorithm>
#include <limits>

#include "compute/reference.h"
#include "index/ivf/kmeans.h"
#include "index/ivf/nearest_list.h"

namespace warplite::index {
namespace {

class Grouping {
 public:
  Grouping(const TrainingTask& task, const SampleView& centroids, std::vector<float> centres,
           std::size_t most)
      : task_(task), centroids_(centroids), centres_(std::move(centres)), most_(most),
        sizes_(centres_.size() / centroids.dim), nearest_(centroids.rows) {}

  std::vector<std::uint32_t> run() {
    NearestList(task_.device(), centres_.data(), static_cast<std::uint32_t>(sizes_.size()),
                centroids_.dim)
        .find(centroids_.data, centroids_.rows, task_.cancellation(), nearest_.data());
    const std::vector<std::uint32_t> order = nearest_first();
    std::vector<std::uint32_t> groups(centroids_.rows), left;
    for (const std::uint32_t i : order) {
      groups[i] = nearest_[i].list;
      if (sizes_[groups[i]] < most_) {
        ++sizes_[groups[i]];
      } else {
        left.push_back(i);
      }
    }
    for (const std::uint32_t i : left) ++sizes_[groups[i] = nearest_with_room(i)];
    return groups;
  }

 private:
  // The members of a full group that are nearest to its centre stay.
  std::vector<std::uint32_t> nearest_first() const {
    std::vector<std::uint32_t> order(centroids_.rows);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return nearest_[a].distance < nearest_[b].distance;
    });
    return order;
  }

  std::uint32_t nearest_with_room(std::uint32_t i) const {
    task_.poll()();
    const auto bytes = [](const float* row) { return reinterpret_cast<const std::byte*>(row); };
    double least = std::numeric_limits<double>::infinity();
    std::uint32_t best = 0;
    for (std::uint32_t g = 0; g < sizes_.size(); ++g) {
      if (sizes_[g] == most_) continue;
      const double distance = compute::canonical_distance(
          Distance::kL2, ElementType::kFloat32, centroids_.dim, bytes(centroids_.row(i)),
          bytes(centres_.data() + std::size_t{g} * centroids_.dim));
      if (sizes_[best] != most_ && !(distance < least)) continue;
      least = distance;
      best = g;
    }
    return best;
  }

  const TrainingTask& task_;
  const SampleView centroids_;
  const std::vector<float> centres_;
  const std::size_t most_;
  std::vector<std::size_t> sizes_;
  std::vector<Nearest> nearest_;
};

}  // namespace

std::vector<std::uint32_t> group_centroids(const TrainingTask& task, const float* centroids,
                                           std::uint32_t lists, std::uint32_t dim,
                                           std::uint32_t groups) {
  // Lists that are near each other in the model may stand next to each other.
  std::vector<float> mixed;
  mixed.reserve(std::size_t{lists} * dim);
  for (const std::size_t at : random_order(lists, lists)) {
    mixed.insert(mixed.end(), centroids + at * dim, centroids + (at + 1) * dim);
  }
  groups = std::min(groups, lists);
  std::vector<float> centres = kmeans(task, {mixed.data(), lists, dim}, groups);
  // Equal centroids may make fewer groups, which have to hold them all.
  while (centres.size() < std::size_t{groups} * dim) {
    centres.insert(centres.end(), centroids, centroids + dim);
  }
  const std::size_t most = (std::size_t{2} * lists + groups - 1) / groups;
  return Grouping(task, {centroids, lists, dim}, std::move(centres), most).run();
}

}  // namespace warplite::index
