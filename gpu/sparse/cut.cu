// What strips kept, cut to what may be among the k best.
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"
#include "gpu/sparse/sparse.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
// A few queries: each has a multiprocessor to itself.
constexpr unsigned kManyThreads = 1024;
constexpr std::uint32_t kLonely = 64;

template <unsigned kBlock>
struct Shared {
  KthKey<kBlock, std::uint32_t> kth;
  std::uint32_t least, most;  // bounds of keys
  std::uint32_t slots;
};

// Returns what S of k rows reaches. REQUIRES: k ≤ count. Called by all threads.
template <unsigned kBlock>
__device__ double reached(const SparseSearchView& search, Shared<kBlock>& shared,
                          const std::uint64_t* keys, std::uint32_t count, double window) {
  if (threadIdx.x == 0) {
    shared.least = ~0u;
    shared.most = 0;
  }
  __syncthreads();
  std::uint32_t least = ~0u, most = 0;
  for (std::uint32_t i = threadIdx.x; i < count; i += kBlock) {
    least = min(least, sparse_key_bound(keys[i]));
    most = max(most, sparse_key_bound(keys[i]));
  }
  for (unsigned step = 16; step > 0; step /= 2) {
    least = min(least, __shfl_xor_sync(~0u, least, static_cast<int>(step)));
    most = max(most, __shfl_xor_sync(~0u, most, static_cast<int>(step)));
  }
  if (threadIdx.x % 32 == 0) {
    atomicMin(&shared.least, least);
    atomicMax(&shared.most, most);
  }
  __syncthreads();
  least = shared.least;
  most = shared.most;
  // Bounds are near each other: what they differ in comes to the top, where selection begins.
  const int shift = __clz(static_cast<int>((most - least) | 1));
  const std::uint32_t kth =
      shared.kth.find([=](std::uint32_t i) { return (most - sparse_key_bound(keys[i])) << shift; },
                      count, search.k);
  const std::uint32_t bound = most - min(kth >> shift, most - least);
  // What S can be at most is below the bound, by less than one.
  return sparse_number(std::uint64_t{bound - 1} << 32) - window;
}

// One thread block per query.
template <unsigned kBlock, bool kLast>
__global__ void __launch_bounds__(kBlock)
    cut_kernel(const __grid_constant__ SparseSearchView search, SparseResultsView results) {
  __shared__ Shared<kBlock> shared;
  const std::uint32_t query = blockIdx.x;
  const std::uint32_t all = search.kept_counts[query];
  const bool lost = all > search.stride;
  const std::uint32_t count = lost ? static_cast<std::uint32_t>(search.stride) : all;
  std::uint64_t* const keys = search.kept + query * search.stride;
  double floor = sparse_number(search.floors[query]);
  if (search.k != 0 && count > search.k) {
    floor = fmax(
        floor, reached<kBlock>(search, shared, keys, count, sparse_number(search.windows[query])));
  }
  if (threadIdx.x == 0) shared.slots = 0;
  std::uint64_t* const out = kLast ? results.out + query * search.stride : keys;
  for (std::uint32_t base = 0; !lost && base < count; base += kBlock) {
    const std::uint32_t i = base + threadIdx.x;
    const std::uint64_t key = i < count ? keys[i] : 0;
    __syncthreads();  // those that are read now may be overwritten
    if (i < count && sparse_key_most(key) >= floor) {
      out[atomicAdd(&shared.slots, 1u)] = key;
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const auto bits = std::bit_cast<std::uint64_t>(floor);
  const std::uint32_t kept = lost ? all : shared.slots;
  search.floors[query] = bits;
  search.kept_counts[query] = kept;
  if (!kLast) return;
  results.found[query] = kept;
  results.floors[query] = bits;
  results.others[query] = search.others[query];
}

__global__ void __launch_bounds__(kThreads)
    left_kernel(const __grid_constant__ SparseSearchView search, SparseResultsView results) {
  const std::uint32_t count = *search.left_count;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < count;
       i += gridDim.x * kThreads) {
    results.left[i] = search.left[i];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *results.left_count = count;
}

template <bool kLast>
void launch(const SparseSearchView& search, const SparseResultsView& results, cudaStream_t stream) {
  if (search.queries <= kLonely) {
    cut_kernel<kManyThreads, kLast><<<search.queries, kManyThreads, 0, stream>>>(search, results);
  } else {
    cut_kernel<kThreads, kLast><<<search.queries, kThreads, 0, stream>>>(search, results);
  }
  check_launch("selecting sparse vectors");
}

}  // namespace

void launch_sparse_cut(const SparseSearchView& search, cudaStream_t stream) {
  launch<false>(search, {}, stream);
}

void launch_sparse_results(const SparseSearchView& search, const SparseResultsView& results,
                           cudaStream_t stream) {
  launch<true>(search, results, stream);
  constexpr unsigned kBlocks = 16;
  left_kernel<<<kBlocks, kThreads, 0, stream>>>(search, results);
  check_launch("selecting sparse vectors");
}

}  // namespace warplite::gpu
