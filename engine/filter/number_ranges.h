// Numbers in one of several ranges, as intervals of a column's own type that ascend and are apart:
// however many ranges there are, a value is looked for in them once.
// Threads: immutable once it is merged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/value.h"
#include "engine/filter/interval_mask.h"

namespace warplite::engine {

class NumberRanges {
 public:
  // `type`: the column's, or kInteger for the rowid; no text.
  explicit NumberRanges(PlainType type) : of_reals_(type == PlainType::kReal) {}

  // Numbers from `low` to `high`, both included; where an end is NULL, without end.
  void add(const Cell& low, const Cell& high);
  // Call this after the last range was added.
  void merge();

  // Return the ranges of the column's type; the others are empty.
  const std::vector<Interval<std::int64_t>>& integers() const { return integers_; }
  const std::vector<Interval<double>>& reals() const { return reals_; }

 private:
  bool of_reals_;
  std::vector<Interval<std::int64_t>> integers_;
  std::vector<Interval<double>> reals_;
};

// The first of merged ranges that is not below a value.
template <typename T>
auto first_range_from(const std::vector<Interval<T>>& ranges, T value) {
  return std::lower_bound(ranges.begin(), ranges.end(), value,
                          [](const Interval<T>& range, T at) { return range.high < at; });
}

}  // namespace warplite::engine
