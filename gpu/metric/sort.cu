// Hits, sorted by query.
#include <algorithm>

#include "gpu/metric/metric.h"
#include "gpu/runtime/block_sum.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/runtime/row_score.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kScanThreads = 1024;
constexpr unsigned kMostBlocks = 2048;

// One thread block. Leaves zeros in the counts.
__global__ void __launch_bounds__(kScanThreads)
    begins_kernel(const __grid_constant__ MetricSearchView search, MetricSortView sort) {
  __shared__ unsigned sums[kScanThreads / 32];
  std::uint32_t before = 0;
  for (std::uint32_t first = 0; first < search.queries; first += kScanThreads) {
    const std::uint32_t query = first + threadIdx.x;
    const std::uint32_t own = query < search.queries ? search.counts[query] : 0;
    unsigned total = 0;
    const std::uint32_t at = before + exclusive_sum<kScanThreads>(own, sums, total);
    if (query < search.queries) {
      sort.begins[query] = sort.device_begins[query] = at;
      search.counts[query] = 0;
    }
    before += total;
  }
  if (threadIdx.x != 0) return;
  sort.begins[search.queries] = before;
  *sort.found = *search.found;
  *sort.totals = *search.totals;
}

__global__ void __launch_bounds__(kThreads)
    place_kernel(const __grid_constant__ MetricSearchView search, MetricSortView sort) {
  const std::uint64_t found = *search.found;
  if (found > search.room) return;
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < found; i += step) {
    const MetricHit hit = search.hits[i];
    // Neighbours are often hits of one query.
    const unsigned lanes = __activemask();
    const unsigned peers = __match_any_sync(lanes, hit.query);
    const unsigned lane = threadIdx.x % 32;
    const auto leader = static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1);
    std::uint32_t at = 0;
    if (lane == leader) {
      at = sort.device_begins[hit.query] +
           atomicAdd(search.counts + hit.query, static_cast<std::uint32_t>(__popc(peers)));
    }
    at = __shfl_sync(peers, at, static_cast<int>(leader)) +
         static_cast<std::uint32_t>(__popc(peers & ((1u << lane) - 1)));
    const std::uint32_t block = block_of_row(search.table, hit.ordinal);
    sort.sorted[at] = {hit.distance, block,
                       hit.ordinal - search.table.blocks[block].first_ordinal};
  }
}

}  // namespace

void launch_metric_sort(const MetricSearchView& search, const MetricSortView& sort,
                        cudaStream_t stream) {
  begins_kernel<<<1, kScanThreads, 0, stream>>>(search, sort);
  const auto blocks = static_cast<unsigned>(
      std::min<std::uint64_t>(kMostBlocks, (search.room + kThreads - 1) / kThreads));
  place_kernel<<<blocks, kThreads, 0, stream>>>(search, sort);
  check_launch("sorting hits");
}

}  // namespace warplite::gpu
