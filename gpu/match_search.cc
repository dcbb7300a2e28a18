#include "gpu/match_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gpu/cuda_buffer.h"

namespace warplite::gpu {
namespace {

using compute::MatchItem;
using compute::MatchTile;

// Of what strips keep; a lane holds on to so much.
constexpr std::size_t kGroupMemory = std::size_t{192} << 20;
constexpr std::size_t kMostGroup = 16384;  // queries
constexpr std::size_t kMostTiles = 1024;   // their sums take 256 MB
// Postings that a thread block adds at most: milliseconds, after which it asks whether to stop.
constexpr std::uint64_t kMostAdded = std::uint64_t{1} << 27;
constexpr std::uint64_t kMostCount = std::numeric_limits<std::uint32_t>::max();

// Sets what thread blocks look at before they begin. On a stream of its own, that what was launched
// does not hold up.
class Stop : public compute::Cancellation {
 public:
  // `flag`: device memory; `one`: pinned memory that holds a 1.
  Stop(compute::Cancellation* asked, std::uint32_t* flag, const std::uint32_t* one)
      : asked_(asked), flag_(flag), one_(one) {}

  bool requested() override {
    if (asked_ == nullptr || !asked_->requested()) return false;
    const Stream aside;
    check(cudaMemcpyAsync(flag_, one_, sizeof *one_, cudaMemcpyHostToDevice, aside), "stopping");
    check(cudaStreamSynchronize(aside), "stopping");
    return true;
  }

 private:
  compute::Cancellation* asked_;
  std::uint32_t* flag_;
  const std::uint32_t* one_;
};

bool takes_part(const MatchTile& tile) {
  return tile.rows != 0 && tile.postings != 0 && (tile.live == nullptr || tile.live_rows != 0);
}

std::size_t live_bytes(const MatchTile& tile) {
  return tile.live == nullptr ? 0 : (std::size_t{tile.rows} + 63) / 64 * 8;
}

// What the k-th hit so far asks of a row; more than 32 bits: no row is of use.
std::uint64_t floor_of(TopK& best, std::uint32_t least) {
  best.sorted();
  const double floor = std::ceil(-best.threshold());
  if (floor > static_cast<double>(kMostCount)) return kMostCount + 1;
  return std::max<std::uint64_t>(least, floor > 0 ? static_cast<std::uint64_t>(floor) : 0);
}

MatchRowids& rowids_of(const MatchTile& tile) {
  return static_cast<const CudaBuffer*>(tile.bytes)->match_rowids();
}

// The first of the classes whose counters hold so much.
std::size_t class_for(std::uint64_t most) {
  return most <= 0xf ? 0 : most <= 0xff ? 1 : most <= 0xffff ? 2 : 3;
}

}  // namespace

// Where the pieces lie in scratch memory; those up to `sent` come from the host.
struct MatchSearch::Pieces {
  std::size_t items, begins, floors, kept_counts, stop, sent, kept, sums, size;
  std::size_t stride;
  std::uint32_t strip_rows;
};

MatchSearch::MatchSearch(const Gpu& gpu, Lane& lane, const compute::MatchWork& work)
    : gpu_(gpu), lane_(lane), work_(work) {
  for (const MatchTile& tile : work.tiles) {
    if (!takes_part(tile)) continue;
    all_tiles_.push_back(place_of(tile));
    most_keywords_ = std::max(most_keywords_, tile.keywords);
    most_postings_ = std::max(most_postings_, tile.postings);
  }
  std::sort(all_tiles_.begin(), all_tiles_.end(),
            [](const Place& a, const Place& b) { return a.least < b.least; });
  for (std::size_t t = 0; t < all_tiles_.size(); ++t) {
    ascending_ &= all_tiles_[t].ascending &&
                  (t == 0 || all_tiles_[t - 1].greatest < all_tiles_[t].least);
  }
}

MatchSearch::Place MatchSearch::place_of(const MatchTile& tile) {
  const RowIdView& rowids = tile.rowids;
  if (rowids.list == nullptr) return {&tile, rowids[0], rowids[tile.rows - 1], true};
  const MatchRowids::Extent extent = rowids_of(tile).extent(rowids.list, tile.rows);
  return {&tile, extent.least, extent.greatest, extent.ascending};
}

void MatchSearch::best_rows(compute::HitTable& best) {
  if (best.k() == 0) return;
  for (std::size_t first = 0; first < all_tiles_.size(); first += kMostTiles) {
    const std::size_t count = std::min(kMostTiles, all_tiles_.size() - first);
    search_tiles(std::span(all_tiles_).subspan(first, count), best);
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
    if (most < floor_of(best.row(query), work_.least)) continue;
    classes[added > kMostAdded ? 4 : class_for(most)].queries.push_back(query);
  }
  return classes;
}

void MatchSearch::search_tiles(std::span<const Place> tiles, compute::HitTable& best) {
  tiles_ = tiles;
  send_tiles();
  for (const Class& queries : classify(best)) search_class(queries, best);
}

void MatchSearch::send_tiles() {
  Plan plan;
  const std::size_t views_at = plan.add(tiles_.size() * sizeof(MatchTileView));
  std::vector<std::size_t> live_at;
  for (const Place& place : tiles_) live_at.push_back(plan.add(live_bytes(*place.tile)));
  std::byte* const device = lane_.table(plan.size());
  std::byte* const host = lane_.outgoing_table(plan.size());
  auto* const views = reinterpret_cast<MatchTileView*>(host + views_at);
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    const MatchTile& tile = *tiles_[t].tile;
    views[t] = view_of(tiles_[t]);
    if (tile.live == nullptr) continue;
    std::memcpy(host + live_at[t], tile.live, live_bytes(tile));
    views[t].live = reinterpret_cast<const std::uint64_t*>(device + live_at[t]);
  }
  check(cudaMemcpyAsync(device, host, plan.size(), cudaMemcpyHostToDevice, lane_.stream()),
        "sending the tiles");
  views_ = reinterpret_cast<const MatchTileView*>(device + views_at);
}

