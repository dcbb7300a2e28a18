#include "gpu/metric/search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "gpu/batch/shadow.h"
#include "gpu/metric/build.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/stop.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

// Fewer queries are compared with every row as fast.
constexpr std::size_t kLeastQueries = 4;
// Blocks of rows that a kernel takes.
constexpr std::size_t kMostBlocks = 65535;
// Hits that there is room for at first. More would be pinned memory that takes long to make.
constexpr std::uint64_t kRoom = std::uint64_t{4} << 20;
// Queries at a time; first as many as have room whatever they find.
constexpr std::size_t kMostQueries = 16384;
constexpr std::size_t kQueryMemory = std::size_t{256} << 20;
// Work that is worth a thread of its own.
constexpr std::size_t kHitsPerThread = 24 << 10;
constexpr std::size_t kElementsPerThread = 64 << 10;

double radius_of(const compute::Workload& work) {
  return compute::metric_radius(work.metric->space(), work.queries.dim, work.range.high);
}

MetricIndexes& indexes_of(const compute::Block& block) {
  return metric_indexes(block.vectors);
}

// Rows that are read over the bus have no room for an index either.
bool may_have_index(const compute::Block& block) {
  return block.host != nullptr && block.rows != 0 && block.live_rows != 0 &&
         !CudaBuffer::of(block.vectors).mapped();
}

}  // namespace

// What lies in scratch memory, and up to `sent` in the host's, those from `stop` on up to there 0;
// from there on the host's has what kernels write for it.
struct MetricSearch::Pieces {
  std::size_t blocks, queries, raw_bytes, point_count, padded;
  std::uint64_t room;
  Plan plan{};
  Slot<MetricBlockView> views{plan, blocks};
  Slot<std::byte> raw{plan, raw_bytes};
  Slot<float> points{plan, point_count};
  Slot<std::uint32_t> stop{plan, 1};
  Slot<unsigned long long> found{plan, 1};
  Slot<std::uint32_t> counts{plan, queries};
  Slot<MetricTotals> totals{plan, 1};
  Plan sent = plan, host = plan;
  Slot<double> real{plan, queries * padded};
  Slot<double> squares{plan, queries};
  Slot<std::uint32_t> device_begins{plan, queries + 1};
  Slot<MetricHit> hits{plan, room};
  Slot<Candidate> sorted{plan, room};
  Slot<std::uint32_t> one{host, 1};
  Slot<unsigned long long> all_found{host, 1};
  Slot<MetricTotals> all_totals{host, 1};
  Slot<std::uint32_t> all_begins{host, queries + 1};
};

// Waits for who takes hits, also when an error ends the search.
struct MetricSearch::Waiting {
  std::future<void>& taking;
  ~Waiting() {
    if (taking.valid()) taking.wait();
  }
};

bool MetricSearch::suits(const compute::Workload& work) {
  if (work.metric == nullptr || work.queries.rows < kLeastQueries) return false;
  const double radius = radius_of(work);
  return radius >= 0 && radius < std::numeric_limits<double>::infinity();
}

MetricBlocks MetricSearch::blocks(compute::Device& host, Lane& lane,
                                  const compute::Workload& work) {
  std::vector<const compute::Block*> missing;
  MetricClaims claims;
  const auto lacking = compute::missing_metrics(work, work.blocks.size(), [&](std::size_t i) {
    return may_have_index(work.blocks[i]) && indexes_of(work.blocks[i]).vectors() == nullptr;
  });
  missing.reserve(lacking.size());  // what is claimed is kept, or free again
  claims.reserve(lacking.size());
  compute::claim_missing(lacking, [&](const compute::MissingMetric& one, bool at_once) {
    const compute::Block& block = work.blocks[one.which];
    if (!indexes_of(block).claim(one, at_once)) return;
    missing.push_back(&block);
    claims.add(indexes_of(block));
  });
  claims.make(
      work.cancellation,
      [&](std::size_t i) {
        const compute::Block& block = *missing[i];
        const MatrixView rows{block.host, block.rows, work.queries.dim, work.queries.type};
        return work.metric->build(host, rows, nullptr);  // asked on the caller's thread only
      },
      [&](MetricIndexes& indexes, const compute::VectorMetric& metric) {
        indexes.finish(metric, work.queries.dim, lane);
      });
  MetricBlocks out;
  for (const compute::Block& block : work.blocks) {
    const bool indexed = out.indexed.size() < kMostBlocks && may_have_index(block) &&
                         indexes_of(block).vectors() != nullptr;
    (indexed ? out.indexed : out.plain).push_back(block);
  }
  return out;
}

void MetricSearch::count_all(const compute::Workload& work, compute::SearchCounters& counters) {
  for (const compute::Block& block : work.blocks) {
    counters.distances += std::uint64_t{block.live_rows} * work.queries.rows;
  }
}

