#include "gpu/match/search.h"

#include <algorithm>

#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/groups.h"
#include "gpu/runtime/stop.h"

namespace warplite::gpu {
namespace {

using compute::MatchItem;
using compute::MatchTile;

// Memory for what strips keep; a lane holds on to so much.
constexpr std::size_t kGroupMemory = std::size_t{192} << 20;
constexpr std::size_t kMostGroup = 16384;  // queries
constexpr std::size_t kMostTiles = 1024;   // their sums take 256 MB
// Postings that a thread block adds at most: milliseconds, after which it asks whether to stop.
constexpr std::uint64_t kMostAdded = std::uint64_t{1} << 27;

bool takes_part(const MatchTile& tile) {
  return tile.rows != 0 && tile.postings != 0 && (tile.live == nullptr || tile.live_rows != 0);
}

// The first of the classes whose counters hold so much.
std::size_t class_for(std::uint64_t most) {
  return most <= 0xf ? 0 : most <= 0xff ? 1 : most <= 0xffff ? 2 : 3;
}

}  // namespace

// Says what lies in scratch memory; pieces up to `sent` come from the host.
struct MatchSearch::Pieces {
  std::uint32_t strip_rows;
  std::size_t stride, count, item_count, summed_rows;
  Plan plan{};
  Slot<MatchItem> items{plan, item_count};
  Slot<std::uint32_t> begins{plan, count + 1};
  Slot<std::uint64_t> floors{plan, count};
  Slot<std::uint32_t> kept_counts{plan, count};
  Slot<std::uint32_t> stop{plan, 1};
  Plan sent = plan;
  Slot<std::uint64_t> kept{plan, count * stride};
  Slot<std::uint32_t> sums{plan, summed_rows};
};

MatchSearch::MatchSearch(const Gpu& gpu, Lane& lane, const compute::MatchWork& work)
    : gpu_(gpu), lane_(lane), work_(work) {
  std::vector<TileRows> tiles;
  for (std::size_t t = 0; t < work.tiles.size(); ++t) {
    const MatchTile& tile = work.tiles[t];
    if (!takes_part(tile)) continue;
    MatchRowids& known = match_rowids(tile.bytes);
    tiles.push_back({&known, t, tile.rows, tile.id, tile.rowids, tile.live});
    most_keywords_ = std::max(most_keywords_, tile.keywords);
    most_postings_ = std::max(most_postings_, tile.postings);
  }
  tiles_.emplace(tiles);
}

void MatchSearch::best_rows(compute::HitTable& best) {
  if (best.k() == 0) return;
  const auto all = tiles_->all();
  for (std::size_t first = 0; first < all.size(); first += kMostTiles) {
    search_tiles(all.subspan(first, std::min(kMostTiles, all.size() - first)), best);
  }
}

std::vector<MatchSearch::Class> MatchSearch::classify(compute::HitTable& best) const {
  std::vector<Class> classes = {
      {4, false, {}}, {8, false, {}}, {16, false, {}}, {32, false, {}}, {32, true, {}}};
  for (std::uint32_t query = 0; query < work_.queries(); ++query) {
    std::uint64_t most = 0, added = 0;  // what a row may count, and postings in a tile
    for (std::uint32_t i = work_.begins[query]; i < work_.begins[query + 1]; ++i) {
      const MatchItem& item = work_.items[i];
      if (item.low > item.high) continue;
      const std::uint64_t met = std::min<std::uint64_t>(item.high - item.low, most_keywords_ - 1);
      most = std::min(most + item.weight * (met + 1), kMostCount);
      added += item.low == item.high ? compute::kTileRows : most_postings_;
    }
    if (most < match_floor(best.row(query), work_.least)) continue;
    classes[added > kMostAdded ? 4 : class_for(most)].queries.push_back(query);
  }
  return classes;
}

void MatchSearch::search_tiles(std::span<const MatchTiles::PlacedTile> tiles,
                               compute::HitTable& best) {
  Plan plan;
  const TileTable table(tiles, tiles_->ascending(), plan);
  table_ = &table;
  const Arena device = lane_.table(plan);
  const Staging host = lane_.outgoing_table(plan);
  const std::span<MatchTileView> views = table.write(lane_, host, device);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const MatchTile& tile = work_.tiles[tiles[t].tile.number];
    const CudaBuffer& buffer = CudaBuffer::of(tile.bytes);
    const compute::TileLayout at = compute::TileLayout::of(tile.keywords, tile.postings);
    views[t].keys = buffer.at<compute::Keyword>(at.keys);
    views[t].begins = buffer.at<std::uint32_t>(at.begins);
    views[t].postings = buffer.at<std::uint16_t>(at.rows);
    views[t].keywords = tile.keywords;
  }
  host.send(plan, device, lane_.stream(), "sending the tiles");
  views_ = table.views(device);
  for (const Class& queries : classify(best)) search_class(queries, best);
}

