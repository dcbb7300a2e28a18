#include "gpu/match/codes_slice_search.h"

#include <algorithm>

#include "gpu/runtime/stop.h"

namespace warplite::gpu {
namespace {

// Memory for tables and slots of rows; a lane holds on to so much.
constexpr std::size_t kTablesMemory = std::size_t{128} << 20;
// Fewer queries are counted one by one in less time.
constexpr std::size_t kWorthwhile = 64;

// Numbers of a tile.
std::size_t tile_slices(std::uint32_t groups) {
  return std::size_t{groups} * kSliceColumns * kSliceSlots * kSliceQueries / 32;
}
std::size_t tile_ranks(std::uint32_t groups) {
  return std::size_t{groups} * kSliceColumns * compute::kTileRows / 32;
}
std::size_t tile_places(std::uint32_t groups) {
  return std::size_t{groups} * compute::kTileRows * kSliceVectors;
}

// Steps after which bounds so far apart are next to each other.
unsigned steps_for(std::uint32_t range) {
  unsigned steps = 0;
  for (; range > 1; range = (range + kSliceSteps) / (kSliceSteps + 1)) ++steps;
  return steps;
}

// The columns that a query's items need, beyond those there are. False: it does not fit.
bool add_columns(std::span<const compute::CodeItem> items, std::vector<std::uint32_t>& columns) {
  if (items.size() > kMostSliceGroups * kSliceColumns) return false;
  const std::size_t before = columns.size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint32_t column = items[i].column;
    const auto so_far = items.first(i + 1);
    const auto own = std::count_if(so_far.begin(), so_far.end(),
                                   [=](const auto& item) { return item.column == column; });
    if (std::count(columns.begin(), columns.end(), column) < own) columns.push_back(column);
  }
  if (columns.size() <= kMostSliceGroups * kSliceColumns) return true;
  columns.resize(before);
  return false;
}

// Says whether two queries' items are on the same columns, in the same order.
bool same_columns(std::span<const compute::CodeItem> a, std::span<const compute::CodeItem> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.column == y.column;
  });
}

}  // namespace

std::size_t plan_slices(const compute::CodeWork& work, std::span<const std::uint32_t> queries,
                        std::size_t first, SlicePlan& plan, std::vector<std::uint32_t>& rest) {
  std::size_t at = first;
  std::span<const compute::CodeItem> before;  // of the last query that was taken
  for (; at < queries.size() && plan.queries.size() < kSliceQueries; ++at) {
    const std::uint32_t query = queries[at];
    const auto items =
        work.items.subspan(work.begins[query], work.begins[query + 1] - work.begins[query]);
    const bool suits = std::all_of(items.begin(), items.end(),
                                   [](const auto& item) { return item.weight == 1; }) &&
                       (same_columns(items, before) || add_columns(items, plan.columns));
    (suits ? plan.queries : rest).push_back(query);
    if (!suits) continue;
    before = items;
  }
  if (plan.queries.size() >= kWorthwhile) return at;
  rest.insert(rest.end(), plan.queries.begin(), plan.queries.end());
  plan = {};
  return at;
}

// Says what lies in scratch memory behind a batch; pieces up to `sent` come from the host, those
// from `totals` on up to there are 0.
struct SliceSearch::Pieces {
  Plan plan;
  std::uint32_t groups;
  std::size_t tiles, queries, stride;
  std::size_t column_count = groups * kSliceColumns;
  Slot<std::uint32_t> columns{plan, column_count};
  Slot<std::uint32_t> items{plan, column_count * kSliceQueries};
  Slot<SliceBounds> bounds{plan, kSliceQueries};
  Slot<std::uint32_t> totals{plan, kSliceSteps * kSliceQueries};
  Slot<std::uint32_t> kept_counts{plan, kSliceQueries};
  Slot<std::uint32_t> stop{plan, 1};
  Plan sent = plan;
  Slot<SliceRank> ranks{plan, tiles * tile_ranks(groups)};
  Slot<std::uint32_t> slices{plan, tiles * tile_slices(groups)};
  Slot<uint4> places{plan, tiles * tile_places(groups)};
  Slot<std::uint32_t> thresholds{plan, kSliceSteps * kMostSliceBits * kSliceQueries / 32};
  Slot<std::uint16_t> counts{plan, 2 * tiles * kTileStrips * kSliceQueries};
  Slot<std::uint32_t> cuts{plan, kSliceQueries};
  Slot<std::uint64_t> kept{plan, queries * stride};
};

std::size_t SliceSearch::tiles_at_once(std::uint32_t groups) {
  const std::size_t each = tile_slices(groups) * sizeof(std::uint32_t) +
                           tile_ranks(groups) * sizeof(SliceRank) +
                           tile_places(groups) * sizeof(uint4);
  return std::max<std::size_t>(1, kTablesMemory / each);
}

