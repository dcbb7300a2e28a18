// Tables of ranges of code points, ascending.
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace warplite::index {

// The range that has the code point between its ends, or null.
template <class Range>
const Range* find_range(std::span<const Range> ranges, std::uint32_t code_point) {
  const auto range = std::lower_bound(
      ranges.begin(), ranges.end(), code_point,
      [](const Range& candidate, std::uint32_t wanted) { return candidate.last < wanted; });
  return range != ranges.end() && range->first <= code_point ? &*range : nullptr;
}

}  // namespace warplite::index
