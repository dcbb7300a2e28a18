// Groups rows into segments: by partition where there are enough rows of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/table/table_options.h"

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

// Cuts rows into segments, of no more rows and texts than the options say; reorders `rows` and returns
// the length of each segment, in order. Without partitions: ascending rowids. With them: large partitions first, in segments of
// their own; the rest shares segments in partition order, so that zone maps tell most apart.
// Rows have rowid(row), cell(row, column) and texts(row), their bytes, in `access`.
template <typename Row, typename Access>
class SegmentCutter {
 public:
  SegmentCutter(const TableOptions& options, const Access& access)
      : layout_(options.layout), most_texts_(options.most_texts), access_(access) {}

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
      append_cuts(rows);
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

  void append_cuts(std::span<const Row> rows) {
    for (std::size_t count = 0; !rows.empty(); rows = rows.subspan(count)) {
      std::size_t texts = access_.texts(rows.front());
      for (count = 1; count < std::min<std::size_t>(rows.size(), layout_.segment_rows); ++count) {
        texts += access_.texts(rows[count]);
        if (texts > most_texts_) break;
      }
      cuts_.push_back(count);
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
      append_cuts({begin, begin + static_cast<std::ptrdiff_t>(keep)});
      const auto middle = begin + static_cast<std::ptrdiff_t>(keep);
      own.insert(own.end(), begin, middle);
      shared.insert(shared.end(), middle, end);
    }
    append_cuts(shared);
    own.insert(own.end(), shared.begin(), shared.end());
    rows = std::move(own);
  }

  const Layout& layout_;
  const std::size_t most_texts_;
  const Access& access_;
  std::vector<std::size_t> cuts_;
};

}  // namespace warplite::engine
