#include "index/recall/list_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>

#include "index/clustering/matrix.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kOrdered = 1024;
constexpr std::uint32_t kPlace = compute::ContrastSteps::kPlace;

// As far as a float goes. Where both are zero, or too large to tell apart, a query is as hard as can be.
Contrast contrast_of(double nearest, double other, bool product) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const double ratio = other / nearest;
  if (!product) return {1, std::isnan(ratio) ? 0 : static_cast<float>(std::min(ratio, kMost))};
  if (nearest < 0 && !std::isnan(ratio)) return {-1, static_cast<float>(-std::clamp(ratio, -kMost, kMost))};
  return {0, nearest >= 0 && other > 0 ? 1.0f : 0.0f};
}

}  // namespace

ListOrder::ListOrder(const HeldRows& held)
    : held_(held), shape_(held.model.shape()),
      by_codes_(shape_.planes != 0 && shape_.groups != 0),
      host_(held.task.device().own_memory() ? compute::Registry::instance().host()
                                            : held.task.device()) {
  const InvertedModel& model = held.model;
  if (by_codes_) {
    const float* const groups = model.centroids() + std::size_t{shape_.lists} * shape_.dim;
    centroids_ = resident(host_, groups, std::size_t{shape_.groups} * shape_.dim * sizeof(float));
    codes_ = resident(host_, model.coarse()->bytes.data(), model.coarse()->bytes.size());
    return;
  }
  columns_ = transpose(model.centroids(), shape_.lists, shape_.dim);
  squares_.resize(shape_.lists);  // halves; zeros where lists are in the order of products
  if (held.distance == Distance::kInnerProduct) return;
  for (std::size_t list = 0; list < shape_.lists; ++list) {
    const float* const centroid = model.centroids() + list * shape_.dim;
    squares_[list] = static_cast<float>(square_norm(centroid, shape_.dim) / 2);
  }
}

void ListOrder::find(std::size_t first, std::size_t count, float* away, Contrast* contrasts) const {
  if (by_codes_) return find_by_codes(first, count, away, contrasts);
  const std::size_t lists = shape_.lists;
  multiply(held_.in_model_space.data() + first * shape_.dim, count, shape_.dim, columns_.data(),
           lists, away, held_.task.poll());
  for (std::size_t i = 0; i < count * lists; ++i) away[i] = squares_[i % lists] - away[i];
  for (std::size_t i = 0; i < count; ++i) {
    contrasts[i] = contrast(first + i, {away + i * lists, lists});
  }
}

// What tells lists apart does not tell how far the nearest is, where all are long.
Contrast ListOrder::contrast(std::size_t row, std::span<const float> away) const {
  if (shape_.lists <= kPlace) return {1, 0};
  std::vector<std::uint32_t> order(shape_.lists);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::partial_sort(order, order.begin() + kPlace + 1, {}, [&](std::uint32_t list) { return away[list]; });
  if (held_.distance == Distance::kInnerProduct) return contrast_of(away[order[0]], away[order[kPlace]], true);
  const float* const vector = held_.in_model_space.data() + row * shape_.dim;
  const auto square = [&](std::uint32_t list) {
    const float* const centroid = held_.model.centroids() + std::size_t{list} * shape_.dim;
    return std::transform_reduce(vector, vector + shape_.dim, centroid, 0.0, std::plus<>(), [](float x, float y) {
      const double difference = static_cast<double>(x) - static_cast<double>(y);
      return difference * difference;
    });
  };
  return contrast_of(square(order[0]), square(order[kPlace]), false);
}

// Codes put lists in another order than centroids do, and where some of these are far longer than
// others, as those of products may be, in one that is quite another. Where there are many lists, the
// last three quarters come last alike: who looks so far may as well compare all rows.
void ListOrder::find_by_codes(std::size_t first, std::size_t count, float* away,
                              Contrast* contrasts) const {
  compute::Block lists;
  lists.rows = lists.live_rows = shape_.lists;
  const Run& coarse = *held_.model.coarse();
  const compute::IvfRun run{codes_.get(), coarse.positions, coarse.longest, {&lists, 1}};
  compute::IvfWork work;
  // Of which distances are roots of D.
  work.distance = held_.distance == Distance::kCosine ? Distance::kL2 : held_.distance;
  work.queries = held_.rows.view();
  work.queries.rows = count;
  work.model_queries = held_.in_model_space.data() + first * shape_.dim;
  work.model.shape = shape_.coarse();
  work.model.centroids = centroids_.get();
  work.runs = {&run, 1};
  work.nprobe = shape_.groups;
  work.cancellation = held_.task.cancellation();
  compute::HitTable found(count, std::min(shape_.lists, std::max(shape_.lists / 4, kOrdered)));
  host_.ivf_nearest(work, found).raise();
  std::fill_n(away, count * shape_.lists, static_cast<float>(shape_.lists));
  for (std::size_t i = 0; i < count; ++i) {
    float place = 0;
    const std::span<const Hit> hits = found.sorted(i);
    for (const Hit& hit : hits) away[i * shape_.lists + hit.row] = place++;
    const bool product = work.distance == Distance::kInnerProduct;
    const auto d = [&](std::size_t at) { return hits[at].distance * (product ? 1 : hits[at].distance); };
    contrasts[i] = hits.size() > kPlace ? contrast_of(d(0), d(kPlace), product) : Contrast{1, 0};
  }
}

}  // namespace warplite::index
