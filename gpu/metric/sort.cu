// Hits, sorted by query.
#include "gpu/metric/metric.h"
#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/hit_sort.h"

namespace warplite::gpu {
namespace {

__global__ void __launch_bounds__(kHitThreads)
    place_kernel(const __grid_constant__ MetricSearchView search, HitCounts hits,
                 Candidate* sorted, MetricTotals* totals) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *totals = *search.totals;
  const std::uint64_t found = *search.found;
  if (found > search.room) return;
  const std::uint64_t step = std::uint64_t{gridDim.x} * kHitThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kHitThreads + threadIdx.x; i < found;
       i += step) {
    const MetricHit hit = search.hits[i];
    // Neighbours are often hits of one query.
    const std::uint32_t at = hits.device_begins[hit.query] +
                             count_hit(hits.counts, hit.query, __activemask());
    const std::uint32_t block = block_of_row(search.table, hit.ordinal);
    sorted[at] = {hit.distance, block, hit.ordinal - search.table.blocks[block].first_ordinal};
  }
}

}  // namespace

void launch_metric_sort(const MetricSearchView& search, const HitCounts& hits, Candidate* sorted,
                        MetricTotals* totals, cudaStream_t stream) {
  launch_hit_begins(hits, stream);
  place_kernel<<<hit_blocks(search.room), kHitThreads, 0, stream>>>(search, hits, sorted, totals);
  check_launch("sorting hits");
}

}  // namespace warplite::gpu
