#include "gpu/match/tiles.h"

#include <algorithm>
#include <cmath>

#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

// Hits that are worth a thread of their own.
constexpr std::size_t kHitsPerThread = 24 << 10;

MatchTiles::PlacedTile place_of(const TileRows& tile) {
  const RowIdView& rowids = tile.rowids;
  if (rowids.list == nullptr) return {tile, rowids[0], rowids[tile.rows - 1], true};
  const MatchRowids::Extent extent = tile.known->extent(rowids.list, tile.rows);
  return {tile, extent.least, extent.greatest, extent.ascending};
}

}  // namespace

MatchTiles::MatchTiles(std::span<const TileRows> tiles) {
  places_.reserve(tiles.size());
  for (const TileRows& tile : tiles) places_.push_back(place_of(tile));
  std::sort(places_.begin(), places_.end(),
            [](const PlacedTile& a, const PlacedTile& b) { return a.least < b.least; });
  for (std::size_t t = 0; t < places_.size(); ++t) {
    ascending_ &= places_[t].ascending && (t == 0 || places_[t - 1].greatest < places_[t].least);
  }
}

TileTable::TileTable(std::span<const MatchTiles::PlacedTile> tiles, bool ascending, Plan& plan)
    : tiles_(tiles), ascending_(ascending), views_(plan, tiles.size()) {
  live_.reserve(tiles.size());
  for (const MatchTiles::PlacedTile& place : tiles) {
    live_.emplace_back(plan, live_words(place.tile.live, place.tile.rows));
  }
}

std::span<MatchTileView> TileTable::write(Lane& lane, const Staging& host,
                                          const Arena& device) const {
  const std::span<MatchTileView> views = host[views_];
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    const TileRows& tile = tiles_[t].tile;
    MatchTileView& view = views[t];
    view = {};
    view.first_rowid = tile.rowids.first;
    view.rows = tile.rows;
    view.ascending = tiles_[t].ascending ? 1 : 0;
    view.after = first_after(tiles_[t].greatest);
    // If rowids do not ascend, somebody will ask for them.
    if (!ascending_ && tile.rowids.list != nullptr) {
      view.rowids = tile.known->resident(tile.rowids.list, tile.rows, lane);
    }
    if (tile.live == nullptr) continue;
    std::copy_n(tile.live, live_[t].count(), host[live_[t]].begin());
    view.live = device[live_[t]];
  }
  return views;
}

std::uint32_t TileTable::first_after(RowId rowid) const {
  const auto after = std::partition_point(
      tiles_.begin(), tiles_.end(),
      [rowid](const MatchTiles::PlacedTile& other) { return other.least <= rowid; });
  return static_cast<std::uint32_t>(after - tiles_.begin());
}

std::size_t TileTable::kept_rows(std::uint32_t strip_rows, std::size_t k) const {
  std::size_t rows = 0;
  for (const MatchTiles::PlacedTile& place : tiles_) {
    for (std::uint32_t first = 0; first < place.tile.rows; first += strip_rows) {
      rows += std::min<std::size_t>(k, std::min(strip_rows, place.tile.rows - first));
    }
  }
  return rows;
}

void TileTable::take(const MatchSearchView& search, const MatchResultsView& results,
                     std::span<const std::uint32_t> queries, compute::HitTable& best) const {
  std::size_t found = 0;
  for (std::size_t i = 0; i < queries.size(); ++i) found += results.found[i];
  in_parallel(queries.size(), found / kHitsPerThread, [&](std::size_t i) {
    take_query(search, results.out + i * results.room, results.found[i], best.row(queries[i]));
  });
}

void TileTable::take_query(const MatchSearchView& search, const std::uint64_t* keys,
                           std::uint32_t found, TopK& nearest) const {
  // Rowids lie here and there: the machine fetches several at a time.
  for (std::uint32_t f = 0; f < found; ++f) {
    const MatchKey key = take_match_key(search.key_bits, keys[f]);
    const RowIdView& rowids = tiles_[key.tile].tile.rowids;
    if (rowids.list != nullptr) __builtin_prefetch(rowids.list + key.row);
  }
  for (std::uint32_t f = 0; f < found; ++f) {
    const MatchKey key = take_match_key(search.key_bits, keys[f]);
    const TileRows& tile = tiles_[key.tile].tile;
    nearest.push({-static_cast<double>(key.count), tile.rowids[key.row], tile.id, key.row});
  }
}

MatchResults::MatchResults(Lane& lane, std::size_t queries, std::size_t room) {
  Plan plan;
  const Slot<std::uint32_t> one(plan, 1), found(plan, queries);
  const Slot<std::uint64_t> out(plan, queries * room);
  const Arena memory = lane.incoming(plan);
  one_ = memory[one];
  view_ = {memory[out], memory[found], static_cast<std::uint32_t>(room)};
}

std::uint64_t match_floor(TopK& best, std::uint32_t least) {
  best.sorted();
  const double floor = std::ceil(-best.threshold());
  if (floor > static_cast<double>(kMostCount)) return kMostCount + 1;
  return std::max<std::uint64_t>(least, floor > 0 ? static_cast<std::uint64_t>(floor) : 0);
}

}  // namespace warplite::gpu