MetricSearch::MetricSearch(Lane& lane, const compute::Workload& work, const RowSet& rows,
                           const RowTable& table, compute::SearchCounters& counters)
    : lane_(lane), work_(work), rows_(rows), table_(table), counters_(counters),
      space_(work.metric->space()), radius_(radius_of(work)) {
  for (const compute::Block* block : rows.blocks()) {
    views_.push_back(*indexes_of(*block).vectors());
    (views_.back().pivots ? pivots_ : clusters_) = true;
  }
}

std::vector<std::uint32_t> MetricSearch::within(compute::HitLists& out) {
  const MatrixView& all = work_.queries;
  std::vector<char> bounded(all.rows);
  in_parallel(all.rows, all.rows * all.dim / kElementsPerThread, [&](std::size_t i) {
    bounded[i] = compute::metric_bounded(space_, all, i) ? 1 : 0;
  });
  std::vector<std::uint32_t> queries, others;
  for (std::uint32_t i = 0; i < all.rows; ++i) {
    (bounded[i] != 0 ? queries : others).push_back(i);
  }
  const Waiting waiting{taking_};
  const std::size_t per_query = all.stride() + all.dim * std::size_t{12} + 256;
  const std::size_t most =
      std::clamp<std::size_t>(kQueryMemory / per_query, kMetricTile, kMostQueries);
  std::size_t count = std::clamp<std::size_t>(kRoom / rows_.live_rows(), kMetricTile, most);
  for (std::size_t first = 0; first < queries.size();) {
    const Queries now = Queries(queries).subspan(first, std::min(count, queries.size() - first));
    search_group(now, kRoom, out);
    first += now.size();
    // As many next as have room, if they are like these.
    const std::size_t hits = begins_.back(), told = begins_.size() - 1;
    const std::size_t fits = hits == 0 ? most : told * (kRoom * 3 / 4) / hits;
    count = std::clamp<std::size_t>(fits, kMetricTile, most);
  }
  finish_taking();
  counters_.indexed += std::uint64_t{rows_.live_rows()} * queries.size();
  return others;
}

void MetricSearch::search_group(Queries queries, std::uint64_t room, compute::HitLists& out) {
  // No more than all pairs are hits.
  room = std::min(room, queries.size() * std::uint64_t{rows_.live_rows()});
  for (;;) {
    try {
      const std::uint64_t found = run(queries, room);
      if (found <= room) return take_hits(queries, out);
      if (queries.size() == 1) {
        room = found;
        continue;
      }
    } catch (const Error& error) {
      // Out of memory: fewer queries at a time.
      if (error.kind() != ErrorKind::kNoMemory || queries.size() == 1) throw;
    }
    const std::size_t half = queries.size() / 2;
    search_group(queries.first(half), room, out);
    return search_group(queries.subspan(half), room, out);
  }
}

MetricSearch::Pieces MetricSearch::lay_out(std::size_t queries, std::uint64_t room) const {
  const MatrixView& all = work_.queries;
  const std::size_t tiles = (queries + kMetricTile - 1) / kMetricTile;
  return {views_.size(), queries, queries * all.stride(), tiles * kMetricTile * all.dim,
          padded_query(all.type, all.dim), room};
}

void MetricSearch::fill(Queries queries, const Pieces& at, const Staging& host) const {
  const MatrixView& all = work_.queries;
  std::copy(views_.begin(), views_.end(), host[at.views].begin());
  host.clear(at.stop, at.sent);
  std::byte* const raw = host[at.raw].data();
  float* const points = host[at.points].data();
  const std::size_t tiles = (queries.size() + kMetricTile - 1) / kMetricTile;
  in_parallel(tiles, queries.size() * all.dim / kElementsPerThread, [&](std::size_t tile) {
    const std::size_t first = tile * kMetricTile;
    const std::size_t count = std::min<std::size_t>(kMetricTile, queries.size() - first);
    const Queries some = queries.subspan(first, count);
    fill_tile(some, points + first * all.dim);
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::memcpy(raw + (first + i) * all.stride(), all.row(some[i]), all.stride());
    }
  });
}

void MetricSearch::fill_tile(Queries queries, float* points) const {
  const std::uint32_t dim = work_.queries.dim;
  std::vector<float> own(dim);
  std::memset(points, 0, std::size_t{dim} * kMetricTile * sizeof(float));
  for (std::size_t i = 0; i < queries.size(); ++i) {
    compute::metric_coordinates(space_, work_.queries, queries[i], own.data());
    for (std::size_t d = 0; d < dim; ++d) points[d * kMetricTile + i] = own[d];
  }
}