SliceSearch::Pieces SliceSearch::lay_out(const SlicePlan& plan, std::size_t k,
                                         const Plan& batch) const {
  // Fewer than k rows count more than the limit, or are at it in earlier strips than the last.
  std::size_t rows = 0;
  for (const MatchTiles::PlacedTile& place : table_.tiles()) rows += place.tile.rows;
  return {batch, plan.groups(), table_.tiles().size(), plan.queries.size(),
          std::min(rows, k + kSliceStrip)};
}

void SliceSearch::fill_items(const SlicePlan& plan, std::span<std::uint32_t> items) const {
  std::fill(items.begin(), items.end(), kNoItem);
  std::uint32_t at = 0;  // of the item, in the batch
  for (std::size_t q = 0; q < plan.queries.size(); ++q) {
    const std::uint32_t query = plan.queries[q];
    for (std::uint32_t i = work_.begins[query]; i < work_.begins[query + 1]; ++i, ++at) {
      // A place of its column that is free; mostly where the item is in the query.
      std::size_t column = (i - work_.begins[query]) % plan.columns.size();
      while (plan.columns[column] != work_.items[i].column ||
             items[column * kSliceQueries + q] != kNoItem) {
        column = (column + 1) % plan.columns.size();
      }
      items[column * kSliceQueries + q] = at;
    }
  }
}

// Returns how often the bounds are narrowed.
unsigned SliceSearch::fill(const SlicePlan& plan, const CodeBatch& batch, const Pieces& at,
                           const Staging& host, compute::HitTable& best) const {
  batch.write(host);
  const std::span<std::uint32_t> columns = host[at.columns];
  std::fill(columns.begin(), columns.end(), kNoItem);
  std::copy(plan.columns.begin(), plan.columns.end(), columns.begin());
  fill_items(plan, host[at.items]);
  const std::span<SliceBounds> bounds = host[at.bounds];
  const std::uint32_t never = 1u << slice_bits(plan.groups());  // no row counts as much
  std::fill(bounds.begin(), bounds.end(), SliceBounds{never, never});
  std::uint32_t range = 1;
  for (std::size_t q = 0; q < plan.queries.size(); ++q) {
    const std::uint32_t query = plan.queries[q];
    const std::uint32_t items = work_.begins[query + 1] - work_.begins[query];
    const std::uint64_t floor = match_floor(best.row(query), work_.least);
    if (floor > std::min(items, work_.most)) continue;
    bounds[q] = {static_cast<std::uint32_t>(floor), std::min(items, work_.most) + 1};
    range = std::max(range, bounds[q].high - bounds[q].low);
  }
  host.clear(at.totals, at.sent);
  return steps_for(range);
}

SliceView SliceSearch::view_of(const SlicePlan& plan, const CodeBatch& batch, const Pieces& at,
                               const Arena& arena, std::size_t k) const {
  SliceView view{};
  batch.describe(arena, view.search);
  MatchSearchView& rows = view.search.rows;
  rows.tiles = views_;
  rows.tile_count = static_cast<std::uint32_t>(table_.tiles().size());
  rows.key_bits = 8;
  rows.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(k, kMostCount));
  rows.most = work_.most;
  rows.ascending = true;
  rows.kept = arena[at.kept];
  rows.kept_counts = arena[at.kept_counts];
  rows.stride = at.stride;
  rows.stop = arena[at.stop];
  view.groups = plan.groups();
  view.strips = rows.tile_count * kTileStrips;
  view.columns = arena[at.columns];
  view.items = arena[at.items];
  view.ranks = arena[at.ranks];
  view.slices = arena[at.slices];
  view.places = arena[at.places];
  view.bounds = arena[at.bounds];
  view.thresholds = arena[at.thresholds];
  view.totals = arena[at.totals];
  view.counts = arena[at.counts];
  view.cuts = arena[at.cuts];
  return view;
}

void SliceSearch::best_rows(const SlicePlan& plan, compute::HitTable& best) {
  Plan memory;
  const CodeBatch batch(work_, plan.queries, table_.tiles(), memory);
  const Pieces at = lay_out(plan, best.k(), memory);
  const Arena arena = lane_.scratch(at.plan);
  const Staging host = lane_.outgoing(at.sent);
  const unsigned steps = fill(plan, batch, at, host, best);
  host.send(at.sent, arena, lane_.stream(), "sending queries");
  const SliceView view = view_of(plan, batch, at, arena, best.k());
  // The results are made before anything is launched: memory that grows waits for that.
  const MatchResults results(lane_, plan.queries.size(), std::min(best.k(), at.stride));
  launch_slice_tables(view, lane_.stream());
  launch_slice_search(view, steps, lane_.stream());
  launch_match_select(view.search.rows, results.view(), lane_.stream());
  Stop cancellation(work_.cancellation, arena[at.stop], results.one());
  lane_.wait(&cancellation);
  table_.take(view.search.rows, results.view(), plan.queries, best);
}

}  // namespace warplite::gpu
