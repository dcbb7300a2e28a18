#include "gpu/edit_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "gpu/metric/tiles.h"
#include "gpu/runtime/groups.h"
#include "gpu/runtime/stop.h"

namespace warplite::gpu {
namespace {

using compute::EditTile;

// Hits that there is room for at first, and at most where there are several queries.
constexpr std::uint64_t kRoom = std::uint64_t{8} << 20;
constexpr std::uint64_t kMostRoom = std::uint64_t{64} << 20;
// Pairs of a query and a text that are compared at a time.
constexpr std::uint64_t kMostPairs = std::uint64_t{1} << 35;
constexpr std::size_t kStateMemory = std::size_t{128} << 20;
constexpr std::size_t kStateWarps = 16;  // of a multiprocessor

bool takes_part(const EditTile& tile) {
  return tile.texts != 0 && (tile.live == nullptr || tile.live_rows != 0);
}

// Distances of a query that may be near are told from each other as far as 255 of the bins reach.
unsigned shift_for(std::uint32_t longest_query) {
  unsigned shift = 0;
  while ((std::uint64_t{longest_query} * 2 >> shift) >= kEditBins - 1) ++shift;
  return shift;
}

}  // namespace

// Says what lies in scratch memory, and up to `sent` in the host's, 0 from `counts` on up to there;
// from there on the host's has what kernels write for it.
struct EditSearch::Pieces {
  std::size_t queries, metric_tiles, length, bins;
  std::size_t warps, state;  // of a long query, and words of each
  std::uint64_t room;
  Plan plan{};
  Slot<MetricTextsView> metrics{plan, metric_tiles};
  Slot<std::uint32_t> begins{plan, queries + 1};
  Slot<std::uint32_t> points{plan, length};
  Slot<std::uint32_t> thresholds{plan, queries};
  Slot<std::uint32_t> counts{plan, queries};
  Slot<std::uint32_t> stop{plan, 1};
  Slot<unsigned long long> found{plan, 1};
  Slot<MetricTotals> totals{plan, 1};
  Plan sent = plan, host = plan;
  Slot<std::uint32_t> tallies{plan, queries * bins};
  Slot<std::uint32_t> device_begins{plan, queries + 1};
  Slot<std::uint32_t> states{plan, warps * state};
  Slot<std::uint64_t> hits{plan, room};
  Slot<std::uint64_t> sorted{plan, room};
  Slot<std::uint32_t> one{host, 1};
  Slot<unsigned long long> all_found{host, 1};
  Slot<MetricTotals> all_totals{host, 1};
  Slot<std::uint32_t> all_begins{host, queries + 1};
  Slot<std::uint32_t> last_thresholds{host, queries};
};

EditSearch::EditSearch(const Gpu& gpu, Lane& lane, const compute::EditWork& work, bool indexed)
    : gpu_(gpu), lane_(lane), work_(work), indexed_(indexed), hits_(lane) {
  const DistanceRange& range = work.range;
  const double low = std::max(0.0, std::ceil(range.low));
  const bool next = range.low_open && low == range.low;
  least_ = static_cast<std::uint32_t>(std::min(low + (next ? 1 : 0), 4e9));
  most_ = std::floor(range.high);
  if (range.high_open && most_ == range.high) --most_;
  if (low > 4e9) most_ = -1;
  for (const EditTile& tile : work.tiles) {
    if (takes_part(tile)) tiles_.push_back(&tile);
  }
  std::stable_sort(tiles_.begin(), tiles_.end(),
                   [](const EditTile* a, const EditTile* b) { return a->width < b->width; });
}

void EditSearch::nearest(compute::HitTable& best) {
  if (best.k() == 0) return;
  const auto threshold = [&best](std::uint32_t query) {
    TopK& row = best.row(query);
    row.sorted();
    return row.threshold();
  };
  search(best.k(), threshold, [&](std::uint32_t query, std::span<const std::uint64_t> hits) {
    TopK& row = best.row(query);
    for (const std::uint64_t hit : hits) row.push(hit_of(hit));
  });
}

void EditSearch::within(compute::HitLists& out) {
  const auto threshold = [](std::uint32_t) { return std::numeric_limits<double>::infinity(); };
  search(0, threshold, [&](std::uint32_t query, std::span<const std::uint64_t> hits) {
    std::vector<Hit>& row = out[query];
    if (row.empty()) row.reserve(hits.size());
    for (const std::uint64_t hit : hits) row.push_back(hit_of(hit));
  });
}

Hit EditSearch::hit_of(std::uint64_t hit) const {
  const auto place = static_cast<std::uint32_t>(hit >> 32);
  const EditTile& tile = *sent_[place >> 16];
  const std::uint32_t row = place & 0xffff;
  return {static_cast<double>(static_cast<std::uint32_t>(hit)), tile.rowids[row], tile.id, row};
}

void EditSearch::search(std::size_t k, const Threshold& threshold, const Take& take) {
  for (std::size_t first = 0; first < tiles_.size(); first += kMostEditTiles) {
    const std::size_t count = std::min<std::size_t>(kMostEditTiles, tiles_.size() - first);
    std::vector<Query> queries = useful_queries(threshold);
    if (queries.empty()) return;
    const HitTaker<std::uint64_t>::Waiting waiting{hits_};
    sent_ = std::span(tiles_).subspan(first, count);
    table_ = send_edit_tiles(sent_, lane_);
    const auto words = [](const Query& query) {
      return query.length > kMostShortQuery ? 0 : edit_words(query.length);
    };
    for (std::size_t begin = 0; begin < queries.size();) {
      const std::uint32_t own = words(queries[begin]);
      std::size_t end = begin + 1;
      while (end < queries.size() && words(queries[end]) == own) ++end;
      search_class(std::span(queries).subspan(begin, end - begin), own, k, take);
      begin = end;
    }
    hits_.finish();
  }
}

// Returns the queries by length, as far as they are short; long ones come last.
std::vector<EditSearch::Query> EditSearch::useful_queries(const Threshold& threshold) const {
  std::vector<Query> useful;
  useful.reserve(work_.queries());
  std::vector<std::size_t> begins(kMostShortQuery + 2);  // of each length, once they are summed up
  const auto place = [](const Query& query) { return std::min(query.length, kMostShortQuery + 1); };
  for (std::uint32_t q = 0; q < work_.queries(); ++q) {
    const std::uint32_t length = work_.begins[q + 1] - work_.begins[q];
    // No distance is greater than this.
    const double farthest = std::max(length, compute::kLongestEditText);
    const double own = std::min({farthest, most_, std::floor(threshold(q))});
    if (own < static_cast<double>(least_)) continue;
    useful.push_back({q, length, static_cast<std::uint32_t>(own)});
    ++begins[place(useful.back())];
  }
  std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), std::size_t{0});
  std::vector<Query> queries(useful.size());
  for (const Query& query : useful) queries[begins[place(query)]++] = query;
  return queries;
}