void MatchSearch::search_class(const Class& queries, compute::HitTable& best) {
  const std::size_t all = queries.queries.size();
  if (all == 0) return;
  const std::size_t stride =
      table_->kept_rows(match_strip_rows(queries.bits, gpu_.shared_memory()), best.k());
  const std::size_t group =
      queries.sums ? 1
                   : std::clamp<std::size_t>(kGroupMemory / (stride * sizeof(std::uint64_t)), 1,
                                             kMostGroup);
  in_groups(all, group, 1, [&](std::size_t first, std::size_t count) {
    search_group(queries, first, count, best);
  });
}

MatchSearch::Pieces MatchSearch::lay_out(const Class& queries, std::size_t first,
                                         std::size_t count, std::size_t k) const {
  const std::uint32_t strip_rows = match_strip_rows(queries.bits, gpu_.shared_memory());
  std::size_t items = 0;
  for (std::size_t i = 0; i < count; ++i) items += item_count(queries.queries[first + i]);
  const std::size_t rows = table_->tiles().size() * compute::kTileRows;
  return {strip_rows, table_->kept_rows(strip_rows, k), count, items, queries.sums ? rows : 0};
}

void MatchSearch::send(const Class& queries, std::size_t first, const Pieces& at,
                       const Arena& arena, compute::HitTable& best) {
  const Staging host = lane_.outgoing(at.sent);
  MatchItem* const items = host[at.items].data();
  const std::span<std::uint32_t> begins = host[at.begins];
  const std::span<std::uint64_t> floors = host[at.floors];
  begins[0] = 0;
  for (std::size_t i = 0; i < at.count; ++i) {
    const std::uint32_t query = queries.queries[first + i];
    const std::uint32_t own = item_count(query);
    std::copy_n(work_.items.data() + work_.begins[query], own, items + begins[i]);
    begins[i + 1] = begins[i] + own;
    // classify() has found that this count is within reach.
    const std::uint64_t floor = match_floor(best.row(query), work_.least);
    floors[i] = make_match_floor(static_cast<std::uint32_t>(floor), kNoTile);
  }
  host.clear(at.kept_counts, at.sent);
  host.send(at.sent, arena, lane_.stream(), "sending queries");
}

MatchSearchView MatchSearch::view_of(const Class& queries, const Pieces& at, const Arena& arena,
                                     std::size_t k) const {
  MatchSearchView search{};
  search.tiles = views_;
  search.tile_count = static_cast<std::uint32_t>(table_->tiles().size());
  search.strip_rows = at.strip_rows;
  search.bits = queries.bits;
  search.key_bits = std::max(queries.bits, 8u);
  search.queries = static_cast<std::uint32_t>(at.count);
  search.begins = arena[at.begins];
  search.items = arena[at.items];
  search.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(k, kMostCount));
  search.ascending = table_->ascending();
  search.floors = arena[at.floors];
  search.kept = arena[at.kept];
  search.kept_counts = arena[at.kept_counts];
  search.stride = at.stride;
  search.most = ~std::uint32_t{0};
  search.stop = arena[at.stop];
  if (queries.sums) search.sums = arena[at.sums];
  return search;
}

void MatchSearch::search_group(const Class& queries, std::size_t first, std::size_t count,
                               compute::HitTable& best) {
  const Pieces at = lay_out(queries, first, count, best.k());
  const Arena arena = lane_.scratch(at.plan);
  send(queries, first, at, arena, best);
  const MatchSearchView search = view_of(queries, at, arena, best.k());
  const MatchResults results(lane_, count, std::min(best.k(), at.stride));
  if (queries.sums) {
    check(cudaMemsetAsync(search.sums, 0, at.sums.bytes(), lane_.stream()), "adding up matches");
    launch_match_sums(search, item_count(queries.queries[first]), most_postings_, lane_.stream());
  }
  launch_match_count(search, lane_.stream());
  launch_match_select(search, results.view(), lane_.stream());
  Stop cancellation(work_.cancellation, arena[at.stop], results.one());
  lane_.wait(&cancellation);
  table_->take(search, results.view(), std::span(queries.queries).subspan(first, count), best);
}

}  // namespace warplite::gpu
