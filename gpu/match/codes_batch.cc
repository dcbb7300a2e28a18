#include "gpu/match/codes_batch.h"

#include <algorithm>
#include <cstring>

#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

// Ranges that are worth a thread of their own.
constexpr std::size_t kRangesPerThread = 128 << 10;

}  // namespace

CodeBatch::CodeBatch(const compute::CodeWork& work, std::span<const std::uint32_t> queries,
                     std::span<const MatchTiles::Place> tiles, Plan& plan)
    : work_(work), queries_(queries), tiles_(tiles) {
  for (const std::uint32_t query : queries) items_ += work.begins[query + 1] - work.begins[query];
  begins_at_ = plan.add((queries.size() + 1) * sizeof(std::uint32_t));
  items_at_ = plan.add(items_ * sizeof(compute::CodeItem));
  ranges_at_ = plan.add(tiles.size() * items_ * sizeof(compute::CodeRange));
  columns_at_ = plan.add(tiles.size() * work.columns * sizeof(const std::uint16_t*));
}

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

void CodeBatch::write(std::byte* host) const {
  auto* const begins = reinterpret_cast<std::uint32_t*>(host + begins_at_);
  begins[0] = 0;
  for (std::size_t i = 0; i < queries_.size(); ++i) {
    begins[i + 1] = begins[i] + work_.begins[queries_[i] + 1] - work_.begins[queries_[i]];
  }
  auto* const items = reinterpret_cast<compute::CodeItem*>(host + items_at_);
  for_pieces([&](std::size_t first, std::size_t count, std::size_t at) {
    std::copy_n(work_.items.data() + first, count, items + at);
  });
  auto* const ranges = reinterpret_cast<compute::CodeRange*>(host + ranges_at_);
  in_parallel(tiles_.size(), tiles_.size() * items_ / kRangesPerThread, [&](std::size_t t) {
    const auto own = work_.ranges.subspan(tiles_[t].tile.number * work_.items.size());
    for_pieces([&](std::size_t first, std::size_t count, std::size_t at) {
      std::copy_n(own.data() + first, count, ranges + t * items_ + at);
    });
  });
  write_columns(host);
}

void CodeBatch::write_columns(std::byte* host) const {
  auto* columns = reinterpret_cast<const std::byte**>(host + columns_at_);
  for (const MatchTiles::Place& place : tiles_) {
    const compute::CodeTile& tile = work_.tiles[place.tile.number];
    for (std::uint32_t i = 0; i < work_.columns; ++i) {
      const auto* const buffer = static_cast<const CudaBuffer*>(tile.columns[i]);
      *columns++ = buffer == nullptr ? nullptr : buffer->data();
    }
  }
}

void CodeBatch::describe(const std::byte* device, CodeSearchView& search) const {
  search.rows.queries = static_cast<std::uint32_t>(queries_.size());
  search.rows.begins = reinterpret_cast<const std::uint32_t*>(device + begins_at_);
  search.items = reinterpret_cast<const compute::CodeItem*>(device + items_at_);
  search.ranges = reinterpret_cast<const compute::CodeRange*>(device + ranges_at_);
  search.item_count = static_cast<std::uint32_t>(items_);
  search.columns = reinterpret_cast<const std::uint16_t* const*>(device + columns_at_);
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
