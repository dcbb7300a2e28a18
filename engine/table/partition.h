// Groups rows into segments: by partition where there are enough rows of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/chunk.h"

namespace warplite::engine {

// Any total order in which equal values meet.
inline int compare_cells(const Cell& a, const Cell& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  switch (a.kind) {
    case CellKind::kInteger:
      return a.integer < b.integer ? -1 : a.integer > b.integer;
    case CellKind::kReal:
      return a.real < b.real ? -1 : a.real > b.real;
    case CellKind::kText:
    case CellKind::kBlob:
      return a.bytes.compare(b.bytes);
    case CellKind::kNull:
      return 0;
  }
  return 0;
}

// Cuts rows into segments; reorders `rows` and returns the length of each segment, in order.
// Without partitions: ascending rowids. With them: large partitions first, in segments of
// their own; the rest shares segments in partition order, so that zone maps tell most apart.
// Rows have rowid(row) and cell(row, column) in `access`.
template <typename Row, typename Access>
class SegmentCutter {
 public:
  SegmentCutter(const Layout& layout, const Access& access) : layout_(layout), access_(access) {}

  std::vector<std::size_t> cut(std::vector<Row>& rows) {
    cuts_.clear();
    const auto before = [this](const Row& a, const Row& b) {
      const int order = compare_partitions(a, b);
      return order != 0 ? order < 0 : access_.rowid(a) < access_.rowid(b);
    };
    if (!std::is_sorted(rows.begin(), rows.end(), before)) {
      std::sort(rows.begin(), rows.end(), before);
    }
    if (layout_.partitions.empty()) {
      append_cuts(rows.size());
    } else {
      separate_large(rows);
    }
    return std::move(cuts_);
  }

 private:
  int compare_partitions(const Row& a, const Row& b) const {
    for (int column : layout_.partitions) {
      const auto at = static_cast<std::size_t>(column);
      const int order = compare_cells(access_.cell(a, at), access_.cell(b, at));
      if (order != 0) return order;
    }
    return 0;
  }

  void append_cuts(std::size_t rows) {
    for (; rows > 0; rows -= cuts_.back()) {
      cuts_.push_back(std::min<std::size_t>(rows, layout_.segment_rows));
    }
  }

  void separate_large(std::vector<Row>& rows) {
    const std::size_t large = std::max<std::size_t>(1, layout_.segment_rows / 4);
    std::vector<Row> own, shared;
    for (auto begin = rows.begin(), end = begin; begin != rows.end(); begin = end) {
      end = std::find_if(begin, rows.end(),
                         [&](const Row& row) { return compare_partitions(*begin, row) != 0; });
      auto keep = static_cast<std::size_t>(end - begin);
      if (keep % layout_.segment_rows < large) keep -= keep % layout_.segment_rows;
      append_cuts(keep);
      const auto middle = begin + static_cast<std::ptrdiff_t>(keep);
      own.insert(own.end(), begin, middle);
      shared.insert(shared.end(), middle, end);
    }
    append_cuts(shared.size());
    own.insert(own.end(), shared.begin(), shared.end());
    rows = std::move(own);
  }

  const Layout& layout_;
  const Access& access_;
  std::vector<std::size_t> cuts_;
};

}  // namespace warplite::engine
