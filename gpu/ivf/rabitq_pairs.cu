// Pairs of queries and the lists that they probe, by list, and what both make of each other
// (rabitq.h).
#include "gpu/ivf/rabitq_code.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kLanes = kWarpLanes / 2, kPairs = kThreads / kLanes;

// A word of each of four lanes: the n-th of them receives the n-th byte of all.
__device__ std::uint32_t transpose(std::uint32_t word) {
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x % 4 >= 2;
  word = __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 1), odd ? 0x3715 : 0x6240);
  return __byte_perm(word, __shfl_xor_sync(kWholeWarp, word, 2), upper ? 0x3276 : 0x5410);
}

// Half a warp a pair.
__global__ void __launch_bounds__(kThreads)
    pair_tables_kernel(const __grid_constant__ RabitqScan scan, const RabitqPairs pairs) {
  const std::uint32_t own = blockIdx.x * kPairs + threadIdx.x / kLanes;
  const std::uint32_t end = pairs.order.first_pairs[scan.shape.lists];
  if (own - own % 2 >= end) return;
  const std::uint32_t slot = min(own, end - 1);  // the last one twice, where a half has none
  const uint2 pair = pairs.order.pairs[slot];
  const std::uint32_t list = scan.lists[std::size_t{pair.x} * scan.list_stride + pair.y];
  const std::size_t at = std::size_t{slot} * pair_words(scan.shape.m);
  const RabitqTables made = make_tables<kLanes>(
      scan.shape, scan.product, scan.queries + std::size_t{pair.x} * scan.shape.dim,
      scan.centroids + std::size_t{list} * scan.shape.dim,
      [&](std::uint32_t k, std::uint32_t w, std::uint32_t v) {
        // Words of w are of elements that follow each other.
        w = transpose(w);
        if (k >= pair_words(scan.shape.m)) return;
        pairs.words[at + k / 8 * 8 + k % 4 * 2 + k % 8 / 4] = w;
        pairs.elements[at + k] = v;
      });
  if (threadIdx.x % kLanes == 0) pairs.tables[slot] = {made, pair.x, 0};
}

}  // namespace

void launch_rabitq_pairs(const RabitqScan& scan, const RabitqPairs& pairs, cudaStream_t stream) {
  launch_ivf_pairs({scan.lists, scan.count, scan.list_stride, pairs.first, scan.nprobe,
                    scan.shape.lists, kListQueries, pairs.order},
                   stream);
  pair_tables_kernel<<<(pairs.most + kPairs - 1) / kPairs, kThreads, 0, stream>>>(scan, pairs);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu
