// Finds where, among ascending values, those lie that a predicate lets pass.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/column.h"
#include "core/process/interruption.h"
#include "engine/filter/predicate.h"

namespace warplite::engine {
namespace {

template <class T>
void add_interval(const std::vector<T>& values, std::size_t count, const Interval<T>& interval,
                  std::vector<CompiledPredicate::Places>& out) {
  if (interval.empty()) return;
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  const auto first = std::lower_bound(values.begin(), end, interval.low);
  const auto last = std::upper_bound(first, end, interval.high);
  if (first == last) return;
  out.push_back({static_cast<std::size_t>(first - values.begin()),
                 static_cast<std::size_t>(last - values.begin()) - 1});
}

template <class T>
void add_ranges(const std::vector<T>& values, std::size_t count,
                const std::vector<Interval<T>>& ranges,
                std::vector<CompiledPredicate::Places>& out) {
  if (count == 0) return;
  SparsePoll poll;
  for (auto at = first_range_from(ranges, values[0]);
       at != ranges.end() && at->low <= values[count - 1]; ++at) {
    poll();
    add_interval(values, count, *at, out);
  }
}

// False: so many are wanted that to look at every row takes less.
bool add_values(const std::vector<std::int64_t>& values, std::size_t count,
                const std::vector<std::int64_t>& wanted,
                std::vector<CompiledPredicate::Places>& out) {
  constexpr std::size_t kRowsOfSearch = 64;
  if (count == 0) return true;
  const auto first = std::lower_bound(wanted.begin(), wanted.end(), values[0]);
  const auto end = std::upper_bound(first, wanted.end(), values[count - 1]);
  if (static_cast<std::size_t>(end - first) > count / kRowsOfSearch) return false;
  for (auto at = first; at != end; ++at) add_interval(values, count, {*at, *at}, out);
  return true;
}

void add_text(const Column& values, std::size_t count, std::string_view text,
              std::vector<CompiledPredicate::Places>& out) {
  std::size_t first = 0;
  for (std::size_t size = count; size > 0;) {
    const std::size_t half = size / 2;
    if (values.text(first + half) < text) {
      first += half + 1;
      size -= half + 1;
    } else {
      size = half;
    }
  }
  if (first < count && values.text(first) == text) out.push_back({first, first});
}

}  // namespace

bool CompiledPredicate::find_places(const Column& ascending, std::size_t count,
                                    std::vector<Places>& out) const {
  if (negated_ || nulls_pass_) return false;
  const bool binary = collation_ == Collation::kBinary;
  switch (test_) {
    case Test::kNothing: return true;
    case Test::kIntegers: add_interval(ascending.integers(), count, integers_, out); return true;
    case Test::kIntegerSet: return add_values(ascending.integers(), count, sorted_, out);
    case Test::kReals: add_interval(ascending.reals(), count, reals_, out); return true;
    case Test::kIntegerRanges:
      add_ranges(ascending.integers(), count, ranges_->integers(), out);
      return true;
    case Test::kRealRanges: add_ranges(ascending.reals(), count, ranges_->reals(), out); return true;
    case Test::kTextCompare:
      if (op_ != Comparison::kEqual || !binary) return false;
      add_text(ascending, count, text_, out);
      return true;
    case Test::kTextSet:
      if (!binary) return false;
      for (std::size_t i = 0; i < texts_.size(); ++i) add_text(ascending, count, texts_[i], out);
      return true;
    default: return false;
  }
}

}  // namespace warplite::engine
