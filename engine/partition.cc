// How rows are grouped into segments: by partition where there are enough rows of one.
#include <algorithm>

#include "engine/flush.h"

namespace warplite::engine {
namespace {

using storage::RowRef;

RowId rowid_of(const RowRef& ref) { return ref.chunk->rowids()[ref.row]; }

// Any total order in which equal values meet.
int compare_cells(const Cell& a, const Cell& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  switch (a.kind) {
    case CellKind::kInteger: return a.integer < b.integer ? -1 : a.integer > b.integer;
    case CellKind::kReal: return a.real < b.real ? -1 : a.real > b.real;
    case CellKind::kText:
    case CellKind::kBlob: return a.bytes.compare(b.bytes);
    case CellKind::kNull: return 0;
  }
  return 0;
}

int compare_partitions(const Layout& layout, const RowRef& a, const RowRef& b) {
  for (int column : layout.partitions) {
    const auto at = static_cast<std::size_t>(column);
    const int order =
        compare_cells(a.chunk->plain(at).cell(a.row), b.chunk->plain(at).cell(b.row));
    if (order != 0) return order;
  }
  return 0;
}

void append_cuts(std::size_t rows, std::size_t segment_rows, std::vector<std::size_t>& cuts) {
  for (; rows > 0; rows -= cuts.back()) cuts.push_back(std::min(rows, segment_rows));
}

}  // namespace

std::vector<std::size_t> cut_into_segments(const Layout& layout, std::vector<RowRef>& rows) {
  const auto by_rowid = [](const RowRef& a, const RowRef& b) { return rowid_of(a) < rowid_of(b); };
  std::vector<std::size_t> cuts;
  if (layout.partitions.empty()) {
    if (!std::is_sorted(rows.begin(), rows.end(), by_rowid)) {
      std::sort(rows.begin(), rows.end(), by_rowid);
    }
    append_cuts(rows.size(), layout.segment_rows, cuts);
    return cuts;
  }
  std::sort(rows.begin(), rows.end(), [&](const RowRef& a, const RowRef& b) {
    const int order = compare_partitions(layout, a, b);
    return order != 0 ? order < 0 : by_rowid(a, b);
  });
  // Large partitions first, in segments of their own; the rest shares segments in
  // partition order, so that zone maps tell most of them apart.
  const std::size_t large = std::max<std::size_t>(1, layout.segment_rows / 4);
  std::vector<RowRef> own, shared;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size(); ++end) {
      if (compare_partitions(layout, rows[begin], rows[end]) != 0) break;
    }
    std::size_t keep = end - begin;
    if (keep % layout.segment_rows < large) keep -= keep % layout.segment_rows;
    append_cuts(keep, layout.segment_rows, cuts);
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(begin);
    own.insert(own.end(), first, first + static_cast<std::ptrdiff_t>(keep));
    shared.insert(shared.end(), first + static_cast<std::ptrdiff_t>(keep),
                  rows.begin() + static_cast<std::ptrdiff_t>(end));
  }
  append_cuts(shared.size(), layout.segment_rows, cuts);
  rows = std::move(own);
  rows.insert(rows.end(), shared.begin(), shared.end());
  return cuts;
}

}  // namespace warplite::engine
