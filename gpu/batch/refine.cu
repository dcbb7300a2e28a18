// Refines the nominees between the phases of the product and after the last one.
#include "gpu/batch/nominate.h"
#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_edge.cuh"
#include "gpu/select/ordered_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256, kWarp = 32;
constexpr float kFarthest = 3e38f;

__device__ float infinite() { return __int_as_float(0x7f800000); }

__global__ void start_kernel(Nominees nominees, const float* norms, std::uint32_t tile_queries,
                             std::uint32_t first_rows) {
  const std::uint32_t query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= tile_queries) return;
  const bool usable = query < nominees.queries && norms[query] <= kLargestNorm;
  nominees.limits[query] = usable ? kFarthest : -infinite();
  if (query < nominees.queries) {
    nominees.counts[query] = usable ? first_rows : nominees.capacity + 1;
  }
}

// Threads of a block that has so many nominees: more would take more registers each than there are.
constexpr unsigned threads_for(std::uint32_t nominees) { return nominees > 8192 ? 1024 : kThreads; }

// One thread block per query: lowers its limit and drops what lies beyond.
template <unsigned kCapacity, unsigned kWidth = threads_for(kCapacity)>
__global__ void __launch_bounds__(kWidth) tighten_kernel(Nominees nominees) {
  constexpr unsigned kOwn = kCapacity / kWidth;
  __shared__ KthEdge<kWidth, 2048> edge;
  __shared__ std::uint32_t kept;
  const std::uint32_t query = blockIdx.x;
  const std::uint32_t count = nominees.counts[query];
  if (count > nominees.capacity) {
    if (threadIdx.x == 0) nominees.limits[query] = -infinite();
    return;
  }
  float2* const bounds = nominees.bounds + std::size_t{query} * nominees.capacity;
  std::uint32_t* const ordinals = nominees.ordinals + std::size_t{query} * nominees.capacity;
  float lower[kOwn], upper[kOwn];
  std::uint32_t ordinal[kOwn], keys[kOwn];
#pragma unroll
  for (unsigned i = 0; i < kOwn; ++i) {
    const unsigned at = i * kWidth + threadIdx.x;
    const float2 pair = at < count ? bounds[at] : float2{infinite(), infinite()};
    lower[i] = pair.x;
    upper[i] = pair.y;
    keys[i] = pair.x <= kFarthest ? ordered_key(pair.y) : ~0u;
    ordinal[i] = at < count ? ordinals[at] : 0;
  }
  if (threadIdx.x == 0) kept = 0;
  const std::uint32_t limit_key = edge.find(keys, ordered_key(infinite()), nominees.k);
  const float limit = fminf(value_of_key(limit_key), nominees.limits[query]);
#pragma unroll
  for (unsigned i = 0; i < kOwn; ++i) {
    if (!(lower[i] <= limit)) continue;
    const std::uint32_t slot = atomicAdd(&kept, 1u);
    bounds[slot] = {lower[i], upper[i]};
    ordinals[slot] = ordinal[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    nominees.counts[query] = kept;
    nominees.limits[query] = limit;
  }
}

// The same where one row is wanted, a warp a query: the limit is the least upper bound.
__global__ void __launch_bounds__(kThreads) tighten_nearest_kernel(Nominees nominees) {
  const std::uint32_t query = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  if (query >= nominees.queries) return;
  const std::uint32_t count = nominees.counts[query];
  if (count > nominees.capacity) {
    if (lane == 0) nominees.limits[query] = -infinite();
    return;
  }
  float2* const bounds = nominees.bounds + std::size_t{query} * nominees.capacity;
  std::uint32_t* const ordinals = nominees.ordinals + std::size_t{query} * nominees.capacity;
  float least = infinite();
  for (std::uint32_t i = lane; i < count; i += kWarp) {
    const float2 pair = bounds[i];
    if (pair.x <= kFarthest) least = fminf(least, pair.y);
  }
  for (unsigned step = kWarp / 2; step != 0; step /= 2) {
    least = fminf(least, __shfl_xor_sync(kWholeWarp, least, step));
  }
  const float limit = fminf(least, nominees.limits[query]);
  std::uint32_t kept = 0;
  for (std::uint32_t base = 0; base < count; base += kWarp) {
    const std::uint32_t i = base + lane;
    const float2 pair = i < count ? bounds[i] : float2{infinite(), infinite()};
    const std::uint32_t ordinal = i < count ? ordinals[i] : 0;
    const bool keep = i < count && pair.x <= limit;
    const unsigned keeping = __ballot_sync(kWholeWarp, keep);
    if (keep) {  // in a place that was read
      const std::uint32_t slot = kept + __popc(keeping & ((1u << lane) - 1));
      bounds[slot] = pair;
      ordinals[slot] = ordinal;
    }
    kept += __popc(keeping);
    __syncwarp();
  }
  if (lane == 0) {
    nominees.counts[query] = kept;
    nominees.limits[query] = limit;
  }
}

// Canonical distances are computed for at most kMost rows of a query, by kWidth threads. The larger takes all
// shared memory that a block has without asking.
template <unsigned kMost, unsigned kWidth>
struct Ranking {
  std::uint64_t keys[kMost];
  std::uint32_t ordinals[kMost];

  __device__ bool before(unsigned a, unsigned b) const {
    return keys[a] != keys[b] ? keys[a] < keys[b] : ordinals[a] < ordinals[b];
  }
  __device__ void exchange(unsigned a, unsigned b) {
    const std::uint64_t key = keys[a];
    const std::uint32_t ordinal = ordinals[a];
    keys[a] = keys[b];
    ordinals[a] = ordinals[b];
    keys[b] = key;
    ordinals[b] = ordinal;
  }

  // Bitonic, over the least power of two that holds `count`.
  __device__ void sort(unsigned count) {
    unsigned size = 2;
    while (size < count) size *= 2;
    for (unsigned i = count + threadIdx.x; i < size; i += kWidth) {
      keys[i] = ~std::uint64_t{0};
      ordinals[i] = ~0u;
    }
    __syncthreads();
    for (unsigned run = 2; run <= size; run *= 2) {
      for (unsigned step = run / 2; step != 0; step /= 2) {
        for (unsigned i = threadIdx.x; i < size / 2; i += kWidth) {
          const unsigned a = i / step * 2 * step + i % step, b = a + step;
          if (before(b, a) == ((a & run) == 0)) exchange(a, b);
        }
        __syncthreads();
      }
    }
  }
};

template <ElementType kType>
__device__ QueryTerms terms_of(const Rescore& work, std::uint32_t query) {
  const std::uint32_t padded = padded_query(kType, work.table.dim);
  return {work.prepared.real + std::size_t{query} * padded,
          work.prepared.bytes + std::size_t{query} * padded, work.prepared.squares + query, padded};
}

// Sets the row's ordinal.
__device__ const std::byte* nominated_row(const Rescore& work, std::uint32_t nominee,
                                          std::uint32_t& ordinal) {
  ordinal = work.ordinals == nullptr ? nominee : work.ordinals[nominee];
  const RowBlock& block = work.table.blocks[block_of_row(work.table, ordinal)];
  return block.vectors + std::size_t{ordinal - block.first_ordinal} * work.table.stride;
}

__device__ Candidate candidate_of(const Rescore& work, std::uint64_t key, std::uint32_t ordinal) {
  const std::uint32_t block = block_of_row(work.table, ordinal);
  return {value_of_key(key), block, ordinal - work.table.blocks[block].first_ordinal};
}

// One thread block per query; four lanes compute a distance.
template <ElementType kType, Distance kDistance, unsigned kMost, unsigned kWidth>
__global__ void __launch_bounds__(kWidth) rescore_kernel(Rescore work) {
  __shared__ Ranking<kMost, kWidth> ranking;
  const std::uint32_t query = blockIdx.x;
  const Nominees& nominees = work.nominees;
  const std::uint32_t count = nominees.counts[query];
  if (count > min(nominees.capacity, kMost)) {
    if (threadIdx.x == 0) work.found[query] = kLost;
    return;
  }
  const QueryTerms terms = terms_of<kType>(work, query);
  const std::uint32_t* ordinals = nominees.ordinals + std::size_t{query} * nominees.capacity;
  for (unsigned base = 0; base < count; base += kWidth / kLanesPerRow) {
    const unsigned i = base + threadIdx.x / kLanesPerRow;
    const bool active = i < count;
    std::uint32_t ordinal = 0;
    const std::byte* const row = active ? nominated_row(work, ordinals[i], ordinal) : nullptr;
    double found[1];
    RowScore<kType, kDistance, 1>::run(work.table, terms, row, active, found);
    if (active && threadIdx.x % kLanesPerRow == 0) {
      ranking.keys[i] = ordered_key(found[0]);
      ranking.ordinals[i] = ordinal;
    }
  }
  __syncthreads();
  ranking.sort(count);
  const std::uint64_t last =
      count > nominees.k ? ranking.keys[nominees.k - 1] : ~std::uint64_t{0};
  unsigned found = 0;
  for (unsigned base = 0; base < count; base += kWidth) {
    const unsigned i = base + threadIdx.x;
    const bool near = i < count && ranking.keys[i] <= last;
    found += __syncthreads_count(near);
    if (!near || i >= work.room) continue;
    work.out[std::size_t{query} * work.room + i] =
        candidate_of(work, ranking.keys[i], ranking.ordinals[i]);
  }
  if (threadIdx.x == 0) work.found[query] = found;
}

// The nearest row alone, a warp a query.
template <ElementType kType, Distance kDistance>
__global__ void __launch_bounds__(kThreads) rescore_nearest_kernel(Rescore work) {
  const std::uint32_t query = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  const Nominees& nominees = work.nominees;
  if (query >= nominees.queries) return;
  const std::uint32_t count = nominees.counts[query];
  if (count > nominees.capacity) {
    if (lane == 0) work.found[query] = kLost;
    return;
  }
  const QueryTerms terms = terms_of<kType>(work, query);
  const std::uint32_t* const ordinals = nominees.ordinals + std::size_t{query} * nominees.capacity;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint32_t nearest = ~0u;
  for (unsigned base = 0; base < count; base += kWarp / kLanesPerRow) {
    const unsigned i = base + lane / kLanesPerRow;
    const bool active = i < count;
    std::uint32_t ordinal = 0;
    const std::byte* const row = active ? nominated_row(work, ordinals[i], ordinal) : nullptr;
    double found[1];
    RowScore<kType, kDistance, 1>::run(work.table, terms, row, active, found);
    if (!active || lane % kLanesPerRow != 0) continue;
    const std::uint64_t key = ordered_key(found[0]);
    if (key < least || (key == least && ordinal < nearest)) {
      least = key;
      nearest = ordinal;
    }
  }
  for (unsigned step = kWarp / 2; step != 0; step /= 2) {
    const std::uint64_t key = __shfl_xor_sync(kWholeWarp, least, step);
    const std::uint32_t ordinal = __shfl_xor_sync(kWholeWarp, nearest, step);
    if (key > least || (key == least && ordinal >= nearest)) continue;
    least = key;
    nearest = ordinal;
  }
  if (lane != 0) return;
  work.found[query] = nearest == ~0u ? 0 : 1;
  if (nearest != ~0u) work.out[query] = candidate_of(work, least, nearest);
}

}  // namespace