MetricSearchView MetricSearch::view_of(const Pieces& at, const Arena& arena) const {
  MetricSearchView view{};
  view.table = table_;
  view.blocks = arena[at.views];
  view.type = work_.queries.type;
  view.distance = work_.distance;
  view.slack = compute::Slack::of(space_, work_.queries.dim);
  view.radius = radius_;
  view.near = std::nextafter(static_cast<float>(view.slack.up(radius_)),
                             std::numeric_limits<float>::infinity());
  view.points = arena[at.points];
  view.queries = static_cast<std::uint32_t>(at.queries);
  view.terms = {arena[at.real], arena.bytes(at.real), arena[at.squares],
                static_cast<std::uint32_t>(at.padded)};
  view.bounds = {work_.range.low, work_.range.high, work_.range.low_open, work_.range.high_open};
  view.stop = arena[at.stop];
  view.hits = arena[at.hits];
  view.room = at.room;
  view.found = arena[at.found];
  view.counts = arena[at.counts];
  view.totals = arena[at.totals];
  return view;
}

MetricSortView MetricSearch::sort_of(const Pieces& at, const Arena& arena,
                                     const Staging& host) const {
  return {arena[at.device_begins], arena[at.sorted], host[at.all_begins].data(),
          host[at.all_found].data(), host[at.all_totals].data()};
}

std::uint64_t MetricSearch::run(Queries queries, std::uint64_t room) {
  const Pieces at = lay_out(queries.size(), room);
  const Arena arena = lane_.scratch(at.plan);
  const Staging host = lane_.outgoing(at.host);
  fill(queries, at, host);
  host.send(at.sent, arena, lane_.stream(), "sending queries");
  PreparedQueries prepared{};
  prepared.real = arena[at.real];
  prepared.bytes = arena.bytes(at.real);
  prepared.squares = arena[at.squares];
  const auto count = static_cast<std::uint32_t>(queries.size());
  launch_prepare({work_.queries.type, work_.distance, work_.queries.dim, count, 0, 0},
                 arena[at.raw], prepared, lane_.stream());
  const MetricSearchView view = view_of(at, arena);
  if (clusters_) launch_metric_clusters(view, lane_.stream());
  if (pivots_) launch_metric_pivots(view, lane_.stream());
  const MetricSortView sort = sort_of(at, arena, host);
  launch_metric_sort(view, sort, lane_.stream());
  Stop stop(work_.cancellation, arena[at.stop], host[at.one].data());
  lane_.wait(&stop);
  begins_.assign(sort.begins, sort.begins + queries.size() + 1);
  sorted_ = sort.sorted;
  counters_.distances += sort.totals->distances;
  counters_.clusters += sort.totals->clusters;
  return *sort.found;
}

void MetricSearch::take_hits(Queries queries, compute::HitLists& out) {
  finish_taking();
  const std::size_t total = begins_.back();
  if (total == 0) return;
  if (total > kRoom) return take_many(queries.front(), total, out);
  auto* const hits = lane_.incoming<Candidate>(total);
  check(cudaMemcpyAsync(hits, sorted_, total * sizeof(Candidate), cudaMemcpyDeviceToHost,
                        lane_.stream()),
        "fetching hits");
  lane_.wait(work_.cancellation);
  const auto take_all = [this, queries, &out, hits, begins = begins_, total] {
    in_parallel(queries.size(), total / kHitsPerThread, [&](std::size_t i) {
      take(queries[i], {hits + begins[i], begins[i + 1] - begins[i]}, out);
    });
  };
  if (total < kHitsPerThread) return take_all();
  try {
    taking_ = std::async(std::launch::async, take_all);
  } catch (const std::system_error&) {
    take_all();  // no more threads: this one does it
  }
}

// Of one query, some at a time: pinned memory is scarce.
void MetricSearch::take_many(std::uint32_t query, std::size_t total, compute::HitLists& out) {
  for (std::size_t first = 0; first < total; first += kRoom) {
    const std::size_t count = std::min<std::size_t>(kRoom, total - first);
    auto* const hits = lane_.incoming<Candidate>(count);
    check(cudaMemcpyAsync(hits, sorted_ + first, count * sizeof(Candidate),
                          cudaMemcpyDeviceToHost, lane_.stream()),
          "fetching hits");
    lane_.wait(work_.cancellation);
    take(query, {hits, count}, out);
  }
}

void MetricSearch::take(std::uint32_t query, std::span<const Candidate> hits,
                        compute::HitLists& out) const {
  std::vector<Hit>& row = out[query];
  row.reserve(row.size() + hits.size());
  for (const Candidate& candidate : hits) {
    const Hit hit = rows_.hit(candidate);
    if (!work_.has_after || work_.admits(hit)) row.push_back(hit);
  }
}

void MetricSearch::finish_taking() {
  if (taking_.valid()) taking_.get();
}

}  // namespace warplite::gpu
