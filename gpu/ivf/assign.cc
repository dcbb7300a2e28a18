#include "gpu/ivf/assign.h"

#include <limits>
#include <vector>

#include "gpu/batch/batch_search.h"
#include "gpu/scan/scan_search.h"

namespace warplite::gpu {

void assign_by_scan(Lane& lane, const compute::Workload& work, const RowSet& rows,
                    const RowTable& table, std::uint32_t query, compute::Assigned& out) {
  compute::HitTable best(work.queries.rows, 1);
  ScanSearch(lane, work, rows, table).nearest({&query, 1}, best);
  const std::span<const Hit> hits = best.sorted(query);
  // No list is near to a row whose distances are no numbers.
  out = hits.empty() ? compute::Assigned{0, std::numeric_limits<double>::quiet_NaN()}
                     : compute::Assigned{hits[0].row, hits[0].distance};
}

bool assign_lists(const Gpu& gpu, Lane& lane, const compute::AssignWork& work) {
  if (work.count == 0) return true;
  compute::Block centroids;
  centroids.vectors = work.centroids;
  centroids.rows = centroids.live_rows = work.lists;
  compute::Workload search;
  search.blocks = {&centroids, 1};
  search.cancellation = work.cancellation;
  search.queries = {reinterpret_cast<const std::byte*>(work.rows), work.count, work.dim,
                    ElementType::kFloat32};
  // Passes over few centroids, four rows at a time, take a hundred times as long.
  if (!BatchSearch::serves(gpu, search, 1)) return false;
  RowSet rows(search.blocks, search.queries);
  const RowTable table = rows.upload(lane);
  const DeviceBytes nearest(work.count * sizeof(Candidate), lane.pool(), lane.stream());
  const DeviceBytes found(work.count * sizeof(std::uint32_t), lane.pool(), lane.stream());
  if (!BatchSearch(gpu, lane, search, rows, table)
           .nearest_into(1, 1, nearest.as<Candidate>(), found.as<std::uint32_t>())) {
    return false;
  }
  Plan plan;
  const Slot<Candidate> fetched(plan, work.count);
  const Slot<std::uint32_t> fetched_counts(plan, work.count);
  const Arena host = lane.incoming(plan);
  const auto fetch = [&](const DeviceBytes& from, auto* to) {
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDeviceToHost, lane.stream()),
          "fetching lists");
    return to;
  };
  const Candidate* const candidates = fetch(nearest, host[fetched]);
  const std::uint32_t* const counts = fetch(found, host[fetched_counts]);
  lane.wait(work.cancellation);
  std::vector<std::uint32_t> lost;
  for (std::size_t i = 0; i < work.count; ++i) {
    work.out[i] = {candidates[i].row, candidates[i].distance};
    if (counts[i] == 0 || counts[i] == kLost) lost.push_back(static_cast<std::uint32_t>(i));
  }
  for (const std::uint32_t i : lost) {
    assign_by_scan(lane, search, rows, table, i, work.out[i]);
  }
  return true;
}

}  // namespace warplite::gpu
