#include "index/recall/list_order.h"

#include <algorithm>
#include <cstdint>

#include "index/clustering/matrix.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kOrdered = 1024;

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

void ListOrder::find(std::size_t first, std::size_t count, float* away) const {
  if (by_codes_) return find_by_codes(first, count, away);
  const std::size_t lists = shape_.lists;
  multiply(held_.in_model_space.data() + first * shape_.dim, count, shape_.dim, columns_.data(),
           lists, away, held_.task.poll());
  for (std::size_t i = 0; i < count * lists; ++i) away[i] = squares_[i % lists] - away[i];
}

// Codes put lists in another order than centroids do, and where some of these are far longer than
// others, as those of products may be, in one that is quite another. Where there are many lists, the
// last three quarters come last alike: who looks so far may as well compare all rows.
void ListOrder::find_by_codes(std::size_t first, std::size_t count, float* away) const {
  compute::Block lists;
  lists.rows = lists.live_rows = shape_.lists;
  const Run& coarse = *held_.model.coarse();
  const compute::IvfRun run{codes_.get(), coarse.positions, coarse.longest, {&lists, 1}};
  compute::IvfWork work;
  work.distance = held_.distance;
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
    for (const Hit& hit : found.sorted(i)) away[i * shape_.lists + hit.row] = place++;
  }
}

}  // namespace warplite::index
