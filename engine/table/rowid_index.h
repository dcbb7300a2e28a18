// Finds the parts whose range of rowids covers one: a logarithm for parts that do not overlap,
// which is what ascending rowids make.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/types.h"

namespace warplite::engine {

class RowIdIndex {
 public:
  void reserve(std::size_t parts) { ranges_.reserve(parts); }
  void add(RowId low, RowId high, std::uint32_t part) {
    ranges_.push_back({low, high, high, part});
  }
  // Comes after the last add() and before the first lookup.
  void build() {
    const auto by_low = [](const Range& a, const Range& b) { return a.low < b.low; };
    if (!std::is_sorted(ranges_.begin(), ranges_.end(), by_low)) {
      std::sort(ranges_.begin(), ranges_.end(), by_low);
    }
    for (std::size_t i = 1; i < ranges_.size(); ++i) {
      ranges_[i].reach = std::max(ranges_[i].reach, ranges_[i - 1].reach);
    }
  }

  // Calls test(part) for the parts that may have the rowid until it returns true.
  template <typename Test>
  void find(RowId rowid, const Test& test) const {
    auto at = std::upper_bound(ranges_.begin(), ranges_.end(), rowid,
                               [](RowId value, const Range& range) { return value < range.low; });
    while (at != ranges_.begin()) {
      --at;
      if (at->reach < rowid) return;
      if (rowid <= at->high && test(at->part)) return;
    }
  }

  // Returns a rowid that no row of any part exceeds.
  RowId bound() const {
    return ranges_.empty() ? std::numeric_limits<RowId>::min() : ranges_.back().reach;
  }

 private:
  struct Range {
    RowId low;
    RowId high;
    RowId reach;  // the highest of this range and those before it
    std::uint32_t part;
  };
  std::vector<Range> ranges_;
};

}  // namespace warplite::engine
