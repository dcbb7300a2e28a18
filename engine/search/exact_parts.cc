#include "engine/search/exact_parts.h"

#include <algorithm>
#include <optional>

#include "compute/device.h"
#include "engine/residency/residency.h"
#include "engine/search/read_costs.h"

namespace warplite::engine {
namespace {

// Bytes of the vectors of the segments that views share.
struct SegmentBytes {
  std::vector<std::optional<std::size_t>> of_columns;
};

}  // namespace

ExactParts::ExactParts(const View& view, const Selection& rows, const SearchRequest& request,
                       const std::vector<bool>* but)
    : view_(view),
      rows_(rows),
      request_(request),
      but_(but),
      limit_(Residency::instance().limit()) {
  if (but == nullptr && rows.everything()) {
    count_all();
  } else {
    count_some();
  }
  fits_ = !choose_rows() && bytes_ <= limit_;
}

void ExactParts::count_all() {
  selected_rows_ = live_rows_ = rows_.count();
  auto& known = view_.derived_of_segments().of<SegmentBytes>().of_columns;
  if (known.size() <= request_.column) known.resize(request_.column + 1);
  std::optional<std::size_t>& segments = known[request_.column];
  if (!segments) segments = bytes_of(0, view_.shared_segments());
  bytes_ = column_bytes_ = *segments + bytes_of(view_.shared_segments(), view_.parts());
}

std::size_t ExactParts::bytes_of(std::size_t first, std::size_t end) const {
  std::size_t bytes = 0;
  for (std::size_t i = first; i < end; ++i) {
    if (selected(i) != 0) bytes += view_.part(i).vector_bytes(request_.column);
  }
  return bytes;
}

void ExactParts::count_some() {
  for (std::size_t i = 0; i < view_.parts(); ++i) {
    selected_rows_ += selected(i);
    live_rows_ += view_.part(i).live_rows();
    const std::size_t bytes = view_.part(i).vector_bytes(request_.column);
    column_bytes_ += bytes;
    if (selected(i) != 0) {
      bytes_ += bytes;
    } else if (view_.part(i).live_rows() != 0) {
      everywhere_ = false;
    }
  }
}

// Chooses parts of which rows are read by themselves. False: there is none. Where memory has no
// room for the column, whole parts would take the place of what the next search needs. What tells
// rows from damaged ones is remembered of each part, and must find room.
bool ExactParts::choose_rows() {
  constexpr std::size_t kRemembered = 300, kShare = 8;  // parts of the bytes, and of memory
  if (rows_.everything() && but_ == nullptr) return false;
  if (column_fits() || column_bytes_ / kRemembered > limit_ / kShare) return false;
  for (std::size_t i = 0; i < view_.parts(); ++i) {
    if (!few(i) || !view_.part(i).lacks(Part::Ahead::kVectors, request_.column)) continue;
    by_rows_.resize(view_.parts());
    by_rows_[i] = true;
  }
  return !by_rows_.empty();
}

// Says whether to read the selected rows takes less than to read the part, as several threads do.
bool ExactParts::few(std::size_t i) const {
  constexpr unsigned kMostReaders = 8;
  const double readers = std::min(compute::thread_count(), kMostReaders);
  return selected(i) != 0 && rows_cost(selected(i), request_.queries.stride()) * readers <=
                                 block_cost(view_.part(i).vector_bytes(request_.column));
}

std::vector<std::uint32_t> ExactParts::sealed() const {
  std::vector<std::uint32_t> parts;
  for (std::uint32_t i = 0; i < view_.parts(); ++i) {
    if (selected(i) != 0 && view_.part(i).vector_bytes(request_.column) != 0) parts.push_back(i);
  }
  return parts;
}

}  // namespace warplite::engine
