#include "engine/filter/number_ranges.h"

#include <limits>

#include "core/process/interruption.h"
#include "engine/filter/predicate.h"

namespace warplite::engine {
namespace {

template <typename T>
void add_range(std::vector<Interval<T>>& ranges, Interval<T> (*interval)(Comparison, const Cell&),
               const Cell& low, const Cell& high) {
  using Limits = std::numeric_limits<T>;
  Interval<T> range{Limits::has_infinity ? -Limits::infinity() : Limits::lowest(),
                    Limits::has_infinity ? Limits::infinity() : Limits::max()};
  if (!low.is_null()) {
    const Interval<T> from = interval(Comparison::kGreaterEqual, low);
    if (from.empty()) return;
    range.low = from.low;
  }
  if (!high.is_null()) {
    const Interval<T> to = interval(Comparison::kLessEqual, high);
    if (to.empty()) return;
    range.high = to.high;
  }
  if (!range.empty()) ranges.push_back(range);
}

bool meet(const Interval<std::int64_t>& a, const Interval<std::int64_t>& b) {
  return b.low <= a.high || b.low - 1 == a.high;
}
bool meet(const Interval<double>& a, const Interval<double>& b) { return b.low <= a.high; }

template <typename T>
void merge_ranges(std::vector<Interval<T>>& ranges) {
  interruptible_sort(ranges.begin(), ranges.end(),
                     [](const Interval<T>& a, const Interval<T>& b) { return a.low < b.low; });
  std::size_t merged = 0;
  for (const Interval<T>& range : ranges) {
    if (merged != 0 && meet(ranges[merged - 1], range)) {
      ranges[merged - 1].high = std::max(ranges[merged - 1].high, range.high);
    } else {
      ranges[merged++] = range;
    }
  }
  ranges.resize(merged);
}

}  // namespace

void NumberRanges::add(const Cell& low, const Cell& high) {
  if (of_reals_) {
    add_range(reals_, real_interval, low, high);
  } else {
    add_range(integers_, integer_interval, low, high);
  }
}

void NumberRanges::merge() {
  merge_ranges(integers_);
  merge_ranges(reals_);
}

}  // namespace warplite::engine
