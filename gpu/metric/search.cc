#include "gpu/metric/search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "gpu/batch/shadow.h"
#include "gpu/metric/build.h"
#include "gpu/runtime/cuda_buffer.h"
#include "gpu/runtime/groups.h"
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

// Says what lies in scratch memory, and up to `sent` in the host's, 0 from `stop` on up to there;
// from there on the host's has what kernels write for it.
struct MetricSearch::Pieces {
  const MatrixView& all;
  std::size_t blocks, queries;
  std::uint64_t room;
  std::uint32_t padded = padded_query(all.type, all.dim);
  std::size_t tiles = (queries + kMetricTile - 1) / kMetricTile;
  Plan plan{};
  Slot<MetricBlockView> views{plan, blocks};
  Slot<std::byte> raw{plan, queries * all.stride()};
  Slot<float> points{plan, tiles * kMetricTile * all.dim};
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
      [&](std::size_t i, compute::Cancellation* cancellation) {
        const compute::Block& block = *missing[i];
        const MatrixView rows{block.host, block.rows, work.queries.dim, work.queries.type};
        return work.metric->build(host, rows, cancellation);
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
      space_(work.metric->space()), radius_(radius_of(work)), hits_(lane) {
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
  const HitTaker<Candidate>::Waiting waiting{hits_};
  const std::size_t per_query = all.stride() + all.dim * std::size_t{12} + 256;
  const std::size_t most =
      std::clamp<std::size_t>(kQueryMemory / per_query, kMetricTile, kMostQueries);
  std::size_t count = std::clamp<std::size_t>(kRoom / rows_.live_rows(), kMetricTile, most);
  for (std::size_t first = 0; first < queries.size();) {
    const Queries now = Queries(queries).subspan(first, std::min(count, queries.size() - first));
    search_group(now, out);
    first += now.size();
    // Next come as many queries as have room, if they are like these.
    const std::size_t hits = hits_.total(), told = hits_.queries();
    const std::size_t fits = hits == 0 ? most : told * (kRoom * 3 / 4) / hits;
    count = std::clamp<std::size_t>(fits, kMetricTile, most);
  }
  hits_.finish();
  counters_.indexed += std::uint64_t{rows_.live_rows()} * queries.size();
  return others;
}

void MetricSearch::search_group(Queries queries, compute::HitLists& out) {
  by_halves(queries, [&](Queries some) {
    // There are no more hits than pairs.
    std::uint64_t room = std::min(kRoom, some.size() * std::uint64_t{rows_.live_rows()});
    for (;;) {
      const std::uint64_t found = run(some, room);
      if (found <= room) break;
      if (some.size() != 1) return false;
      room = found;
    }
    take_hits(some, out);
    return true;
  });
}

void MetricSearch::fill(Queries queries, const Pieces& at, const Staging& host) const {
  const MatrixView& all = work_.queries;
  std::copy(views_.begin(), views_.end(), host[at.views].begin());
  host.clear(at.stop, at.sent);
  std::byte* const raw = host[at.raw].data();
  float* const points = host[at.points].data();
  in_parallel(at.tiles, queries.size() * all.dim / kElementsPerThread, [&](std::size_t tile) {
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
  view.terms = {arena[at.real], arena.bytes(at.real), arena[at.squares], at.padded};
  view.bounds = {work_.range.low, work_.range.high, work_.range.low_open, work_.range.high_open};
  view.stop = arena[at.stop];
  view.hits = arena[at.hits];
  view.room = at.room;
  view.found = arena[at.found];
  view.counts = arena[at.counts];
  view.totals = arena[at.totals];
  return view;
}

std::uint64_t MetricSearch::run(Queries queries, std::uint64_t room) {
  const Pieces at{work_.queries, views_.size(), queries.size(), room};
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
  const HitCounts hits{view.queries,
                       view.counts,
                       view.found,
                       arena[at.device_begins],
                       host[at.all_begins].data(),
                       host[at.all_found].data()};
  const MetricTotals& totals = host[at.all_totals].front();
  launch_metric_sort(view, hits, arena[at.sorted], host[at.all_totals].data(), lane_.stream());
  Stop stop(work_.cancellation, arena[at.stop], host[at.one].data());
  lane_.wait(&stop);
  hits_.found(host[at.all_begins], arena[at.sorted]);
  counters_.distances += totals.distances;
  counters_.clusters += totals.clusters;
  return *hits.all_found;
}

void MetricSearch::take_hits(Queries queries, compute::HitLists& out) {
  if (hits_.total() > kRoom) return take_many(queries.front(), out);
  hits_.take(work_.cancellation,
             [this, queries, &out](std::size_t i, std::span<const Candidate> hits) {
               take(queries[i], hits, out);
             });
}

// Takes the hits of one query, some at a time: pinned memory is scarce.
void MetricSearch::take_many(std::uint32_t query, compute::HitLists& out) {
  hits_.finish();
  const std::size_t total = hits_.total();
  for (std::size_t first = 0; first < total; first += kRoom) {
    const std::size_t count = std::min<std::size_t>(kRoom, total - first);
    take(query, hits_.fetch(first, count, work_.cancellation), out);
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

}  // namespace warplite::gpu
