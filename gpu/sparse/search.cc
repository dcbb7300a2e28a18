#include "gpu/sparse/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "compute/metric.h"
#include "gpu/runtime/groups.h"
#include "gpu/runtime/stop.h"

namespace warplite::gpu {
namespace {

using compute::SparseTile;

// As long as a GPU takes to answer so many values are compared.
constexpr std::uint64_t kFewRows = 256;
// Memory for keys, and for marks; a lane holds on to so much.
constexpr std::size_t kKeyMemory = std::size_t{64} << 20, kMarkMemory = std::size_t{64} << 20;
constexpr std::size_t kMostGroup = 4096;  // queries
// Room for keys: a query's at least, beside four times k, and what a strip keeps, beside twice k,
// of those that know no floor yet.
constexpr std::size_t kLeastRoom = 2048, kStripRoom = 256;
// A first phase has so many thread blocks that there is work for all multiprocessors, and so many
// strips at least; each has four times as many strips as the one before.
constexpr std::size_t kFirstBlocks = 2048, kFirstStrips = 4, kGrowth = 4;
// Rows that a thread compares at a time where there are no postings.
constexpr std::uint32_t kSpan = 1024;
// Nominees that a thread takes at a time.
constexpr std::size_t kNominees = 256;

}  // namespace

// Says what lies in scratch memory; pieces up to `sent` come from the host.
struct SparseSearch::Pieces {
  std::size_t count, entry_count, strips, stride;
  Plan plan{};
  Slot<std::uint32_t> begins{plan, count + 1};
  Slot<SparseEntry> entries{plan, entry_count};
  Slot<std::uint64_t> floors{plan, count};
  Slot<std::uint64_t> windows{plan, count};
  Slot<std::uint64_t> others{plan, count};
  Slot<std::uint32_t> kept_counts{plan, count};
  Slot<std::uint32_t> left_count{plan, 1};
  Slot<std::uint32_t> stop{plan, 1};
  Plan sent = plan;
  Slot<SparseLeft> left{plan, strips* count};
  Slot<std::uint64_t> kept{plan, count* stride};
};

SparseSearch::SparseSearch(Lane& lane, const compute::SparseWork& work,
                           compute::SparseResults& results)
    : lane_(lane),
      work_(work),
      results_(results),
      compare_(work, results),
      k_(std::isinf(work.range.low) ? results.k() : 0) {}

// By postings first: what they find sets limits.
void SparseSearch::run() {
  std::vector<const SparseTile*> searched, plain;
  std::uint64_t rows = 0;
  for (const SparseTile& tile : work_.tiles) {
    if (tile.live_rows == 0) continue;
    (tile.postings != nullptr ? searched : plain).push_back(&tile);
    rows += tile.postings != nullptr ? tile.live_rows : 0;
  }
  if (rows < kFewRows) {
    plain.insert(plain.end(), searched.begin(), searched.end());
    searched.clear();
  }
  const std::span<const SparseTile* const> all(searched);
  for (std::size_t first = 0; first < all.size(); first += SparseTiles::kMost) {
    search_tiles(all.subspan(first, std::min(SparseTiles::kMost, all.size() - first)));
  }
  search_plain(plain);
}

void SparseSearch::search_tiles(std::span<const SparseTile* const> tiles) {
  const SparseTiles placed(lane_, tiles);
  tiles_ = &placed;
  std::vector<std::uint32_t> queries(work_.queries.size());
  std::iota(queries.begin(), queries.end(), 0u);
  floors_.resize(queries.size());
  for (const std::uint32_t query : queries) floors_[query] = floor_of(query);
  search_queries(queries, 0);
  while (!lost_.empty()) {
    const std::vector<std::uint32_t> lost = std::exchange(lost_, {});
    search_queries(lost, std::exchange(lost_room_, 0));
  }
  search_others();
}

double SparseSearch::floor_of(std::uint32_t query) const {
  return std::max(0.0, -results_.limit(query));
}

void SparseSearch::search_queries(Queries queries, std::size_t room) {
  const std::size_t least =
      std::min(tiles_->rows(), std::max(room, 4 * std::min(k_, tiles_->rows()) + kLeastRoom));
  const std::size_t group =
      std::clamp<std::size_t>(kKeyMemory / (least * sizeof(std::uint64_t)), 1, kMostGroup);
  in_groups(queries.size(), group, 1, [&](std::size_t first, std::size_t count) {
    search_group(queries.subspan(first, count), least);
  });
}

void SparseSearch::search_group(Queries queries, std::size_t room) {
  const std::size_t count = queries.size(), strips = tiles_->strips().size();
  std::size_t entries = 0;
  for (const std::uint32_t query : queries) entries += work_.queries[query].entries().size();
  const std::size_t most = std::min(kKeyMemory / sizeof(std::uint64_t) / count,
                                    strips * (2 * std::min(k_, tiles_->rows()) + kStripRoom));
  const Pieces at{count, entries, strips, std::clamp(most, room, tiles_->rows())};
  const Arena arena = lane_.scratch(at.plan);
  Plan back;
  const Slot<std::uint64_t> out(back, count * at.stride), floors(back, count), others(back, count);
  const Slot<std::uint32_t> found(back, count), left_count(back, 1), one(back, 1);
  const Slot<SparseLeft> left(back, strips * count);
  const Arena host = lane_.incoming(back);
  const SparseResultsView results{host[out],    host[found], host[floors],
                                  host[others], host[left],  host[left_count]};
  launch(send(queries, at, arena), results);
  Stop cancellation(work_.cancellation, arena[at.stop], host[one]);
  lane_.wait(&cancellation);
  take(queries, at.stride, results);
}

SparseSearchView SparseSearch::send(Queries queries, const Pieces& at, const Arena& arena) {
  const Staging host = lane_.outgoing(at.sent);
  const std::span<std::uint32_t> begins = host[at.begins];
  const std::span<SparseEntry> entries = host[at.entries];
  host.clear(at.floors, at.sent);
  begins[0] = 0;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const std::span<const SparseEntry> own = work_.queries[queries[i]].entries();
    std::copy(own.begin(), own.end(), entries.begin() + begins[i]);
    begins[i + 1] = begins[i] + static_cast<std::uint32_t>(own.size());
    host[at.floors][i] = std::bit_cast<std::uint64_t>(floors_[queries[i]]);
  }
  host.send(at.sent, arena, lane_.stream(), "sending queries");
  SparseSearchView search{};
  tiles_->describe(search);
  search.queries = static_cast<std::uint32_t>(at.count);
  search.begins = arena[at.begins];
  search.entries = arena[at.entries];
  search.k = static_cast<std::uint32_t>(std::min<std::size_t>(k_, ~std::uint32_t{0}));
  search.stop = arena[at.stop];
  search.floors = arena[at.floors];
  search.windows = arena[at.windows];
  search.others = arena[at.others];
  search.kept = arena[at.kept];
  search.kept_counts = arena[at.kept_counts];
  search.stride = at.stride;
  search.left = arena[at.left];
  search.left_count = arena[at.left_count];
  return search;
}

