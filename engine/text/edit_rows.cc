#include "engine/text/edit_rows.h"

#include <cmath>
#include <mutex>

#include "compute/host/parallel.h"

namespace warplite::engine {

void EditRows::make_patterns() {
  for (std::size_t q = patterns_.size(); q < queries_.size(); ++q) {
    patterns_.push_back(std::make_unique<compute::EditPattern>(queries_[q], &cancellation_));
  }
}

void EditRows::compare(std::uint32_t part, std::span<const std::uint32_t> rows,
                       const Limit& limit, const Add& add) {
  const auto texts = rows.empty() ? nullptr : view_.part(part).plain(column_.column);
  if (texts == nullptr) return;
  make_patterns();
  constexpr std::size_t kGrain = 256;
  std::mutex mutex;
  const auto body = [&](std::size_t first, std::size_t last) {
    std::vector<double> limits(queries_.size());
    std::vector<Found> found;
    for (; first < last; first += kGrain) {
      {
        const std::lock_guard lock(mutex);
        for (std::size_t q = 0; q < limits.size(); ++q) limits[q] = limit(q);
      }
      compare_some(part, *texts, rows.subspan(first, std::min(kGrain, last - first)), limits,
                   found);
      const std::lock_guard lock(mutex);
      for (const Found& one : found) add(one.query, one.hit);
      found.clear();
    }
  };
  compute::in_parallel(rows.size(), kGrain, rows.size() / kGrain, body);
}

void EditRows::compare_some(std::uint32_t part, const Column& texts,
                            std::span<const std::uint32_t> rows,
                            const std::vector<double>& limits, std::vector<Found>& found) {
  const RowIdView rowids = view_.part(part).rowids();
  CodePoints points;
  for (const std::uint32_t row : rows) {
    if (texts.is_null(row)) continue;
    column_.read(texts.text(row), points);
    for (std::size_t q = 0; q < patterns_.size(); ++q) {
      if (cancellation_.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
      const double apart = std::abs(static_cast<double>(points.size()) -
                                    static_cast<double>(patterns_[q]->size()));
      if (apart > limits[q]) continue;
      const auto distance = static_cast<double>(patterns_[q]->distance(points, &cancellation_));
      if (distance <= limits[q]) found.push_back({q, {distance, rowids[row], part, row}});
    }
  }
}

}  // namespace warplite::engine
