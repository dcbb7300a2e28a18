#include "gpu/match/codes_slice_search.h"

#include <algorithm>
#include <cstring>

#include "gpu/runtime/stop.h"

namespace warplite::gpu {
namespace {

// Of tables and slots of rows; a lane holds on to so much.
constexpr std::size_t kTablesMemory = std::size_t{128} << 20;
// Fewer queries are counted one by one in less time.
constexpr std::size_t kWorthwhile = 64;

std::size_t slice_bytes(std::uint32_t groups) {
  return std::size_t{groups} * kSliceColumns * kSliceSlots * kSliceQueries / 8;
}
std::size_t rank_bytes(std::uint32_t groups) {
  return std::size_t{groups} * kSliceColumns * compute::kTileRows / 32 * sizeof(SliceRank);
}
std::size_t place_bytes(std::uint32_t groups) {
  return std::size_t{groups} * compute::kTileRows * kSliceVectors * sizeof(uint4);
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

// Whether two queries' items are on the same columns, in the same order.
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

// Where the pieces lie in scratch memory; those up to `sent` come from the host, those from
// `zeros` on up to there are 0.
struct SliceSearch::Pieces {
  std::size_t columns, items, bounds, zeros, totals, kept_counts, stop, sent;
  std::size_t ranks, slices, places, thresholds, counts, cuts, kept;
  std::size_t stride;
};

std::size_t SliceSearch::tiles_at_once(std::uint32_t groups) {
  const std::size_t each = slice_bytes(groups) + rank_bytes(groups) + place_bytes(groups);
  return std::max<std::size_t>(1, kTablesMemory / each);
}

SliceSearch::Pieces SliceSearch::lay_out(const SlicePlan& plan, std::size_t k,
                                         Plan& memory) const {
  const std::size_t tiles = table_.tiles().size();
  const std::uint32_t groups = plan.groups();
  const std::size_t strips = tiles * kTileStrips;
  Pieces at{};
  at.columns = memory.add(groups * kSliceColumns * sizeof(std::uint32_t));
  at.items = memory.add(groups * kSliceColumns * kSliceQueries * sizeof(std::uint32_t));
  at.bounds = memory.add(kSliceQueries * sizeof(SliceBounds));
  at.zeros = memory.size();
  at.totals = memory.add(kSliceSteps * kSliceQueries * sizeof(std::uint32_t));
  at.kept_counts = memory.add(kSliceQueries * sizeof(std::uint32_t));
  at.stop = memory.add(sizeof(std::uint32_t));
  at.sent = memory.size();
  at.ranks = memory.add(tiles * rank_bytes(groups));
  at.slices = memory.add(tiles * slice_bytes(groups));
  at.places = memory.add(tiles * place_bytes(groups));
  at.thresholds = memory.add(kSliceSteps * kMostSliceBits * kSliceQueries / 8);
  at.counts = memory.add(2 * strips * kSliceQueries * sizeof(std::uint16_t));
  at.cuts = memory.add(kSliceQueries * sizeof(std::uint32_t));
  // Fewer than k rows count more than the limit, or are at it in earlier strips than the last.
  std::size_t rows = 0;
  for (const MatchTiles::Place& place : table_.tiles()) rows += place.tile.rows;
  at.stride = std::min(rows, k + kSliceStrip);
  at.kept = memory.add(plan.queries.size() * at.stride * sizeof(std::uint64_t));
  return at;
}

void SliceSearch::fill_items(const SlicePlan& plan, std::uint32_t* items) const {
  const std::size_t columns = plan.groups() * kSliceColumns;
  std::fill_n(items, columns * kSliceQueries, kNoItem);
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
                           std::byte* host, compute::HitTable& best) const {
  batch.write(host);
  auto* const columns = reinterpret_cast<std::uint32_t*>(host + at.columns);
  std::fill_n(columns, plan.groups() * kSliceColumns, kNoItem);
  std::copy(plan.columns.begin(), plan.columns.end(), columns);
  fill_items(plan, reinterpret_cast<std::uint32_t*>(host + at.items));
  auto* const bounds = reinterpret_cast<SliceBounds*>(host + at.bounds);
  const std::uint32_t never = 1u << slice_bits(plan.groups());  // no row counts as much
  std::fill_n(bounds, kSliceQueries, SliceBounds{never, never});
  std::uint32_t range = 1;
  for (std::size_t q = 0; q < plan.queries.size(); ++q) {
    const std::uint32_t query = plan.queries[q];
    const std::uint32_t items = work_.begins[query + 1] - work_.begins[query];
    const std::uint64_t floor = match_floor(best.row(query), work_.least);
    if (floor > std::min(items, work_.most)) continue;
    bounds[q] = {static_cast<std::uint32_t>(floor), std::min(items, work_.most) + 1};
    range = std::max(range, bounds[q].high - bounds[q].low);
  }
  std::memset(host + at.zeros, 0, at.sent - at.zeros);
  return steps_for(range);
}

SliceView SliceSearch::view_of(const SlicePlan& plan, const CodeBatch& batch, const Pieces& at,
                               std::byte* base, std::size_t k) const {
  const auto numbers = [base](std::size_t begin) {
    return reinterpret_cast<std::uint32_t*>(base + begin);
  };
  SliceView view{};
  batch.describe(base, view.search);
  MatchSearchView& rows = view.search.rows;
  rows.tiles = views_;
  rows.tile_count = static_cast<std::uint32_t>(table_.tiles().size());
  rows.key_bits = 8;
  rows.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(k, kMostCount));
  rows.most = work_.most;
  rows.ascending = true;
  rows.kept = reinterpret_cast<std::uint64_t*>(base + at.kept);
  rows.kept_counts = numbers(at.kept_counts);
  rows.stride = at.stride;
  rows.stop = numbers(at.stop);
  view.groups = plan.groups();
  view.strips = rows.tile_count * kTileStrips;
  view.columns = numbers(at.columns);
  view.items = numbers(at.items);
  view.ranks = reinterpret_cast<SliceRank*>(base + at.ranks);
  view.slices = numbers(at.slices);
  view.places = reinterpret_cast<uint4*>(base + at.places);
  view.bounds = reinterpret_cast<SliceBounds*>(base + at.bounds);
  view.thresholds = numbers(at.thresholds);
  view.totals = numbers(at.totals);
  view.counts = reinterpret_cast<std::uint16_t*>(base + at.counts);
  view.cuts = numbers(at.cuts);
  return view;
}

void SliceSearch::best_rows(const SlicePlan& plan, compute::HitTable& best) {
  Plan memory;
  const CodeBatch batch(work_, plan.queries, table_.tiles(), memory);
  const Pieces at = lay_out(plan, best.k(), memory);
  std::byte* const base = lane_.scratch(memory.size());
  std::byte* const host = lane_.outgoing(at.sent);
  const unsigned steps = fill(plan, batch, at, host, best);
  check(cudaMemcpyAsync(base, host, at.sent, cudaMemcpyHostToDevice, lane_.stream()),
        "sending queries");
  const SliceView view = view_of(plan, batch, at, base, best.k());
  // Before anything is launched: memory that grows waits for that.
  const MatchResults results(lane_, plan.queries.size(), std::min(best.k(), at.stride));
  launch_slice_tables(view, lane_.stream());
  launch_slice_search(view, steps, lane_.stream());
  launch_match_select(view.search.rows, results.view(), lane_.stream());
  Stop cancellation(work_.cancellation, reinterpret_cast<std::uint32_t*>(base + at.stop),
                    results.one());
  lane_.wait(&cancellation);
  table_.take(view.search.rows, results.view(), plan.queries, best);
}

}  // namespace warplite::gpu