MatchTileView MatchSearch::view_of(const Place& place) const {
  const MatchTile& tile = *place.tile;
  const std::byte* bytes = static_cast<const CudaBuffer*>(tile.bytes)->data();
  const compute::TileLayout at = compute::TileLayout::of(tile.keywords, tile.postings);
  MatchTileView view{};
  view.keys = reinterpret_cast<const compute::Keyword*>(bytes + at.keys);
  view.begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  view.postings = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  view.first_rowid = tile.rowids.first;
  view.keywords = tile.keywords;
  view.rows = tile.rows;
  view.ascending = place.ascending ? 1 : 0;
  const auto after = std::partition_point(
      tiles_.begin(), tiles_.end(),
      [&place](const Place& other) { return other.least <= place.greatest; });
  view.after = static_cast<std::uint32_t>(after - tiles_.begin());
  // Where they do not ascend, somebody will ask for them.
  if (!ascending_ && tile.rowids.list != nullptr) {
    view.rowids = rowids_of(tile).resident(tile.rowids.list, tile.rows, lane_);
  }
  return view;
}

void MatchSearch::search_class(const Class& queries, compute::HitTable& best) {
  const std::size_t all = queries.queries.size();
  if (all == 0) return;
  const std::size_t stride =
      kept_rows(match_strip_rows(queries.bits, gpu_.shared_memory()), best.k());
  std::size_t group =
      queries.sums ? 1
                   : std::clamp<std::size_t>(kGroupMemory / (stride * sizeof(std::uint64_t)), 1,
                                             kMostGroup);
  for (std::size_t first = 0; first < all;) {
    const std::size_t count = std::min(group, all - first);
    try {
      search_group(queries, first, count, best);
      first += count;
    } catch (const Error& error) {
      // Out of memory: fewer queries at a time.
      if (error.kind() != ErrorKind::kNoMemory || group == 1) throw;
      group = std::max<std::size_t>(1, group / 2);
    }
  }
}

std::size_t MatchSearch::kept_rows(std::uint32_t strip_rows, std::size_t k) const {
  std::size_t rows = 0;
  for (const Place& place : tiles_) {
    for (std::uint32_t first = 0; first < place.tile->rows; first += strip_rows) {
      rows += std::min<std::size_t>(k, std::min(strip_rows, place.tile->rows - first));
    }
  }
  return rows;
}

MatchSearch::Pieces MatchSearch::lay_out(const Class& queries, std::size_t first,
                                         std::size_t count, std::size_t k) const {
  Pieces at{};
  at.strip_rows = match_strip_rows(queries.bits, gpu_.shared_memory());
  at.stride = kept_rows(at.strip_rows, k);
  std::size_t items = 0;
  for (std::size_t i = 0; i < count; ++i) items += item_count(queries.queries[first + i]);
  Plan plan;
  at.items = plan.add(items * sizeof(MatchItem));
  at.begins = plan.add((count + 1) * sizeof(std::uint32_t));
  at.floors = plan.add(count * sizeof(std::uint64_t));
  at.kept_counts = plan.add(count * sizeof(std::uint32_t));
  at.stop = plan.add(sizeof(std::uint32_t));
  at.sent = plan.size();
  at.kept = plan.add(count * at.stride * sizeof(std::uint64_t));
  at.sums = plan.add(queries.sums ? tiles_.size() * compute::kTileRows * sizeof(std::uint32_t) : 0);
  at.size = plan.size();
  return at;
}

