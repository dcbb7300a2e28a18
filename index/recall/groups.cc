#include "index/recall/groups.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "index/clustering/matrix.h"

namespace warplite::index {
namespace {

constexpr double kTwiceAsFar = 4;     // what follows a group, in squares
constexpr std::size_t kRepeats = 33;  // so many that are the same say nothing of other queries
// Rows of a group in a tenth of the base: where they are more than kNearest they are a cluster, in
// which queries lie, too; where they are less, as in few dimensions, it may be chance.
constexpr std::size_t kLeastSeen = 5;
constexpr std::size_t kFreshSuffice = 128, kMostFresh = 512;
constexpr std::size_t kLeastFresh = 16;  // fewer tell nothing
constexpr std::size_t kFolds = 8;
constexpr std::size_t kChunk = 8192;  // of rows of the base at a time

}  // namespace

Groups::Groups(const HeldRows& held, const MatrixView& base, compute::HitTable& nearest,
               compute::HitTable* in_a_tenth)
    : held_(held),
      base_(base),
      limits_(held.size(), -1.0),
      usual_(held.size(), true),
      fresh_(held.size(), true) {
  if (held.distance == Distance::kInnerProduct) measure_norms();
  find(nearest, in_a_tenth);
  choose(nearest);
}

bool Groups::any() const {
  return usual_ != fresh_ || !one_of_each_.empty();
}

void Groups::measure_norms() {
  std::vector<float> chunk(std::min(kChunk, base_.rows) * base_.dim);
  for (std::size_t first = 0; first < base_.rows; first += kChunk) {
    MatrixView some = base_;
    some.data = base_.row(first);
    some.rows = std::min(kChunk, base_.rows - first);
    held_.task.poll()();
    held_.model.to_model_space(some, chunk.data());
    for (std::size_t i = 0; i < some.rows; ++i) {
      norms_.push_back(square_norm(chunk.data() + i * base_.dim, base_.dim));
    }
  }
}

// What grows with the square of how far rows lie from a held row: of products, too, though longer
// rows come first.
std::vector<double> Groups::apart(std::size_t row, std::span<const Hit> nearest) const {
  const double own = norms_.empty() ? 0 : held_.square_norm(row);
  std::vector<double> apart;
  for (const Hit& hit : nearest) {
    apart.push_back(!norms_.empty() ? std::max(0.0, own + norms_[hit.row] + 2 * hit.distance)
                    : held_.distance == Distance::kL2 ? hit.distance * hit.distance
                                                      : hit.distance);
  }
  return apart;
}

double Groups::rounding(std::size_t row) const {
  if (held_.distance == Distance::kL2) return 0;
  return norms_.empty() ? 1e-12 : 1e-6 * held_.square_norm(row) + 1e-12;
}

// Up to the last gap behind which rows are twice as far.
Groups::Group Groups::group(std::size_t row, std::span<const Hit> nearest,
                            std::size_t least) const {
  std::vector<double> apart = this->apart(row, nearest);
  std::ranges::sort(apart);
  const double rounding = this->rounding(row);
  Group group;
  group.repeated = apart.size() >= kRepeats && apart[kRepeats - 1] <= rounding;
  if (group.repeated) group.limit = rounding;
  for (std::size_t seen = least; seen < apart.size(); ++seen) {
    const double here = apart[seen - 1], next = apart[seen];
    if (next <= rounding || next < kTwiceAsFar * here) continue;
    group.extent = here;
    group.limit = std::max(rounding, std::sqrt(here * next));
  }
  return group;
}

void Groups::find(compute::HitTable& nearest, compute::HitTable* in_a_tenth) {
  for (std::size_t row = 0; row < held_.size(); ++row) {
    held_.task.poll()();
    const Group group = this->group(row, nearest.sorted(row), 1);
    const Group larger =
        in_a_tenth != nullptr ? this->group(row, in_a_tenth->sorted(row), kLeastSeen) : Group();
    limits_[row] = larger.extent > group.limit ? larger.limit : group.limit;
    fresh_[row] = limits_[row] < 0;
    usual_[row] = !group.repeated;
  }
  // Where nearly all rows are repeated, so are queries.
  const auto apart = static_cast<std::size_t>(std::ranges::count(usual_, true));
  if (apart < kLeastHeld) usual_.assign(held_.size(), true);
}

// Those of its group.
std::vector<std::uint32_t> Groups::within(std::size_t row, std::span<const Hit> nearest) const {
  const std::vector<double> apart = this->apart(row, nearest);
  std::vector<std::uint32_t> within;
  for (std::size_t i = 0; i < nearest.size(); ++i) {
    if (apart[i] <= limits_[row]) within.push_back(nearest[i].row);
  }
  return within;
}

// Held rows are of one group if they have near rows in common.
void Groups::choose(compute::HitTable& nearest) {
  const auto fresh = static_cast<std::size_t>(std::ranges::count(fresh_, true));
  if (fresh >= kFreshSuffice) return;
  std::vector<bool> taken(base_.rows);
  for (std::size_t row = 0; row < held_.size() && fresh + one_of_each_.size() < kMostFresh; ++row) {
    if (fresh_[row]) continue;
    const std::vector<std::uint32_t> near = within(row, nearest.sorted(row));
    if (std::ranges::any_of(near, [&](std::uint32_t of_base) { return taken[of_base]; })) continue;
    for (const std::uint32_t of_base : near) taken[of_base] = true;
    one_of_each_.push_back(row);
  }
  if (fresh + one_of_each_.size() >= kLeastFresh) return;
  fresh_ = usual_;
  one_of_each_.clear();
}

void Groups::leave_out(std::deque<HeldRows>& folds) const {
  for (std::size_t fold = 0; fold < std::min(kFolds, one_of_each_.size()); ++fold) {
    std::vector<std::size_t> rows;
    for (std::size_t i = fold; i < one_of_each_.size(); i += kFolds)
      rows.push_back(one_of_each_[i]);
    folds.emplace_back(held_, rows, outside(rows));
  }
}

// Of these held rows' groups.
Bitmap Groups::outside(const std::vector<std::size_t>& rows) const {
  const PickedRows some(held_.rows.view(), rows);
  const MatrixView& view = some.view();
  const auto buffer = resident(held_.task.device(), view.data, view.rows * view.stride());
  compute::Block block;
  block.vectors = buffer.get();
  block.host = view.data;
  block.rows = block.live_rows = static_cast<std::uint32_t>(view.rows);
  compute::Workload work;
  work.distance = norms_.empty() ? held_.distance : Distance::kL2;
  work.queries = base_;
  work.blocks = {&block, 1};
  work.cancellation = held_.task.cancellation();
  Bitmap outside(base_.rows, true);
  for (std::size_t first = 0; first < base_.rows; first += kChunk) {
    work.queries.data = base_.row(first);
    work.queries.rows = std::min(kChunk, base_.rows - first);
    compute::HitTable nearest(work.queries.rows, 1);
    held_.task.device().nearest(work, nearest).raise();
    for (std::size_t i = 0; i < work.queries.rows; ++i) {
      for (const Hit& hit : nearest.sorted(i)) {
        const bool squared = work.distance == Distance::kL2;
        const double away = squared ? hit.distance * hit.distance : hit.distance;
        if (away <= limits_[rows[hit.row]]) outside.reset(first + i);
      }
    }
  }
  return outside;
}

}  // namespace warplite::index
