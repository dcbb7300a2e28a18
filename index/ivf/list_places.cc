#include "index/ivf/list_places.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kRows = compute::RabitqGroup::kRows;

class Placing {
 public:
  Placing(const compute::IvfShape& shape, std::span<const std::uint32_t> rows)
      : shape_(shape), rows_(rows) {
    out_.begins.resize(rows.size() + 1);
    out_.ends.resize(rows.size());
    out_.order.reserve(rows.size());
  }

  ListPlaces run() {
    if (shape_.planes == 0) {
      in_order();
    } else {
      while (find_next()) fill_groups();
    }
    WARP_CHECK(position_ <= std::numeric_limits<std::uint32_t>::max());
    out_.begins.back() = static_cast<std::uint32_t>(position_);
    return std::move(out_);
  }

 private:
  // Lists that are near each other by number are so by their centroids, and are searched together:
  // none is brought from much farther behind than so many.
  static constexpr std::size_t kNext = 64;

  void put(std::uint32_t list, std::uint64_t begin) {
    out_.begins[list] = static_cast<std::uint32_t>(begin);
    position_ = begin + rows_[list];
    out_.ends[list] = static_cast<std::uint32_t>(position_);
    if (rows_[list] != 0) out_.order.push_back(list);
  }

  void in_order() {
    for (std::uint32_t list = 0; list < rows_.size(); ++list) {
      put(list, position_);
      if (shape_.fast_scan()) position_ = (position_ + kRows - 1) / kRows * kRows;
    }
  }

  // The first lists that have no place yet; says whether there is one.
  bool find_next() {
    for (; next_.size() < kNext && unseen_ < rows_.size(); ++unseen_) {
      if (rows_[unseen_] != 0) next_.push_back(unseen_);
    }
    return !next_.empty();
  }

  std::uint32_t take(std::size_t i) {
    const std::uint32_t list = next_[i];
    next_.erase(next_.begin() + static_cast<std::ptrdiff_t>(i));
    return list;
  }

  // Rows of a list that do not fill a group.
  std::uint32_t rest_of(std::uint32_t list) const { return (rows_[list] - 1) % kRows + 1; }

  // The first list begins at a group. What its last group has room for is filled as well as can be:
  // by lists that lie there whole, and by one that has its first rows there, the others in groups
  // that they fill.
  void fill_groups() {
    put(take(0), position_);
    for (std::uint64_t end = (position_ + kRows - 1) / kRows * kRows; position_ < end;) {
      const std::size_t i = find_best(static_cast<std::uint32_t>(end - position_));
      if (i == next_.size()) {
        position_ = end;
        return;
      }
      const std::uint32_t list = take(i);
      put(list, rows_[list] > kRows ? end - rest_of(list) : position_);
    }
  }

  // Whose rest leaves the least room.
  std::size_t find_best(std::uint32_t room) const {
    std::size_t best = next_.size();
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < next_.size() && most < room; ++i) {
      const std::uint32_t rest = rest_of(next_[i]);
      if (rest > room || rest <= most) continue;
      best = i;
      most = rest;
    }
    return best;
  }

  const compute::IvfShape& shape_;
  const std::span<const std::uint32_t> rows_;
  ListPlaces out_;
  std::uint64_t position_ = 0;       // behind all that have a place
  std::uint32_t unseen_ = 0;         // the first list that was not among the next ones yet
  std::vector<std::uint32_t> next_;  // in order
};

}  // namespace

ListPlaces place_lists(const compute::IvfShape& shape, std::span<const std::uint32_t> rows) {
  return Placing(shape, rows).run();
}

}  // namespace warplite::index
