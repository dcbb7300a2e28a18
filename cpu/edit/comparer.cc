#include "cpu/edit/comparer.h"

#include <algorithm>
#include <bit>

namespace warplite::cpu {

void EditComparer::load(std::span<const std::uint32_t> queries) {
  if (queries.data() == loaded_.data() && queries.size() == loaded_.size()) return;
  distances_.load(work_, queries);
  loaded_ = queries;
  tile_ = nullptr;
}

void EditComparer::begin_tile(const EditTileView& view) {
  if (&view.tile() == tile_) return;
  distances_.translate(view);
  tile_ = &view.tile();
}

bool EditComparer::too_far(const EditGroup& group, const EditBatch::Query& query) const {
  const std::size_t apart = query.length < group.shortest  ? group.shortest - query.length
                            : query.length > group.longest ? query.length - group.longest
                                                           : 0;
  return static_cast<std::int64_t>(apart) > results_.limit(query.number);
}

std::uint32_t EditComparer::live(const EditGroup& group) const {
  std::uint32_t live = group.texts;
  if (tile_->live == nullptr) return live;
  for (std::uint32_t texts = live; texts != 0; texts &= texts - 1) {
    const std::uint32_t row = group.rows[std::countr_zero(texts)];
    if ((tile_->live[row / 64] >> (row % 64) & 1) == 0) live &= ~(texts & -texts);
  }
  return live;
}

void EditComparer::compare(const EditGroup& group) {
  std::uint32_t texts = 0;
  for (const EditBatch::Query& query : distances_.queries()) {
    if (too_far(group, query)) continue;
    if (texts == 0) {
      texts = live(group);
      if (texts == 0) return;
      distances_.begin(group, tile_->width);
    }
    compare(group, query, texts);
  }
}

void EditComparer::compare(const EditGroup& group, std::span<const EditVisit> visits) {
  const std::uint32_t live = this->live(group);
  bool begun = false;
  for (const EditVisit& visit : visits) {
    const EditBatch::Query& query = distances_.queries()[visit.query];
    if ((visit.texts & live) == 0 || too_far(group, query)) continue;
    if (!begun) distances_.begin(group, tile_->width);
    begun = true;
    compare(group, query, visit.texts & live);
  }
}

void EditComparer::compare_some(const compute::MetricTexts& texts, const std::uint16_t* rows,
                                std::span<const EditVisit> visits) {
  if (visits.empty()) return;
  const EditBatch::Query& query = distances_.queries()[visits[0].query];
  const auto flush = [&] {
    const EditGroup group = gather_.finish();
    distances_.begin(group, tile_->width);
    compare(group, query, group.texts);
  };
  for (const EditVisit& visit : visits) {
    const EditGroup group = group_of(texts, tile_->width, rows, visit.group);
    for (std::uint32_t some = visit.texts & live(group); some != 0; some &= some - 1) {
      if (gather_.full()) flush();
      gather_.add(group, tile_->width, std::countr_zero(some));
    }
  }
  if (!gather_.empty()) flush();
}

void EditComparer::measure(const EditGroup& group, std::size_t stride, std::uint16_t* to) {
  distances_.begin(group, tile_->width);
  for (const EditBatch::Query& query : distances_.queries()) {
    const std::int16_t* const sums = distances_.compare(query);
    const auto length = static_cast<std::ptrdiff_t>(query.length);
    for (std::size_t at = 0; at < kEditLanes; ++at) {
      to[at] = static_cast<std::uint16_t>(length + sums[at]);
    }
    evaluated_ += static_cast<std::uint64_t>(std::popcount(group.texts));
    to += stride;
  }
}

void EditComparer::compare(const EditGroup& group, const EditBatch::Query& query,
                           std::uint32_t texts) {
  const std::int16_t* const sums = distances_.compare(query);
  evaluated_ += static_cast<std::uint64_t>(std::popcount(texts));
  const auto length = static_cast<std::int64_t>(query.length);
  const std::int64_t most = results_.limit(query.number) - length;
  constexpr std::int64_t kMost = compute::kLongestEditText;
  if (most < -kMost) return;
  const auto limit = static_cast<std::int16_t>(std::min(most, kMost));
  Hit hits[kEditLanes];
  std::size_t found = 0;
  for (texts &= kernels_.at_most(sums, limit); texts != 0; texts &= texts - 1) {
    const int place = std::countr_zero(texts);
    const std::uint32_t row = group.rows[place];
    hits[found++] = {static_cast<double>(length + sums[place]), tile_->rowids[row], tile_->id, row};
  }
  if (found != 0) results_.add(query.number, {hits, found});
}

}  // namespace warplite::cpu
