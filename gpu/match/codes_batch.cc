#include "gpu/match/codes_batch.h"

#include <algorithm>

#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

// Ranges that are worth a thread of their own.
constexpr std::size_t kRangesPerThread = 128 << 10;

std::size_t count_items(const compute::CodeWork& work, std::span<const std::uint32_t> queries) {
  std::size_t items = 0;
  for (const std::uint32_t query : queries) items += work.begins[query + 1] - work.begins[query];
  return items;
}

}  // namespace

CodeBatch::CodeBatch(const compute::CodeWork& work, std::span<const std::uint32_t> queries,
                     std::span<const MatchTiles::PlacedTile> tiles, Plan& plan)
    : work_(work), queries_(queries), tiles_(tiles), item_count_(count_items(work, queries)),
      begins_(plan, queries.size() + 1), items_(plan, item_count_),
      ranges_(plan, tiles.size() * item_count_), columns_(plan, tiles.size() * work.columns) {}

template <typename Visit>
void CodeBatch::for_pieces(const Visit& visit) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < queries_.size();) {
    std::size_t end = i + 1;
    while (end < queries_.size() && queries_[end] == queries_[end - 1] + 1) ++end;
    const std::uint32_t first = work_.begins[queries_[i]];
    const std::uint32_t count = work_.begins[queries_[end - 1] + 1] - first;
    visit(first, count, at);
    at += count;
    i = end;
  }
}

void CodeBatch::write(const Staging& host) const {
  const std::span<std::uint32_t> begins = host[begins_];
  begins[0] = 0;
  for (std::size_t i = 0; i < queries_.size(); ++i) {
    begins[i + 1] = begins[i] + work_.begins[queries_[i] + 1] - work_.begins[queries_[i]];
  }
  compute::CodeItem* const items = host[items_].data();
  for_pieces([&](std::size_t first, std::size_t count, std::size_t at) {
    std::copy_n(work_.items.data() + first, count, items + at);
  });
  compute::CodeRange* const ranges = host[ranges_].data();
  in_parallel(tiles_.size(), ranges_.count() / kRangesPerThread, [&](std::size_t t) {
    const auto own = work_.ranges.subspan(tiles_[t].tile.number * work_.items.size());
    for_pieces([&](std::size_t first, std::size_t count, std::size_t at) {
      std::copy_n(own.data() + first, count, ranges + (t * item_count_ + at));
    });
  });
  write_columns(host[columns_]);
}

void CodeBatch::write_columns(std::span<const std::uint16_t*> columns) const {
  auto column = columns.begin();
  for (const MatchTiles::PlacedTile& place : tiles_) {
    const compute::CodeTile& tile = work_.tiles[place.tile.number];
    for (std::uint32_t i = 0; i < work_.columns; ++i) {
      const auto* const buffer = static_cast<const CudaBuffer*>(tile.columns[i]);
      *column++ = buffer == nullptr ? nullptr : buffer->at<std::uint16_t>(0);
    }
  }
}

void CodeBatch::describe(const Arena& device, CodeSearchView& search) const {
  search.rows.queries = static_cast<std::uint32_t>(queries_.size());
  search.rows.begins = device[begins_];
  search.items = device[items_];
  search.ranges = device[ranges_];
  search.item_count = static_cast<std::uint32_t>(item_count_);
  search.columns = device[columns_];
  search.column_count = work_.columns;
}

TileRows rows_of(const compute::CodeWork& work, std::size_t number) {
  const compute::CodeTile& tile = work.tiles[number];
  const auto* const end = tile.columns + work.columns;
  const auto* const some = std::find_if(
      tile.columns, end, [](const compute::Buffer* column) { return column != nullptr; });
  MatchRowids* const known = some == end ? nullptr : &match_rowids(*some);
  return {known, number, tile.rows, tile.id, tile.rowids, tile.live};
}

}  // namespace warplite::gpu