void SparseSearch::launch(const SparseSearchView& search, const SparseResultsView& results) const {
  const std::size_t strips = tiles_->strips().size();
  std::size_t phase = std::max(kFirstStrips, kFirstBlocks / search.queries);
  for (std::size_t first = 0; first < strips; phase *= kGrowth) {
    if (first != 0) launch_sparse_cut(search, lane_.stream());
    // What little would be left comes along.
    const std::size_t rest = strips - first;
    const std::size_t count = rest < 2 * phase ? rest : phase;
    launch_sparse_count(search, static_cast<std::uint32_t>(first),
                        static_cast<std::uint32_t>(count), lane_.stream());
    first += count;
  }
  launch_sparse_results(search, results, lane_.stream());
}

void SparseSearch::take(Queries queries, std::size_t stride, const SparseResultsView& results) {
  std::vector<SparseLeft> left;
  for (std::uint32_t i = 0; i < *results.left_count; ++i) {
    const SparseLeft& some = results.left[i];
    if (results.found[some.query] <= stride) left.push_back({some.strip, queries[some.query]});
  }
  std::sort(left.begin(), left.end(), [](const SparseLeft& a, const SparseLeft& b) {
    return a.query != b.query ? a.query < b.query : a.strip < b.strip;
  });
  compare_nominees(queries, stride, results);
  compare_left(left);
  std::size_t searched = 0;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const std::uint32_t query = queries[i];
    if (results.found[i] > stride) {
      floors_[query] = std::bit_cast<double>(results.floors[i]);
      lost_.push_back(query);
      // Those that are near the floor may come once more, although they were cut.
      const std::size_t found = results.found[i];
      lost_room_ = std::max(lost_room_, found + found / 4 + kLeastRoom);
      continue;
    }
    ++searched;
    if (results_.limit(query) < -std::bit_cast<double>(results.others[i])) continue;
    Unfinished& some = unfinished_.emplace_back(Unfinished{query, {}, {}});
    for (const std::uint64_t key : std::span(results.out + i * stride, results.found[i])) {
      some.done.push_back(static_cast<std::uint32_t>(key));
    }
    std::sort(some.done.begin(), some.done.end());
    for (const SparseLeft& one : left) {
      if (one.query == query) some.strips.push_back(one.strip);
    }
  }
  count_searched(searched, left);
}

