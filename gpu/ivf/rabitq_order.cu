// Lists by the distance of their whole centroids, lists and limits from the keys that a search has
// found (rabitq.h).
#include <bit>

#include "gpu/ivf/rabitq_code.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
// Of a query that is alone, or nearly; else queries share multiprocessors.
constexpr unsigned kManyThreads = 512;
constexpr std::uint32_t kLonely = 64;
// That a block has besides.
constexpr std::size_t kOwnShared = 2048;

// Sixteen lanes a list.
__global__ void __launch_bounds__(kThreads)
    distances_kernel(const __grid_constant__ RabitqScan scan) {
  const std::uint32_t query = blockIdx.y, lists = scan.shape.lists;
  const std::uint32_t list = (blockIdx.x * kThreads + threadIdx.x) / 16;
  const float distance = list_distance(scan, query, min(list, lists - 1));
  if (threadIdx.x % 16 != 0 || list >= lists) return;
  scan.best.keys[std::size_t{query} * scan.best.stride + list] =
      make_key(known_key(distance), list);
  if (list == 0) scan.best.counts[query] = lists;
}

__device__ float score_of(std::uint64_t key) {
  return value_of_key(static_cast<std::uint32_t>(key >> 32));
}

// One thread block per query; `room`, a power of two, sorted keys in shared memory or kAside, and
// all keys where shared memory has room for `held`.
template <unsigned kBlock, bool kAside>
__global__ void __launch_bounds__(kBlock)
    order_kernel(RabitqBest best, OrderedLists order, std::uint32_t room, std::uint32_t held) {
  extern __shared__ std::uint64_t own[];
  std::uint64_t* const sorted =
      kAside ? order.sorted + std::size_t{blockIdx.x} * room : own + held;
  __shared__ KthKey<kBlock> kth;
  __shared__ std::uint32_t found;
  const std::uint64_t* keys = best.keys + std::size_t{blockIdx.x} * best.stride;
  const std::uint32_t count = best.counts[blockIdx.x];
  if (count <= held) {
    for (std::uint32_t i = threadIdx.x; i < count; i += kBlock) own[i] = keys[i];
    keys = own;
  }
  for (std::uint32_t i = threadIdx.x; i < room; i += kBlock) sorted[i] = kNoKey;
  if (threadIdx.x == 0) found = 0;
  const std::uint64_t limit = kth.find([keys](std::uint32_t i) { return keys[i]; }, count, order.wanted);
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < count; i += kBlock) {
    if (keys[i] > limit) continue;
    const std::uint32_t slot = atomicAdd(&found, 1u);
    if (slot < room) sorted[slot] = keys[i];
  }
  // Bitonic.
  for (std::uint32_t size = 2; size <= room; size *= 2) {
    for (std::uint32_t step = size / 2; step != 0; step /= 2) {
      __syncthreads();
      for (std::uint32_t i = threadIdx.x; i < room / 2; i += kBlock) {
        const std::uint32_t low = 2 * i - (i & (step - 1)), high = low + step;
        const std::uint64_t a = sorted[low], b = sorted[high];
        if ((a > b) != ((low & size) != 0)) {
          sorted[low] = b;
          sorted[high] = a;
        }
      }
    }
  }
  __syncthreads();
  std::uint32_t probes = order.wanted;
  if (order.by_contrast.known()) {
    const std::uint64_t eighth = sorted[compute::ContrastSteps::kPlace];
    if (eighth != kNoKey) probes = order.by_contrast.probes(score_of(sorted[0]), score_of(eighth));
    if (threadIdx.x == 0) {
      order.eighths[blockIdx.x] = eighth == kNoKey ? kNoList : static_cast<std::uint32_t>(eighth);
    }
  }
  for (std::uint32_t i = threadIdx.x; i < order.wanted; i += kBlock) {
    const std::uint64_t key = sorted[i];
    order.lists[std::size_t{blockIdx.x} * order.wanted + i] =
        key == kNoKey || i >= probes ? kNoList : static_cast<std::uint32_t>(key);
  }
}

// One thread block per query.
__global__ void __launch_bounds__(kThreads)
    lower_limits_kernel(RabitqBest best, std::uint32_t wanted) {
  __shared__ KthKey<kThreads> kth;
  const std::uint64_t* keys = best.keys + std::size_t{blockIdx.x} * best.stride;
  const std::uint64_t limit = kth.find([keys](std::uint32_t i) { return keys[i]; },
                                       min(best.counts[blockIdx.x], best.stride), wanted);
  if (threadIdx.x == 0) best.limits[blockIdx.x] = min(best.limits[blockIdx.x], limit);
}

__global__ void __launch_bounds__(kThreads)
    find_lost_kernel(RabitqBest best, std::uint32_t queries, std::uint32_t wanted,
                     std::uint32_t* lost) {
  const std::uint32_t query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= queries) return;
  const std::uint32_t count = best.counts[query];
  // Without a limit all was found that there is.
  const bool too_few = count < wanted && best.limits[query] != kNoKey;
  if (count <= best.stride && !too_few) return;
  if (too_few) best.limits[query] = kNoKey;
  best.counts[query] = 0;
  lost[1 + atomicAdd(lost, 1u)] = query;
}

}  // namespace

void launch_list_distances(const RabitqScan& scan, cudaStream_t stream) {
  const unsigned blocks = (scan.shape.lists * 16 + kThreads - 1) / kThreads;
  distances_kernel<<<dim3(blocks, scan.count), kThreads, 0, stream>>>(scan);
  check_launch("comparing centroids");
}

std::uint32_t room_to_order(std::uint32_t wanted) {
  return wanted > kMostWanted ? std::bit_ceil(wanted) : 0;
}

void launch_order_lists(const RabitqBest& best, std::uint32_t queries, const OrderedLists& order,
                        std::size_t shared_memory, cudaStream_t stream) {
  const bool aside = room_to_order(order.wanted) != 0;
  const std::uint32_t room = std::bit_ceil(order.wanted), own = aside ? 0 : room;
  const std::uint32_t held =
      (own + std::size_t{best.stride}) * sizeof(std::uint64_t) + kOwnShared <= shared_memory
          ? best.stride
          : 0;
  const std::size_t bytes = (std::size_t{own} + held) * sizeof(std::uint64_t);
  const auto launch = [&](auto* kernel, unsigned threads) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "choosing lists");
    kernel<<<queries, threads, bytes, stream>>>(best, order, room, held);
  };
  if (aside) {
    launch(order_kernel<kManyThreads, true>, kManyThreads);
  } else if (queries <= kLonely) {
    launch(order_kernel<kManyThreads, false>, kManyThreads);
  } else {
    launch(order_kernel<kThreads, false>, kThreads);
  }
  check_launch("choosing lists");
}

void launch_lower_limits(const RabitqBest& best, std::uint32_t queries, std::uint32_t wanted,
                         cudaStream_t stream) {
  lower_limits_kernel<<<queries, kThreads, 0, stream>>>(best, wanted);
  check_launch("scanning lists");
}

void launch_find_lost(const RabitqBest& best, std::uint32_t queries, std::uint32_t wanted,
                      std::uint32_t* lost, cudaStream_t stream) {
  check(cudaMemsetAsync(lost, 0, sizeof *lost, stream), "scanning lists");
  find_lost_kernel<<<(queries + kThreads - 1) / kThreads, kThreads, 0, stream>>>(best, queries,
                                                                                 wanted, lost);
  check_launch("scanning lists");
}

}  // namespace warplite::gpu