MatchSearchView MatchSearch::send(const Class& queries, std::size_t first, std::size_t count,
                                  const Pieces& at, std::byte* base, compute::HitTable& best) {
  std::byte* const host = lane_.outgoing(at.sent);
  auto* const items = reinterpret_cast<MatchItem*>(host + at.items);
  auto* const begins = reinterpret_cast<std::uint32_t*>(host + at.begins);
  auto* const floors = reinterpret_cast<std::uint64_t*>(host + at.floors);
  begins[0] = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t query = queries.queries[first + i];
    const std::uint32_t own = item_count(query);
    std::copy_n(work_.items.data() + work_.begins[query], own, items + begins[i]);
    begins[i + 1] = begins[i] + own;
    // What classify() has found to be within reach.
    const std::uint64_t floor = floor_of(best.row(query), work_.least);
    floors[i] = make_match_floor(static_cast<std::uint32_t>(floor), kNoTile);
  }
  std::memset(host + at.kept_counts, 0, at.sent - at.kept_counts);
  check(cudaMemcpyAsync(base, host, at.sent, cudaMemcpyHostToDevice, lane_.stream()),
        "sending queries");
  MatchSearchView search{};
  search.tiles = views_;
  search.tile_count = static_cast<std::uint32_t>(tiles_.size());
  search.strip_rows = at.strip_rows;
  search.bits = queries.bits;
  search.key_bits = std::max(queries.bits, 8u);
  search.queries = static_cast<std::uint32_t>(count);
  search.begins = reinterpret_cast<const std::uint32_t*>(base + at.begins);
  search.items = reinterpret_cast<const MatchItem*>(base + at.items);
  search.k = static_cast<std::uint32_t>(std::min<std::uint64_t>(best.k(), kMostCount));
  search.ascending = ascending_;
  search.floors = reinterpret_cast<std::uint64_t*>(base + at.floors);
  search.kept = reinterpret_cast<std::uint64_t*>(base + at.kept);
  search.kept_counts = reinterpret_cast<std::uint32_t*>(base + at.kept_counts);
  search.stride = at.stride;
  search.stop = reinterpret_cast<const std::uint32_t*>(base + at.stop);
  if (queries.sums) search.sums = reinterpret_cast<std::uint32_t*>(base + at.sums);
  return search;
}

void MatchSearch::search_group(const Class& queries, std::size_t first, std::size_t count,
                               compute::HitTable& best) {
  const Pieces at = lay_out(queries, first, count, best.k());
  std::byte* const base = lane_.scratch(at.size);
  const MatchSearchView search = send(queries, first, count, at, base, best);
  const std::size_t room = std::min(best.k(), at.stride);
  Plan results;
  const std::size_t one_at = results.add(sizeof(std::uint32_t));
  const std::size_t found_at = results.add(count * sizeof(std::uint32_t));
  const std::size_t out_at = results.add(count * room * sizeof(std::uint64_t));
  std::byte* const incoming = lane_.incoming(results.size());
  auto* const one = reinterpret_cast<std::uint32_t*>(incoming + one_at);
  *one = 1;
  if (queries.sums) {
    check(cudaMemsetAsync(search.sums, 0, at.size - at.sums, lane_.stream()), "adding up matches");
    launch_match_sums(search, item_count(queries.queries[first]), most_postings_, lane_.stream());
  }
  launch_match_count(search, lane_.stream());
  const MatchResultsView view{reinterpret_cast<std::uint64_t*>(incoming + out_at),
                              reinterpret_cast<std::uint32_t*>(incoming + found_at),
                              static_cast<std::uint32_t>(room)};
  launch_match_select(search, view, lane_.stream());
  Stop cancellation(work_.cancellation, reinterpret_cast<std::uint32_t*>(base + at.stop), one);
  lane_.wait(&cancellation);
  take(search, view, std::span(queries.queries).subspan(first, count), best);
}

void MatchSearch::take(const MatchSearchView& search, const MatchResultsView& results,
                       std::span<const std::uint32_t> queries, compute::HitTable& best) const {
  for (std::size_t i = 0; i < queries.size(); ++i) {
    TopK& nearest = best.row(queries[i]);
    const std::uint64_t* const keys = results.out + i * results.room;
    // Rowids lie here and there: the machine fetches several at a time.
    for (std::uint32_t f = 0; f < results.found[i]; ++f) {
      const MatchKey key = take_match_key(search.key_bits, keys[f]);
      const RowIdView& rowids = tiles_[key.tile].tile->rowids;
      if (rowids.list != nullptr) __builtin_prefetch(rowids.list + key.row);
    }
    for (std::uint32_t f = 0; f < results.found[i]; ++f) {
      const MatchKey key = take_match_key(search.key_bits, keys[f]);
      const MatchTile& tile = *tiles_[key.tile].tile;
      nearest.push(
          {-static_cast<double>(key.count), tile.rowids[key.row], tile.id, key.row});
    }
  }
}

}  // namespace warplite::gpu