void launch_start(const Nominees& nominees, const float* norms, std::uint32_t tile_queries,
                  std::uint32_t first_rows, cudaStream_t stream) {
  start_kernel<<<(tile_queries + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      nominees, norms, tile_queries, first_rows);
  check_launch("nominating rows");
}

void launch_tighten(const Nominees& nominees, cudaStream_t stream) {
  static_assert(std::size(kCapacities) == 4);
  if (nominees.k == 1) {
    const unsigned blocks = (nominees.queries + kThreads / kWarp - 1) / (kThreads / kWarp);
    tighten_nearest_kernel<<<blocks, kThreads, 0, stream>>>(nominees);
    return check_launch("dropping nominees");
  }
  const unsigned threads = threads_for(nominees.capacity);
  const auto launch = [&](auto* kernel) { kernel<<<nominees.queries, threads, 0, stream>>>(nominees); };
  if (nominees.capacity == kCapacities[0]) launch(tighten_kernel<kCapacities[0]>);
  if (nominees.capacity == kCapacities[1]) launch(tighten_kernel<kCapacities[1]>);
  if (nominees.capacity == kCapacities[2]) launch(tighten_kernel<kCapacities[2]>);
  if (nominees.capacity == kCapacities[3]) launch(tighten_kernel<kCapacities[3]>);
  check_launch("dropping nominees");
}

void launch_rescore(const Rescore& work, cudaStream_t stream) {
  for_kernel(work.type, work.distance, [&]<ElementType kType, Distance kDistance>() {
    if constexpr (info(kDistance).product) {
      if (work.room == 1) {
        const unsigned blocks = (work.nominees.queries + kThreads / kWarp - 1) / (kThreads / kWarp);
        rescore_nearest_kernel<kType, kDistance><<<blocks, kThreads, 0, stream>>>(work);
        return;
      }
      const unsigned queries = work.nominees.queries;
      if (work.nominees.k <= 512) {
        rescore_kernel<kType, kDistance, 1024, kThreads><<<queries, kThreads, 0, stream>>>(work);
      } else {
        rescore_kernel<kType, kDistance, 4096, 512><<<queries, 512, 0, stream>>>(work);
      }
    }
  });
  check_launch("computing nominees' distances");
}

}  // namespace warplite::gpu
