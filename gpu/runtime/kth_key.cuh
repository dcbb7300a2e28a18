// The k-th least of many 64-bit keys, by one thread block: eight bits at a time
// from the top, as radix selection does.
#pragma once

#include <cstdint>

namespace warplite::gpu {

template <unsigned kThreads>
struct KthKey {
  static constexpr unsigned kBins = 256;
  static_assert(kThreads >= kBins);

  std::uint32_t bins[kBins];
  std::uint32_t chosen, before, inside;

  // Called by all threads. Returns a key that k keys do not exceed and that the k-th of them does
  // not lie below: the k-th key, its lower bits perhaps set where that makes no difference. All
  // ones when there are fewer than k. `key_of(i)` is the i-th of `count` keys. REQUIRES: k > 0.
  template <typename KeyOf>
  __device__ std::uint64_t find(const KeyOf& key_of, std::uint32_t count, std::uint32_t k) {
    if (count < k) return ~std::uint64_t{0};
    std::uint64_t prefix = 0;
    for (int shift = 56;; shift -= 8) {
      tally(key_of, count, prefix, shift);
      choose(k);
      prefix |= std::uint64_t{chosen} << shift;
      k -= before;
      const bool whole = inside == k;  // everything in the bin belongs to the k
      __syncthreads();
      if (shift == 0) return prefix;
      if (whole) return prefix | ((std::uint64_t{1} << shift) - 1);
    }
  }

 private:
  template <typename KeyOf>
  __device__ void tally(const KeyOf& key_of, std::uint32_t count, std::uint64_t prefix,
                        int shift) {
    if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
    __syncthreads();
    const std::uint64_t above = shift == 56 ? 0 : ~std::uint64_t{0} << (shift + 8);
    for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
      const std::uint64_t key = key_of(i);
      if ((key & above) == prefix) atomicAdd(&bins[key >> shift & 255u], 1u);
    }
    __syncthreads();
  }

  // The first warp: the bin in which the k-th lies; eight bins a lane.
  __device__ void choose(std::uint32_t k) {
    if (threadIdx.x < 32) {
      constexpr unsigned kEach = kBins / 32;
      std::uint32_t own = 0;
      for (unsigned i = 0; i < kEach; ++i) own += bins[threadIdx.x * kEach + i];
      std::uint32_t sum = own;
      for (unsigned step = 1; step < 32; step *= 2) {
        const std::uint32_t below = __shfl_up_sync(0xffffffffu, sum, step);
        if (threadIdx.x >= step) sum += below;
      }
      std::uint32_t at = sum - own;
      if (at < k && k <= sum) {
        unsigned bin = threadIdx.x * kEach;
        while (at + bins[bin] < k) at += bins[bin++];
        chosen = bin;
        before = at;
        inside = bins[bin];
      }
    }
    __syncthreads();
  }
};

}  // namespace warplite::gpu
