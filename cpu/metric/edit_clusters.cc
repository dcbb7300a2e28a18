#include "cpu/metric/edit_clusters.h"

#include <algorithm>

#include "compute/edit_metric.h"
#include "cpu/edit/kernels.h"

namespace warplite::cpu {
namespace {

using compute::kEditGroup;

// Distances of queries that are searched so, and of texts, are below.
constexpr std::int64_t kFar = 0xfffe;

std::uint16_t clamp(std::int64_t value) {
  return static_cast<std::uint16_t>(std::clamp<std::int64_t>(value, 0, kFar));
}

// Numbers by their keys, which are small.
void sort_by(const std::uint16_t* keys, std::vector<std::uint32_t>& numbers) {
  std::vector<std::uint32_t> places, sorted(numbers.size());
  for (const std::uint32_t number : numbers) {
    if (places.size() < keys[number] + std::size_t{2}) places.resize(keys[number] + std::size_t{2});
    ++places[keys[number] + std::size_t{1}];
  }
  for (std::size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
  for (const std::uint32_t number : numbers) sorted[places[keys[number]]++] = number;
  numbers.swap(sorted);
}

}  // namespace

ClusterSearch::ClusterSearch(const compute::EditWork& work, const EditTileView& view,
                             const compute::TextClusters& clusters,
                             std::span<const std::uint32_t> queries, std::size_t k,
                             const EditResults& results, EditThreads& threads)
    : work_(work), view_(view), clusters_(clusters), queries_(queries), k_(k), results_(results),
      threads_(threads), kernels_(edit_kernels()),
      measures_(threads, work, view, clusters.centres, queries),
      visits_(view, clusters.members, clusters.rows.data(), queries) {}

std::vector<std::uint32_t> ClusterSearch::run() {
  std::vector<std::uint32_t> left_out;
  std::vector<Walk> walks;
  for (std::uint32_t place = 0; place < queries_.size(); ++place) {
    Walk walk{place, work_.query(queries_[place]).size(), {}, {}};
    if (limit(walk) < 0) continue;
    find_bounds(walk);
    if (!worthwhile(walk)) {
      left_out.push_back(queries_[place]);
      continue;
    }
    order(walk);
    walks.push_back(std::move(walk));
  }
  // The nearest are to limit what is visited later.
  constexpr std::size_t kFirst = 8;
  std::size_t most = k_ == 0 ? clusters_.count : kFirst;
  for (bool more = true; more; most *= 2) {
    more = false;
    for (Walk& walk : walks) more |= add_next(walk, most);
    visits_.compare(threads_, measures_.columns());
  }
  return left_out;
}

// A text of a cluster is at most `cover` from its centre; one of a later cluster than this at least
// `inner` from this centre.
void ClusterSearch::find_bounds(Walk& walk) const {
  const std::uint16_t* const distances = this->distances(walk);
  walk.bounds.resize(clusters_.count);
  int later = 0;
  for (std::uint32_t i = 0; i < clusters_.count; ++i) {
    const int distance = distances[i];
    walk.bounds[i] = static_cast<std::uint16_t>(std::max(later, distance - clusters_.cover[i]));
    later = std::max(later, clusters_.inner[i] - distance);
  }
}

// Estimates how far results are. The nearest are taken to be a little farther than a part of the
// centres that is as large as that of the texts, since centres are some of the texts.
std::int64_t ClusterSearch::radius(const Walk& walk) const {
  const std::int64_t most = limit(walk);
  if (k_ == 0) return most;
  const std::size_t of_centres =
      std::max<std::size_t>(1, k_ * clusters_.count / std::max(view_.tile().live_rows, 1u));
  if (of_centres >= clusters_.count) return most;
  const std::uint16_t* const distances = this->distances(walk);
  std::vector<std::uint16_t> nearest(distances, distances + clusters_.count);
  const auto at = nearest.begin() + static_cast<std::ptrdiff_t>(of_centres - 1);
  std::nth_element(nearest.begin(), at, nearest.end());
  return std::min<std::int64_t>(most, *at + 1);
}

// Says whether visits take less than comparing with all texts that lengths do not rule out.
bool ClusterSearch::worthwhile(const Walk& walk) const {
  const std::int64_t radius = this->radius(walk);
  std::uint32_t visited = 0;
  for (std::uint32_t i = 0; i < clusters_.count; ++i) {
    if (walk.bounds[i] <= radius) visited += clusters_.begins[i + 1] - clusters_.begins[i];
  }
  return visited <= worthwhile_share(queries_.size()) * view_.groups_near(walk.length, radius);
}

void ClusterSearch::order(Walk& walk) const {
  const std::int64_t limit = this->limit(walk);
  for (std::uint32_t i = 0; i < clusters_.count; ++i) {
    if (walk.bounds[i] <= limit) walk.clusters.push_back(i);
  }
  if (k_ == 0) return;
  sort_by(distances(walk), walk.clusters);
  sort_by(walk.bounds.data(), walk.clusters);
}

// False: no cluster is left that may have results.
bool ClusterSearch::add_next(Walk& walk, std::size_t most) {
  const std::int64_t limit = this->limit(walk);
  const std::size_t end = std::min(walk.clusters.size(), walk.next + most);
  while (walk.next < end && walk.bounds[walk.clusters[walk.next]] <= limit) {
    visit(walk, walk.clusters[walk.next++], limit);
    ++visited_;
  }
  return walk.next < walk.clusters.size() && walk.next == end;
}

void ClusterSearch::visit(const Walk& walk, std::uint32_t cluster, std::int64_t limit) {
  const std::int64_t distance = distances(walk)[cluster];
  const auto length = static_cast<std::int64_t>(walk.length);
  const std::uint16_t low = clamp(distance - limit), high = clamp(distance + limit);
  const std::uint16_t shortest = clamp(length - limit), longest = clamp(length + limit);
  for (std::uint32_t group = clusters_.begins[cluster]; group < clusters_.begins[cluster + 1];
       ++group) {
    const std::size_t place = std::size_t{group} * kEditGroup;
    const std::uint32_t near = kernels_.between(clusters_.rings.data() + place, low, high);
    if (near == 0) continue;
    const std::uint16_t* const lengths = clusters_.members.lengths.data() + place;
    visits_.add(walk.place, group, near & kernels_.between(lengths, shortest, longest));
  }
}

}  // namespace warplite::cpu