void SparseSearch::compare_nominees(Queries queries, std::size_t stride,
                                    const SparseResultsView& results) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    begins.push_back(begins.back() + (results.found[i] <= stride ? results.found[i] : 0));
  }
  std::vector<SparseCompare::Nominee> all(begins.back());
  const auto of_query = [&](std::size_t i) {
    return std::span(all).subspan(begins[i], begins[i + 1] - begins[i]);
  };
  // A query's few nominees are one thread's; many are sorted first, and shared.
  compare_.for_each(queries.size(), all.size(), [&](std::size_t i) {
    std::uint64_t* const keys = results.out + i * stride;
    const auto own = of_query(i);
    if (results_.k() != 0) std::sort(keys, keys + own.size(), std::greater<>());
    for (std::size_t n = 0; n < own.size(); ++n) {
      own[n] = {&tiles_->tile(sparse_key_tile(keys[n])), sparse_key_row(keys[n]),
                sparse_key_most(keys[n])};
    }
    if (own.size() <= kNominees) compare_.nominees(queries[i], own);
  });
  struct Part {
    std::size_t query, first;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const std::size_t own = of_query(i).size();
    for (std::size_t first = 0; own > kNominees && first < own; first += kNominees) {
      parts.push_back({i, first});
    }
  }
  compare_.for_each(parts.size(), parts.size() * kNominees, [&](std::size_t p) {
    const auto own = of_query(parts[p].query).subspan(parts[p].first);
    compare_.nominees(queries[parts[p].query], own.first(std::min(kNominees, own.size())));
  });
}

SparseCompare::Rows SparseSearch::rows_of(const SparseStrip& strip) const {
  const SparseTile& tile = tiles_->tile(strip.tile);
  return {tile, strip.first, std::min(strip.first + kSparseStrip, tile.rows)};
}

void SparseSearch::compare_left(std::span<const SparseLeft> left) {
  compare_.for_each(left.size(), left.size() * kSparseStrip, [&](std::size_t i) {
    compare_.all(left[i].query, rows_of(tiles_->strips()[left[i].strip]));
  });
}

// Tiles that were left were not searched by postings.
void SparseSearch::count_searched(std::size_t queries, std::span<const SparseLeft> left) const {
  if (work_.counters == nullptr) return;
  std::uint64_t rows = tiles_->live_rows() * queries;
  for (const SparseLeft& some : left) {
    const SparseStrip& strip = tiles_->strips()[some.strip];
    if (strip.first == 0) rows -= tiles_->tile(strip.tile).live_rows;
  }
  work_.counters->indexed += rows;
}

void SparseSearch::search_others() {
  const std::vector<Unfinished> all = std::exchange(unfinished_, {});
  const std::size_t each = tiles_->strips().size() * (kSparseStrip / 8);
  const std::size_t group = std::max<std::size_t>(kMarkMemory / each, 1);
  for (std::size_t first = 0; first < all.size(); first += group) {
    search_others(std::span(all).subspan(first, std::min(group, all.size() - first)));
  }
}

void SparseSearch::search_others(std::span<const Unfinished> some) {
  constexpr std::size_t kWords = kSparseStrip / 32;
  const std::size_t strips = tiles_->strips().size();
  std::vector<std::uint32_t> queries;
  std::size_t entries = 0;
  for (const Unfinished& one : some) {
    queries.push_back(one.query);
    entries += work_.queries[one.query].entries().size();
  }
  Pieces at{some.size(), entries, 0, 0};
  const Slot<std::uint32_t> marks(at.plan, some.size() * strips * kWords);
  const Arena arena = lane_.scratch(at.plan);
  const SparseSearchView search = send(queries, at, arena);
  launch_sparse_marks(search, static_cast<std::uint32_t>(strips), arena[marks], lane_.stream());
  std::uint32_t* const marked = lane_.incoming<std::uint32_t>(marks.count());
  check(
      cudaMemcpyAsync(marked, arena[marks], marks.bytes(), cudaMemcpyDeviceToHost, lane_.stream()),
      "fetching marks");
  lane_.wait(work_.cancellation);
  compare_.for_each(some.size() * strips, some.size() * tiles_->rows(), [&](std::size_t i) {
    const Unfinished& one = some[i / strips];
    const auto number = static_cast<std::uint32_t>(i % strips);
    if (std::binary_search(one.strips.begin(), one.strips.end(), number)) return;
    const SparseStrip& strip = tiles_->strips()[number];
    const SparseCompare::Rows rows = rows_of(strip);
    const auto key_of = [&](std::uint32_t row) { return strip.tile << 16 | row; };
    std::vector<std::uint32_t> done;
    for (auto key = std::lower_bound(one.done.begin(), one.done.end(), key_of(rows.begin));
         key != one.done.end() && *key <= key_of(rows.end - 1); ++key) {
      done.push_back(*key & 0xffff);
    }
    compare_.others(one.query, rows, {marked + i * kWords, done});
  });
}

void SparseSearch::search_plain(std::span<const SparseTile* const> tiles) {
  std::vector<SparseCompare::Rows> spans;
  std::size_t rows = 0;
  for (const SparseTile* tile : tiles) {
    rows += tile->live_rows;
    for (std::uint32_t first = 0; first < tile->rows; first += kSpan) {
      spans.push_back({*tile, first, std::min(first + kSpan, tile->rows)});
    }
  }
  compare_.for_each(spans.size(), rows * work_.queries.size(), [&](std::size_t i) {
    for (std::uint32_t query = 0; query < work_.queries.size(); ++query) {
      compare_.all(query, spans[i]);
    }
  });
}

}  // namespace warplite::gpu
