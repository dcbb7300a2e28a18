// A bound of the k-th least of many keys, found by one thread block with one histogram: the upper
// edge of the bin in which the k-th lies. Bins are even between the least and the greatest key,
// so the edge is close wherever keys are not crowded, which they are not at the near end.
#pragma once

#include <cstdint>

#include "gpu/select/block_sum.cuh"

namespace warplite::gpu {

template <unsigned kThreads, unsigned kBins>
struct KthEdge {
  static constexpr unsigned kLanes = 32;
  static constexpr unsigned kBinsPerThread = kBins / kThreads;
  static constexpr unsigned kAll = 0xffffffffu;

  std::uint32_t bins[kBins];
  BlockSums<kThreads> sums;
  std::uint32_t lowest, highest, counted, edge;

  // Called by all threads with their keys; keys from `none` on do not count. Returns a key that at
  // least k of them do not exceed, or none − 1 when there are fewer.
  template <unsigned kKeys>
  __device__ std::uint32_t find(const std::uint32_t (&keys)[kKeys], std::uint32_t none,
                                std::uint32_t k) {
    measure(keys, none);
    if (counted < k) return none - 1;
    const int width = 32 - __clz(static_cast<int>((highest - lowest) | 1));
    const int shift = max(0, width - kBinBits);
    count(keys, none, shift);
    return search(k, shift);
  }

 private:
  static constexpr int bits(unsigned bins) { return bins <= 1 ? 0 : 1 + bits(bins / 2); }
  static constexpr int kBinBits = bits(kBins);

  template <unsigned kKeys>
  __device__ void measure(const std::uint32_t (&keys)[kKeys], std::uint32_t none) {
    if (threadIdx.x == 0) {
      lowest = ~0u;
      highest = counted = 0;
      edge = none - 1;
    }
    for (unsigned i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
    __syncthreads();
    std::uint32_t low = ~0u, high = 0, number = 0;
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      if (keys[i] >= none) continue;
      low = min(low, keys[i]);
      high = max(high, keys[i]);
      ++number;
    }
    for (unsigned lanes = kLanes / 2; lanes != 0; lanes /= 2) {
      low = min(low, __shfl_xor_sync(kAll, low, lanes));
      high = max(high, __shfl_xor_sync(kAll, high, lanes));
      number += __shfl_xor_sync(kAll, number, lanes);
    }
    if (threadIdx.x % kLanes == 0 && number != 0) {
      atomicMin(&lowest, low);
      atomicMax(&highest, high);
      atomicAdd(&counted, number);
    }
    __syncthreads();
  }

  template <unsigned kKeys>
  __device__ void count(const std::uint32_t (&keys)[kKeys], std::uint32_t none, int shift) {
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      if (keys[i] < none) atomicAdd(&bins[(keys[i] - lowest) >> shift], 1u);
    }
    __syncthreads();
  }

  __device__ std::uint32_t search(std::uint32_t k, int shift) {
    std::uint32_t own = 0;
#pragma unroll
    for (unsigned i = 0; i < kBinsPerThread; ++i) own += bins[threadIdx.x * kBinsPerThread + i];
    unsigned all = 0;
    std::uint32_t before = exclusive_sum<kThreads>(own, sums, all);
    if (before < k && before + own >= k) {
      unsigned bin = threadIdx.x * kBinsPerThread;
      while (before + bins[bin] < k) before += bins[bin++];
      const std::uint64_t end = lowest + ((std::uint64_t{bin} + 1) << shift) - 1;
      edge = static_cast<std::uint32_t>(min(end, std::uint64_t{highest}));
    }
    __syncthreads();
    return edge;
  }
};

}  // namespace warplite::gpu
