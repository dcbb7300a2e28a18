// A bound of the k-th least of many keys, found by one thread block with a histogram: the upper edge of the
// bin in which the k-th lies. Bins are even between the least and the greatest key. Where a bin holds many
// more than are wanted, as where the numbers that keys stand for have both signs and most keys between them
// stand for numbers next to zero, that bin is divided in its turn.
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
  std::uint32_t lowest, highest, counted;
  // The bin of the k-th: its keys, how many there are, and how many there are below it.
  std::uint32_t first, edge, inside, before;

  // Called by all threads with their keys; keys from `none` on do not count. Returns a key that at
  // least k of them do not exceed, and few more, or none − 1 when there are fewer.
  template <unsigned kKeys>
  __device__ std::uint32_t find(const std::uint32_t (&keys)[kKeys], std::uint32_t none,
                                std::uint32_t k) {
    measure(keys, none);
    if (k == 0 || counted < k) return none - 1;
    const std::uint32_t few = kFew + k / 8;
    while (true) {
      const int width = 32 - __clz(static_cast<int>((highest - lowest) | 1));
      const int shift = max(0, width - kBinBits);
      count(keys, shift);
      search(k, shift);
      if (shift == 0 || before + inside - k <= few) return edge;
      k -= before;
      divide();
    }
  }

 private:
  static constexpr int bits(unsigned bins) { return bins <= 1 ? 0 : 1 + bits(bins / 2); }
  static constexpr int kBinBits = bits(kBins);
  static constexpr std::uint32_t kFew = 16;  // beyond the k-th, that are not worth another histogram

  template <unsigned kKeys>
  __device__ void measure(const std::uint32_t (&keys)[kKeys], std::uint32_t none) {
    if (threadIdx.x == 0) {
      lowest = ~0u;
      highest = counted = 0;
    }
    clear();
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

  __device__ void clear() {
    for (unsigned i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
  }

  template <unsigned kKeys>
  __device__ void count(const std::uint32_t (&keys)[kKeys], int shift) {
    const std::uint32_t low = lowest, span = highest - lowest;
#pragma unroll
    for (unsigned i = 0; i < kKeys; ++i) {
      if (keys[i] - low <= span) atomicAdd(&bins[(keys[i] - low) >> shift], 1u);
    }
    __syncthreads();
  }

  // REQUIRES: at least k keys were counted, k > 0.
  __device__ void search(std::uint32_t k, int shift) {
    std::uint32_t own = 0;
#pragma unroll
    for (unsigned i = 0; i < kBinsPerThread; ++i) own += bins[threadIdx.x * kBinsPerThread + i];
    unsigned all = 0;
    std::uint32_t below = exclusive_sum<kThreads>(own, sums, all);
    if (below < k && below + own >= k) {
      unsigned bin = threadIdx.x * kBinsPerThread;
      while (below + bins[bin] < k) below += bins[bin++];
      first = lowest + (bin << shift);
      edge = min(first + ((1u << shift) - 1), highest);
      inside = bins[bin];
      before = below;
    }
    __syncthreads();
  }

  __device__ void divide() {
    __syncthreads();
    if (threadIdx.x == 0) {
      lowest = first;
      highest = edge;
    }
    clear();
    __syncthreads();
  }
};

}  // namespace warplite::gpu