std::span<EditSearch::Query> EditSearch::search_by_metric(std::span<Query> queries,
                                                         std::uint32_t words, const Take& take) {
  const std::size_t sample = MetricChoice::sample(queries.size());
  if (sample == 0 || words == 0 || words > kMostMetricWords) return queries;
  MetricChoice choice(sent_);
  // Queries are in the order of their lengths.
  for (std::size_t i = 0; i < sample; ++i) {
    std::swap(queries[i], queries[queries.size() * i / sample]);
    choice.add(queries[i].length, queries[i].threshold);
  }
  evaluated_ = {};
  by_metric_ = true;
  search_some(queries.first(sample), words, 0, take);
  const std::span<Query> others = queries.subspan(sample);
  const bool all = choice.faster(evaluated_, words);
  if (all) search_some(others, words, 0, take);
  by_metric_ = false;
  return all ? others.first(0) : others;
}

void EditSearch::search_class(std::span<Query> queries, std::uint32_t words, std::size_t k,
                              const Take& take) {
  if (indexed_ && k == 0) queries = search_by_metric(queries, words, take);
  search_some(queries, words, k, take);
}

void EditSearch::search_some(std::span<Query> queries, std::uint32_t words, std::size_t k,
                             const Take& take) {
  const std::size_t most =
      words == 0 ? 1 : std::clamp<std::size_t>(kMostPairs / table_.texts, 1, kMostEditQueries);
  const std::size_t groups = (queries.size() + most - 1) / most;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = queries.size() * g / groups, end = queries.size() * (g + 1) / groups;
    search_group(queries.subspan(begin, end - begin), words, k, take);
  }
}

void EditSearch::search_group(std::span<Query> queries, std::uint32_t words, std::size_t k,
                              const Take& take) {
  by_halves(queries, [&](std::span<Query> some) {
    // There are no more hits than pairs.
    std::uint64_t room = std::min(kRoom, some.size() * table_.texts);
    for (bool first = true;; first = false) {
      const std::uint64_t found = run(some, words, k, room, first);
      if (found <= room) break;
      // Thresholds have fallen by now, so that nearest texts may have room after all.
      if (k != 0 && first) continue;
      if (found > kMostRoom && some.size() != 1) return false;
      room = found;
    }
    take_hits(some, take);
    return true;
  });
}

void EditSearch::fill(std::span<const Query> queries, const Pieces& at,
                      const Staging& host) const {
  const std::span<std::uint32_t> begins = host[at.begins];
  const std::span<std::uint32_t> thresholds = host[at.thresholds];
  std::uint32_t* const points = host[at.points].data();
  begins[0] = 0;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    std::copy_n(work_.points.data() + work_.begins[queries[i].number], queries[i].length,
                points + begins[i]);
    begins[i + 1] = begins[i] + queries[i].length;
    thresholds[i] = queries[i].threshold;
  }
  host.clear(at.counts, at.sent);
  const std::span<MetricTextsView> metrics = host[at.metrics];
  for (std::size_t t = 0; t < metrics.size(); ++t) metrics[t] = metric_of(*sent_[t]);
}

