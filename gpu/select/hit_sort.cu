#include "gpu/select/hit_sort.h"

#include "gpu/runtime/cuda_error.h"
#include "gpu/select/block_sum.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 1024;

// One thread block.
__global__ void __launch_bounds__(kThreads) begins_kernel(HitCounts hits) {
  __shared__ BlockSums<kThreads> sums;
  std::uint32_t before = 0;
  for (std::uint32_t first = 0; first < hits.queries; first += kThreads) {
    const std::uint32_t query = first + threadIdx.x;
    const std::uint32_t own = query < hits.queries ? hits.counts[query] : 0;
    unsigned total = 0;
    const std::uint32_t at = before + exclusive_sum<kThreads>(own, sums, total);
    if (query < hits.queries) {
      hits.begins[query] = hits.device_begins[query] = at;
      hits.counts[query] = 0;
    }
    before += total;
  }
  if (threadIdx.x != 0) return;
  hits.begins[hits.queries] = before;
  *hits.all_found = *hits.found;
}

}  // namespace

void launch_hit_begins(const HitCounts& hits, cudaStream_t stream) {
  begins_kernel<<<1, kThreads, 0, stream>>>(hits);
  check_launch("sorting hits");
}

}  // namespace warplite::gpu
