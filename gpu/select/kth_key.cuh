// The k-th least of many keys, unsigned numbers, by one thread block: eight bits at a time from the
// top, as radix selection does.
#pragma once

#include <cstdint>
#include <cub/warp/warp_scan.cuh>

namespace warplite::gpu {

template <unsigned kThreads, typename Key = std::uint64_t>
struct KthKey {
  static constexpr unsigned kBins = 256, kAtOnce = 4;
  static constexpr int kHighest = 8 * sizeof(Key) - 8;
  static_assert(kThreads >= kBins);
  using Scan = cub::WarpScan<std::uint32_t>;

  std::uint32_t bins[kBins];
  std::uint32_t chosen, before, inside;
  typename Scan::TempStorage scan;

  // Called by all threads. Returns a key that k keys do not exceed and that the k-th of them does
  // not lie below: the k-th key, its lower bits perhaps set where that makes no difference. All
  // ones when there are fewer than k. `key_of(i)` is the i-th of `count` keys. REQUIRES: k > 0.
  template <typename KeyOf>
  __device__ Key find(const KeyOf& key_of, std::uint32_t count, std::uint32_t k) {
    if (count < k) return ~Key{0};
    Key prefix = 0;
    for (int shift = kHighest;; shift -= 8) {
      tally(key_of, count, prefix, shift);
      choose(k);
      prefix |= Key{chosen} << shift;
      k -= before;
      const bool whole = inside == k;  // everything in the bin belongs to the k
      __syncthreads();
      if (shift == 0) return prefix;
      if (whole) return prefix | ((Key{1} << shift) - 1);
    }
  }

 private:
  template <typename KeyOf>
  __device__ void tally(const KeyOf& key_of, std::uint32_t count, Key prefix, int shift) {
    if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
    __syncthreads();
    const Key above = shift == kHighest ? 0 : ~Key{0} << (shift + 8);
    // Keys are read a few at a time, so that a thread does not wait for each of them.
    for (std::uint32_t first = threadIdx.x; first < count; first += kAtOnce * kThreads) {
      Key keys[kAtOnce];
#pragma unroll
      for (unsigned n = 0; n < kAtOnce; ++n) {
        const std::uint32_t i = first + n * kThreads;
        if (i < count) keys[n] = key_of(i);
      }
#pragma unroll
      for (unsigned n = 0; n < kAtOnce; ++n) {
        if (first + n * kThreads < count && (keys[n] & above) == prefix) {
          atomicAdd(&bins[keys[n] >> shift & 255u], 1u);
        }
      }
    }
    __syncthreads();
  }

  // The first warp: the bin in which the k-th lies; eight bins a lane.
  __device__ void choose(std::uint32_t k) {
    if (threadIdx.x < 32) {
      constexpr unsigned kEach = kBins / 32;
      std::uint32_t own = 0;
      for (unsigned i = 0; i < kEach; ++i) own += bins[threadIdx.x * kEach + i];
      std::uint32_t at = 0;
      Scan(scan).ExclusiveSum(own, at);
      if (at < k && k <= at + own) {
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