EditSearchView EditSearch::view_of(std::span<const Query> queries, const Pieces& at,
                                   const Arena& arena, std::size_t k) const {
  EditSearchView view{};
  view.tiles = table_.views;
  view.queries = static_cast<std::uint32_t>(queries.size());
  view.begins = arena[at.begins];
  view.points = arena[at.points];
  view.least = least_;
  view.k = static_cast<std::uint32_t>(std::min<std::size_t>(k, 0xffffffffu));
  view.thresholds = arena[at.thresholds];
  view.tallies = arena[at.tallies];
  view.shift = shift_for(queries.back().length);
  view.distance_bits = queries.back().length > kMostShortQuery ? 32 : 16;
  view.stop = arena[at.stop];
  view.hits = arena[at.hits];
  view.room = at.room;
  view.found = arena[at.found];
  if (work_.counters != nullptr) view.compared = &arena[at.totals]->distances;
  view.states = arena[at.states];
  view.state_warps = static_cast<std::uint32_t>(at.warps);
  return view;
}

EditSearch::Pieces EditSearch::lay_out(std::span<const Query> queries, std::uint32_t words,
                                       std::size_t k, std::uint64_t room) const {
  std::size_t length = 0;
  for (const Query& query : queries) length += query.length;
  const std::size_t state = words == 0 ? (length + 31) / 32 * 64 : 0;
  const std::size_t fit = words == 0 ? kStateMemory / (state * sizeof(std::uint32_t)) : 0;
  const std::size_t most_warps = kStateWarps * gpu_.multiprocessors();
  return {queries.size(), indexed_ ? sent_.size() : 0, length, k == 0 ? 0 : kEditBins,
          words == 0 ? std::clamp<std::size_t>(fit, 1, most_warps) : 0, state, room};
}

std::uint64_t EditSearch::run(std::span<Query> queries, std::uint32_t words, std::size_t k,
                              std::uint64_t room, bool prime) {
  const Pieces at = lay_out(queries, words, k, room);
  const Arena arena = lane_.scratch(at.plan);
  const Staging host = lane_.outgoing(at.host);
  fill(queries, at, host);
  host.send(at.sent, arena, lane_.stream(), "sending queries");
  const EditSearchView view = view_of(queries, at, arena, k);
  if (k != 0) {
    check(cudaMemsetAsync(view.tallies, 0, at.tallies.bytes(), lane_.stream()),
          "comparing texts");
  }
  if (by_metric_) {
    const MetricTextSearch metric = metric_view(view, at, arena);
    launch_metric_text_clusters(metric, words, lane_.stream());
    launch_metric_text_pivots(metric, words, lane_.stream());
  } else {
    launch(view, words, prime && k != 0);
  }
  const HitCounts hits{view.queries,
                       arena[at.counts],
                       view.found,
                       arena[at.device_begins],
                       host[at.all_begins].data(),
                       host[at.all_found].data()};
  launch_edit_sort(view, hits, arena[at.sorted], lane_.stream());
  const auto fetch = [&](auto to, const auto* from, const char* what) {
    check(cudaMemcpyAsync(to.data(), from, to.size_bytes(), cudaMemcpyDeviceToHost,
                          lane_.stream()),
          what);
  };
  fetch(host[at.last_thresholds], arena[at.thresholds], "fetching thresholds");
  fetch(host[at.all_totals], arena[at.totals], "fetching counters");
  Stop stop(cancellation(), arena[at.stop], host[at.one].data());
  lane_.wait(&stop);
  count(host[at.all_totals].front(), queries.size());
  hits_.found(host[at.all_begins], arena[at.sorted]);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    queries[i].threshold = host[at.last_thresholds][i];
  }
  return *hits.all_found;
}

MetricTextSearch EditSearch::metric_view(const EditSearchView& view, const Pieces& at,
                                         const Arena& arena) const {
  MetricTextSearch search{};
  search.search = view;
  search.metrics = arena[at.metrics];
  search.totals = arena[at.totals];
  search.tiles = static_cast<std::uint32_t>(sent_.size());
  search.symbols = 32;
  for (const EditTile* tile : sent_) {
    while (search.symbols < tile->alphabet) search.symbols *= 2;
  }
  return search;
}

void EditSearch::count(const MetricTotals& totals, std::size_t queries) {
  evaluated_.distances += totals.distances;
  evaluated_.clusters += totals.clusters;
  if (work_.counters == nullptr) return;
  work_.counters->distances += totals.distances;
  work_.counters->clusters += totals.clusters;
  if (by_metric_) work_.counters->indexed += queries * table_.texts;
}

void EditSearch::launch(const EditSearchView& view, std::uint32_t words, bool prime) {
  for (const EditTiles& tiles : table_.widths) {
    if (words == 0) {
      launch_edit_long(view, tiles, lane_.stream());
      continue;
    }
    if (prime) launch_edit_prime(view, tiles, words, lane_.stream());
    launch_edit_scan(view, tiles, words, lane_.stream());
  }
}

void EditSearch::take_hits(std::span<const Query> queries, const Take& take) {
  hits_.take(cancellation(), [queries, &take](std::size_t i, std::span<const std::uint64_t> hits) {
    take(queries[i].number, hits);
  });
}

}  // namespace warplite::gpu
