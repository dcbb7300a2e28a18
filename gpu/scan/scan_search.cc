#include "gpu/scan/scan_search.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "gpu/scan/scan.h"
#include "gpu/select/sort.h"

namespace warplite::gpu {
namespace {

// The largest k that pick() is asked for; beyond it, sorting all rows is cheaper.
constexpr std::size_t kMostPicked = 1024;
constexpr std::uint32_t kPickRoom = 8192;
// Bytes that one launch compares: over the bus, and of the GPU's own.
constexpr std::size_t kMappedAtOnce = std::size_t{512} << 20;
constexpr std::size_t kResidentAtOnce = std::size_t{4} << 30;
// Hits of a query that are fetched at a time: pinned memory is scarce.
constexpr std::size_t kFetchedAtOnce = std::size_t{1} << 20;
// Queries whose results are waited for together, and memory for their distances: to wait takes as long as to
// compare four queries with some megabytes of rows.
constexpr std::size_t kQueriesAtOnce = 64;
constexpr std::size_t kDistanceBytes = std::size_t{256} << 20;

// The queries of one pass over `rows` rows: as many as share a row once it is loaded, or some times that.
std::span<const std::uint32_t> group_of(std::span<const std::uint32_t> queries, std::size_t first,
                                        std::uint32_t rows) {
  const std::size_t room = kDistanceBytes / sizeof(double) / std::max(rows, 1u);
  const std::size_t most =
      std::clamp<std::size_t>(room / kScanQueries * kScanQueries, kScanQueries, kQueriesAtOnce);
  return queries.subspan(first, std::min(most, queries.size() - first));
}

// As many as the kernel compares for `queries` of them.
unsigned width_of(std::size_t queries) {
  if (queries == 1) return 1;
  return static_cast<unsigned>((queries + kScanQueries - 1) / kScanQueries * kScanQueries);
}

}  // namespace

// Says what one pass has in scratch memory; `raw` comes from the host.
struct ScanSearch::Pieces {
  std::size_t width;
  const MatrixView& all;
  const RowTable& table;
  bool sorts;
  std::uint32_t padded = padded_query(all.type, all.dim);
  std::uint32_t sorted_rows = sorts ? table.rows : 0;
  Plan plan{};
  Slot<std::byte> raw{plan, width * all.stride()};
  Plan sent = plan;
  Slot<double> real{plan, width * padded};
  Slot<double> squares{plan, width};
  Slot<double> distances{plan, width * table.rows};
  Slot<float> least{plan, width * table.groups};
  Slot<std::uint32_t> chosen{plan, width * table.groups};
  Slot<std::uint32_t> count{plan, 1};
  Slot<double> sorted{plan, sorted_rows};
  Slot<std::uint32_t> ordinals{plan, sorted_rows};
  Slot<std::byte> sort_scratch{plan, sorts ? sort_scratch_bytes(table.rows) : 0};
};

// Says where each of the pieces lies.
struct ScanSearch::Pass {
  double* distances;
  float* least;
  std::uint32_t* chosen;
  std::uint32_t* count;
  // These serve sorting.
  double* sorted;
  std::uint32_t* ordinals;
  std::byte* sort_scratch;
  std::size_t sort_bytes;
};

PreparedQueries ScanSearch::prepare(std::span<const std::uint32_t> queries, const Pieces& at,
                                    const Arena& arena) {
  const MatrixView& all = work_.queries;
  const Staging host = lane_.outgoing(at.sent);
  for (std::size_t i = 0; i < at.width; ++i) {
    const std::uint32_t query = queries[std::min(i, queries.size() - 1)];
    std::memcpy(host[at.raw].data() + i * all.stride(), all.row(query), all.stride());
  }
  host.send(at.sent, arena, lane_.stream(), "sending queries");
  PreparedQueries prepared{};
  prepared.real = arena[at.real];
  prepared.bytes = arena.bytes(at.real);
  prepared.squares = arena[at.squares];
  const auto width = static_cast<std::uint32_t>(at.width);
  launch_prepare({all.type, work_.distance, all.dim, width, 0, 0}, arena[at.raw], prepared,
                 lane_.stream());
  return prepared;
}

// Compares the queries with all rows.
ScanSearch::Pass ScanSearch::start(std::span<const std::uint32_t> queries, bool sorts) {
  const MatrixView& all = work_.queries;
  const unsigned width = width_of(queries.size());
  const Pieces at{width, all, table_, sorts};
  const Arena arena = lane_.scratch(at.plan);
  const Pass pass{arena[at.distances], arena[at.least],    arena[at.chosen],
                  arena[at.count],     arena[at.sorted],   arena[at.ordinals],
                  arena[at.sort_scratch], at.sort_scratch.bytes()};
  const PreparedQueries prepared = prepare(queries, at, arena);
  Bounds bounds{work_.range.low, work_.range.high, work_.range.low_open, work_.range.high_open};
  if (work_.has_after && work_.after_distance > bounds.low) {
    bounds.low = work_.after_distance;  // rows at that distance: the host looks at their rowids
    bounds.low_open = false;
  }
  compare({table_,
           all.type,
           work_.distance,
           bounds,
           width,
           {prepared.real, prepared.bytes, prepared.squares, at.padded},
           pass.distances,
           pass.least,
           0,
           table_.groups});
  return pass;
}

// Compares as many rows at a time as are read in some milliseconds.
void ScanSearch::compare(Scan scan) {
  const unsigned passes = (scan.queries + kScanQueries - 1) / kScanQueries;
  const std::size_t group_bytes = std::size_t{table_.group_rows} * table_.stride * passes;
  const std::size_t bytes = rows_.mapped() ? kMappedAtOnce : kResidentAtOnce;
  const std::size_t most = std::max<std::size_t>(1, bytes / group_bytes);
  for (std::uint32_t first = 0; first < table_.groups; first += scan.groups) {
    scan.first_group = first;
    scan.groups = static_cast<std::uint32_t>(std::min<std::size_t>(table_.groups - first, most));
    launch_scan(scan, lane_.stream());
    if (first + scan.groups != table_.groups) lane_.wait(work_.cancellation);
  }
}

void ScanSearch::nearest(std::span<const std::uint32_t> queries, compute::HitTable& best) {
  const bool sorts = best.k() > kMostPicked || work_.has_after || table_.groups > kMostGroups;
  for (std::size_t first = 0; first < queries.size();) {
    const auto now = group_of(queries, first, table_.rows);
    first += now.size();
    if (!sorts) {
      pick(start(now, false), now, best);
      continue;
    }
    const Pass pass = start(now, true);
    for (unsigned i = 0; i < now.size(); ++i) sort(pass, i, best.row(now[i]));
  }
}

void ScanSearch::pick(const Pass& pass, std::span<const std::uint32_t> queries,
                      compute::HitTable& best) {
  const auto count = static_cast<unsigned>(queries.size());
  Plan plan;
  const Slot<Candidate> candidate_slot(plan, std::size_t{count} * kPickRoom);
  const Slot<std::uint32_t> found_slot(plan, count);
  const Arena incoming = lane_.incoming(plan);
  Candidate* const candidates = incoming[candidate_slot];
  std::uint32_t* const found = incoming[found_slot];
  launch_pick({table_, count, static_cast<std::uint32_t>(best.k()), pass.distances, pass.least,
               pass.chosen, kPickRoom, candidates, found},
              lane_.stream());
  lane_.wait(work_.cancellation);
  std::vector<std::uint32_t> crowded;
  for (unsigned i = 0; i < count; ++i) {
    if (found[i] > kPickRoom) {
      crowded.push_back(queries[i]);
      continue;
    }
    TopK& nearest = best.row(queries[i]);
    for (std::uint32_t c = 0; c < found[i]; ++c) {
      nearest.push(rows_.hit(candidates[i * std::size_t{kPickRoom} + c]));
    }
  }
  // If too many rows are at about the same distance, all rows are sorted.
  for (const std::uint32_t query : crowded) {
    sort(start({&query, 1}, true), 0, best.row(query));
  }
}

// Takes rows in ascending distance until k are found and no tie is left.
void ScanSearch::sort(const Pass& pass, unsigned slot, TopK& best) {
  const std::uint32_t rows = table_.rows;
  launch_sort(pass.distances + std::size_t{slot} * rows, rows, pass.sort_scratch,
              pass.sort_bytes, pass.sorted, pass.ordinals, lane_.stream());
  std::size_t taken = 0;
  double last = 0;
  const auto reserve = static_cast<std::uint32_t>(std::min<std::size_t>(rows, best.k() + 1024));
  for (std::uint32_t begin = 0, end = reserve; begin < rows;
       begin = end, end += std::min(rows - end, reserve)) {
    const std::uint32_t n = end - begin;
    auto* const candidates = lane_.incoming<Candidate>(n);
    launch_locate(pass.sorted + begin, pass.ordinals + begin, n, table_, candidates,
                  lane_.stream());
    lane_.wait(work_.cancellation);
    for (std::uint32_t i = 0; i < n; ++i) {
      const double distance = candidates[i].distance;
      if (distance == std::numeric_limits<double>::infinity()) return;
      if (taken >= best.k() && distance > last) return;
      const Hit hit = rows_.hit(candidates[i]);
      if (!work_.admits(hit)) continue;
      best.push(hit);
      last = distance;
      ++taken;
    }
  }
}

void ScanSearch::within(std::span<const std::uint32_t> queries, compute::HitLists& out) {
  for (std::size_t first = 0; first < queries.size();) {
    const auto now = group_of(queries, first, table_.rows);
    first += now.size();
    const Pass pass = start(now, false);
    for (unsigned i = 0; i < now.size(); ++i) {
      collect(pass, i, out[now[i]]);
    }
  }
}

// Counts, then emits into memory of just that size.
void ScanSearch::collect(const Pass& pass, unsigned slot, std::vector<Hit>& out) {
  const double* distances = pass.distances + std::size_t{slot} * table_.rows;
  const auto clear = [&] {
    check(cudaMemsetAsync(pass.count, 0, sizeof *pass.count, lane_.stream()), "counting rows");
  };
  auto* const count = lane_.incoming<std::uint32_t>(1);
  clear();
  launch_count(distances, table_.rows, pass.count, lane_.stream());
  check(cudaMemcpyAsync(count, pass.count, sizeof *count, cudaMemcpyDeviceToHost, lane_.stream()),
        "counting rows");
  lane_.wait(work_.cancellation);
  const std::size_t found = *count;
  if (found == 0) return;
  const DeviceBytes emitted(found * sizeof(Candidate), lane_.pool(), lane_.stream());
  clear();
  launch_emit(distances, table_, emitted.as<Candidate>(), pass.count, lane_.stream());
  out.reserve(out.size() + found);
  for (std::size_t first = 0; first < found; first += kFetchedAtOnce) {
    const std::size_t some = std::min(kFetchedAtOnce, found - first);
    auto* const candidates = lane_.incoming<Candidate>(some);
    check(cudaMemcpyAsync(candidates, emitted.as<Candidate>() + first, some * sizeof(Candidate),
                          cudaMemcpyDeviceToHost, lane_.stream()),
          "fetching rows");
    lane_.wait(work_.cancellation);
    for (std::size_t i = 0; i < some; ++i) {
      const Hit hit = rows_.hit(candidates[i]);
      if (work_.admits(hit)) out.push_back(hit);
    }
  }
}

}  // namespace warplite::gpu
