#include "cpu/edit/batch.h"

#include <algorithm>

namespace warplite::cpu {
namespace {

// A batch's masks and columns stay in a cache.
constexpr std::size_t kMostQueries = 16;
constexpr std::size_t kMostColumns = 2048;

}  // namespace

EditBatches::EditBatches(const compute::EditWork& work, std::span<const std::uint32_t> queries)
    : order(queries.begin(), queries.end()) {
  const auto length = [&](std::uint32_t q) { return work.query(q).size(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return length(a) < length(b); });
  std::size_t columns = 0;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const std::size_t mine = length(order[i]);
    columns += mine;
    const bool fits = i != 0 && i - begins.back() < kMostQueries && columns <= kMostColumns &&
                      mine <= length(order[begins.back()]) * 5 / 4 + 4;
    if (fits) continue;
    begins.push_back(i);
    columns = mine;
  }
  begins.push_back(static_cast<std::uint32_t>(order.size()));
}

void EditBatch::clear() {
  for (const std::uint32_t point : points_) slot(point) = {};
  queries_.clear();
  columns_.clear();
  distinct_.clear();
  points_.clear();
  ends_.resize(1);
}

EditBatch::Slot& EditBatch::slot(std::uint32_t point) {
  std::unique_ptr<Page>& page = pages_[point / kPage];
  if (page == nullptr) page = std::make_unique<Page>();
  return (*page)[point % kPage];
}

void EditBatch::add_chunk(std::span<const std::uint32_t> points) {
  const auto chunk = static_cast<std::uint32_t>(ends_.size());
  for (const std::uint32_t point : points) {
    Slot& its = slot(point);
    if (its.number == 0) {
      points_.push_back(point);
      its.number = static_cast<std::uint32_t>(points_.size());
    }
    columns_.push_back(its.number - 1);
    if (its.chunk == chunk) continue;
    its.chunk = chunk;
    distinct_.push_back(its.number - 1);
  }
  ends_.push_back({columns_.size(), distinct_.size()});
}

void EditBatch::add_query(std::uint32_t number, std::span<const std::uint32_t> points,
                          ItemLoop& loop, unsigned thread) {
  const std::size_t first = ends_.size() - 1;
  for (std::size_t at = 0; at < points.size(); at += kChunkColumns) {
    add_chunk(points.subspan(at, std::min(kChunkColumns, points.size() - at)));
    loop.check(thread);
  }
  queries_.push_back({number, points.size(), first, ends_.size() - 1 - first});
}

void EditBatch::load(const compute::EditWork& work, std::span<const std::uint32_t> queries,
                     ItemLoop& loop, unsigned thread) {
  clear();
  for (const std::uint32_t q : queries) add_query(q, work.query(q), loop, thread);
}

void EditBatch::load(std::span<const std::uint32_t> text, ItemLoop& loop, unsigned thread) {
  clear();
  add_query(0, text, loop, thread);
}

}  // namespace warplite::cpu
