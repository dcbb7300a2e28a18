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
                       const std::vector<std::uint32_t>* only)
    : view_(view),
      rows_(rows),
      request_(request),
      only_(only),
      limit_(Residency::instance().limit()),
      column_bytes_(bytes_of_column()) {
  if (only == nullptr && rows.everything()) {
    selected_rows_ = live_rows_ = rows.count();
    bytes_ = column_bytes_;
  } else {
    count_some();
  }
  fits_ = !choose_rows() && bytes_ <= limit_;
}

std::size_t ExactParts::bytes_of_column() const {
  const auto bytes_of = [this](std::size_t first, std::size_t end) {
    std::size_t bytes = 0;
    for (std::size_t i = first; i < end; ++i) {
      const Part& part = view_.part(i);
      if (part.live_rows() != 0) bytes += part.vector_bytes(request_.column);
    }
    return bytes;
  };
  auto& known = view_.derived_of_segments().of<SegmentBytes>().of_columns;
  if (known.size() <= request_.column) known.resize(request_.column + 1);
  std::optional<std::size_t>& segments = known[request_.column];
  if (!segments) segments = bytes_of(0, view_.shared_segments());
  return *segments + bytes_of(view_.shared_segments(), view_.parts());
}

void ExactParts::count_some() {
  for_each([this](std::uint32_t i) {
    const Part& part = view_.part(i);
    const std::uint32_t selected = rows_.part(i).count;
    selected_rows_ += selected;
    live_rows_ += part.live_rows();
    if (selected != 0) {
      bytes_ += part.vector_bytes(request_.column);
    } else if (part.live_rows() != 0) {
      everywhere_ = false;
    }
  });
}

// Chooses parts of which rows are read by themselves. False: there is none. Where memory has no
// room for the column, whole parts would take the place of what the next search needs. What tells
// rows from damaged ones is remembered of each part, and must find room.
bool ExactParts::choose_rows() {
  constexpr std::size_t kRemembered = 300, kShare = 8;  // parts of the bytes, and of memory
  if (rows_.everything() && only_ == nullptr) return false;
  if (column_fits() || column_bytes_ / kRemembered > limit_ / kShare) return false;
  for_each([this](std::uint32_t i) {
    if (!few(i) || !view_.part(i).lacks(Part::Ahead::kVectors, request_.column)) return;
    by_rows_.resize(view_.parts());
    by_rows_[i] = true;
  });
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
  for_each([&](std::uint32_t i) {
    if (selected(i) != 0 && view_.part(i).vector_bytes(request_.column) != 0) parts.push_back(i);
  });
  return parts;
}

}  // namespace warplite::engine
