#include "gpu/match/codes_search.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "gpu/runtime/groups.h"
#include "gpu/runtime/stop.h"

namespace warplite::gpu {
namespace {

// Memory for what strips keep, and for what is sent with queries; a lane holds on to so much.
constexpr std::size_t kGroupMemory = std::size_t{128} << 20;
constexpr std::size_t kMostGroup = 16384;  // queries
constexpr std::size_t kMostTiles = 1024;
// For larger k, slices have no advantage: what is kept must be sorted out all the same.
constexpr std::size_t kMostSliceResults = 4096;
// Strips become no shorter so that more multiprocessors have some.
constexpr std::uint32_t kLeastStrip = 8192;

bool takes_part(const compute::CodeTile& tile) {
  return tile.rows != 0 && (tile.live == nullptr || tile.live_rows != 0);
}

// The first of the classes whose counters hold so much.
constexpr std::array<unsigned, 3> kClasses = {8, 16, 32};
std::size_t class_for(std::uint64_t most) { return most <= 0xff ? 0 : most <= 0xffff ? 1 : 2; }

}  // namespace

// Says what lies in scratch memory behind a batch; pieces up to `sent` come from the host.
struct ColumnCodeSearch::Pieces {
  Plan plan;
  std::size_t count, stride;
  Slot<std::uint64_t> floors{plan, count};
  Slot<std::uint32_t> kept_counts{plan, count};
  Slot<std::uint32_t> stop{plan, 1};
  Plan sent = plan;
  Slot<std::uint64_t> kept{plan, count * stride};
};

ColumnCodeSearch::ColumnCodeSearch(const Gpu& gpu, Lane& lane, const compute::CodeWork& work)
    : gpu_(gpu), lane_(lane), work_(work) {
  std::vector<TileRows> tiles;
  for (std::size_t t = 0; t < work.tiles.size(); ++t) {
    if (!takes_part(work.tiles[t])) continue;
    const TileRows rows = rows_of(work, t);
    if (rows.known != nullptr) tiles.push_back(rows);
  }
  tiles_.emplace(tiles);
}

void ColumnCodeSearch::best_rows(compute::HitTable& best) {
  if (best.k() == 0) return;
  const Queries queries = search_slices(best);
  const auto tiles = tiles_->all();
  for (std::size_t first = 0; first < tiles.size(); first += kMostTiles) {
    search_strips(tiles.subspan(first, std::min(kMostTiles, tiles.size() - first)), queries, best);
  }
}

ColumnCodeSearch::Queries ColumnCodeSearch::search_slices(compute::HitTable& best) {
  Queries all(work_.queries()), rest;
  std::iota(all.begin(), all.end(), 0u);
  if (!tiles_->ascending() || tiles_->all().empty() || best.k() > kMostSliceResults) return all;
  for (std::size_t next = 0; next < all.size();) {
    SlicePlan plan;
    next = plan_slices(work_, all, next, plan, rest);
    if (plan.columns.empty()) continue;  // items of no query, or too few
    const std::size_t each = SliceSearch::tiles_at_once(plan.groups());
    const auto tiles = tiles_->all();
    for (std::size_t first = 0; first < tiles.size(); first += each) {
      search_slices(tiles.subspan(first, std::min(each, tiles.size() - first)), plan, best);
    }
  }
  return rest;
}

void ColumnCodeSearch::search_slices(std::span<const MatchTiles::PlacedTile> tiles,
                                     const SlicePlan& plan, compute::HitTable& best) {
  Plan memory;
  const TileTable table(tiles, true, memory);
  send(table, memory);
  SliceSearch(lane_, work_, table, views_).best_rows(plan, best);
}

void ColumnCodeSearch::send(const TileTable& table, const Plan& plan) {
  const Arena device = lane_.table(plan);
  const Staging host = lane_.outgoing_table(plan);
  table.write(lane_, host, device);
  host.send(plan, device, lane_.stream(), "sending the tiles");
  views_ = table.views(device);
}

std::uint64_t ColumnCodeSearch::most(std::uint32_t query) const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = work_.begins[query]; i < work_.begins[query + 1]; ++i) {
    sum += work_.items[i].weight;
  }
  return std::min(sum, kMostCount);
}

void ColumnCodeSearch::search_strips(std::span<const MatchTiles::PlacedTile> tiles,
                                     const Queries& queries, compute::HitTable& best) {
  std::array<Queries, kClasses.size()> classes;
  for (const std::uint32_t query : queries) {
    const std::uint64_t reach = most(query);
    if (reach < match_floor(best.row(query), work_.least)) continue;
    classes[class_for(reach)].push_back(query);
  }
  Plan plan;
  const TileTable table(tiles, tiles_->ascending(), plan);
  send(table, plan);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    search_class(table, kClasses[c], classes[c], best);
  }
}

void ColumnCodeSearch::search_class(const TileTable& table, unsigned bits, const Queries& queries,
                                    compute::HitTable& best) {
  if (queries.empty()) return;
  const std::size_t items = work_.items.size() / std::max<std::size_t>(work_.queries(), 1) + 1;
  const std::size_t each =
      table.kept_rows(code_strip_rows(bits, gpu_.shared_memory()), best.k()) *
          sizeof(std::uint64_t) +
      table.tiles().size() * items * sizeof(compute::CodeRange);
  const std::size_t group = std::clamp<std::size_t>(kGroupMemory / each, 1, kMostGroup);
  in_groups(queries.size(), group, 1, [&](std::size_t first, std::size_t count) {
    search_group(table, bits, std::span(queries).subspan(first, count), best);
  });
}

// A few queries: shorter strips, so that every multiprocessor has some.
std::uint32_t ColumnCodeSearch::strip_rows(std::size_t tiles, unsigned bits,
                                           std::size_t queries) const {
  std::uint32_t rows = code_strip_rows(bits, gpu_.shared_memory());
  while (rows > kLeastStrip &&
         tiles * queries * (compute::kTileRows / rows) < 2 * gpu_.multiprocessors()) {
    rows /= 2;
  }
  return rows;
}

void ColumnCodeSearch::send(const CodeBatch& batch, const Pieces& at, const Arena& arena,
                            compute::HitTable& best) {
  const Staging host = lane_.outgoing(at.sent);
  batch.write(host);
  const std::span<std::uint64_t> floors = host[at.floors];
  for (std::size_t i = 0; i < batch.queries().size(); ++i) {
    // search_strips() has found that this count is within reach.
    const std::uint64_t floor = match_floor(best.row(batch.queries()[i]), work_.least);
    floors[i] = make_match_floor(static_cast<std::uint32_t>(floor), kNoTile);
  }
  host.clear(at.kept_counts, at.sent);
  host.send(at.sent, arena, lane_.stream(), "sending queries");
}

void ColumnCodeSearch::search_group(const TileTable& table, unsigned bits,
                                    std::span<const std::uint32_t> queries,
                                    compute::HitTable& best) {
  const std::size_t count = queries.size();
  const std::uint32_t strip = strip_rows(table.tiles().size(), bits, count);
  const std::size_t stride = table.kept_rows(strip, best.k());
  Plan plan;
  const CodeBatch batch(work_, queries, table.tiles(), plan);
  const Pieces at{plan, count, stride};
  const Arena arena = lane_.scratch(at.plan);
  send(batch, at, arena, best);
  CodeSearchView search{};
  batch.describe(arena, search);
  MatchSearchView& rows = search.rows;
  rows.tiles = views_;
  rows.tile_count = static_cast<std::uint32_t>(table.tiles().size());
  rows.strip_rows = strip;
  rows.bits = bits;
  rows.key_bits = bits;
  rows.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(best.k(), kMostCount));
  rows.most = work_.most;
  rows.ascending = table.ascending();
  rows.floors = arena[at.floors];
  rows.kept = arena[at.kept];
  rows.kept_counts = arena[at.kept_counts];
  rows.stride = stride;
  rows.stop = arena[at.stop];
  // The results are made before anything is launched: memory that grows waits for that.
  const MatchResults results(lane_, count, std::min(best.k(), stride));
  launch_code_count(search, lane_.stream());
  launch_match_select(rows, results.view(), lane_.stream());
  Stop cancellation(work_.cancellation, arena[at.stop], results.one());
  lane_.wait(&cancellation);
  table.take(rows, results.view(), queries, best);
}

}  // namespace warplite::gpu
