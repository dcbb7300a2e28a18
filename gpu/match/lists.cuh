// The slices of a tile's postings that a query's items meet, and their postings, shared out to the
// warps of a thread block.
#pragma once

#include <cstdint>

#include "gpu/match/match.h"
#include "gpu/select/block_sum.cuh"

namespace warplite::gpu {

// A warp takes postings in turns: so many pairs a lane, each pair next to the next lane's. Rows of
// a long list are then near each other, in different banks of shared memory.
inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kPairs = 4;
inline constexpr std::uint32_t kTurnPairs = kPairs * kLanes;
// Lists that are shorter are added by the thread that finds them, 16 bytes at a time.
inline constexpr std::uint32_t kShortList = 16;
inline constexpr std::uint32_t kVectorPostings = 8;

__device__ inline std::uint32_t warp_sum(std::uint32_t value) {
  for (unsigned step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(~0u, value, static_cast<int>(step));
  }
  return value;
}

// Lists of up to kThreads items, in shared memory.
template <unsigned kThreads>
struct MatchLists {
  static constexpr unsigned kWarps = kThreads / kLanes;
  // Sums that reach it may be anything above.
  static constexpr std::uint32_t kMany = std::uint32_t{1} << 26;

  std::uint32_t begins[kThreads], ends[kThreads], weights[kThreads];
  std::uint32_t first_turns[kThreads];  // turns of the lists before
  std::uint32_t turns;
  BlockSums<kThreads> sums;
  std::uint32_t most;

  // Returns what no row counts more than in the items, ~0 when that is much. Calls add() as
  // for_postings() does, for short lists. Called by all threads, like all that follows; what a call
  // before left may be overwritten.
  // REQUIRES: 0 < count ≤ kThreads
  template <typename Add>
  __device__ std::uint32_t find(const MatchTileView& tile, const compute::MatchItem* items,
                                std::uint32_t count, const Add& add) {
    if (threadIdx.x == 0) most = 0;
    if (threadIdx.x >= count) begins[threadIdx.x] = ends[threadIdx.x] = 0;
    __syncthreads();
    // Lanes that there are more of than items look for one together.
    unsigned group = kLanes;
    while (group > 1 && count * group > kThreads) group /= 2;
    const unsigned own = threadIdx.x / group;
    find_item(tile, items, own < count ? own : count, count, group, add);
    __syncthreads();
    const std::uint32_t begin = begins[threadIdx.x], end = ends[threadIdx.x];
    const std::uint32_t pairs = begin == end ? 0 : end / 2 + end % 2 - begin / 2;
    unsigned total = 0;
    first_turns[threadIdx.x] =
        exclusive_sum<kThreads>((pairs + kTurnPairs - 1) / kTurnPairs, sums, total);
    if (threadIdx.x == 0) turns = total;
    __syncthreads();
    return most < kMany ? most : ~0u;
  }

  // Calls add(row, weight, whether it is to be added) for all postings of the other lists; of `row`
  // the lower 16 bits count.
  template <typename Add>
  __device__ void for_postings(const std::uint16_t* postings, const Add& add) const {
    const auto* const pairs = reinterpret_cast<const std::uint32_t*>(postings);
    const std::uint32_t each = (turns + kWarps - 1) / kWarps;
    std::uint32_t turn = threadIdx.x / kLanes * each;
    const std::uint32_t end = min(turn + each, turns);
    if (turn >= end) return;
    for (unsigned list = list_of(turn); turn < end; ++list) {
      const std::uint32_t first = first_turns[list];
      const std::uint32_t stop = min(end, list + 1 < kThreads ? first_turns[list + 1] : turns);
      if (turn >= stop) continue;
      const Slice slice{begins[list], ends[list], weights[list]};
      std::uint32_t pair = slice.begin / 2 + (turn - first) * kTurnPairs;
#pragma unroll 2
      for (; turn < stop; ++turn, pair += kTurnPairs) {
        if (pair * 2 >= slice.begin && (pair + kTurnPairs) * 2 <= slice.end) {
          add_all(pairs + pair, slice.weight, add);
        } else {
          add_some(pairs, pair, slice, add);
        }
      }
    }
  }

 private:
  struct Slice {
    std::uint32_t begin, end, weight;
  };

  template <typename Add>
  __device__ void find_item(const MatchTileView& tile, const compute::MatchItem* items,
                            unsigned own, std::uint32_t count, unsigned group, const Add& add) {
    const bool some = own < count;
    const compute::MatchItem item = some ? items[own] : compute::MatchItem{1, 0, 0};
    const std::uint32_t keywords = item.low <= item.high && item.weight != 0 ? tile.keywords : 0;
    const std::uint32_t first = bound(tile.keys, 0, keywords, item.low, false, group);
    // A single keyword is found by a look at where it would be.
    const bool single = item.low == item.high;
    std::uint32_t last = bound(tile.keys, first, single ? first : keywords, item.high, true, group);
    std::uint32_t counted = 0;
    if (some && threadIdx.x % group == 0) {
      if (single && first < keywords && tile.keys[first] == item.low) last = first + 1;
      counted = static_cast<std::uint32_t>(
          min(static_cast<unsigned long long>(item.weight) * (last - first),
              static_cast<unsigned long long>(kMany)));
      take(tile, own, {tile.begins[first], tile.begins[last], item.weight}, add);
    }
    counted = warp_sum(counted);
    if (threadIdx.x % kLanes == 0) atomicAdd(&most, min(counted, kMany));
  }

  template <typename Add>
  __device__ void take(const MatchTileView& tile, unsigned item, const Slice& slice,
                       const Add& add) {
    const bool brief = slice.end - slice.begin <= kShortList;
    if (brief) add_short(tile.postings, slice, add);
    begins[item] = slice.begin;
    ends[item] = brief ? slice.begin : slice.end;
    weights[item] = slice.weight;
  }

  template <typename Add>
  __device__ static void add_short(const std::uint16_t* postings, const Slice& slice,
                                   const Add& add) {
    for (std::uint32_t at = slice.begin / kVectorPostings * kVectorPostings; at < slice.end;
         at += kVectorPostings) {
      const uint4 vector = __ldg(reinterpret_cast<const uint4*>(postings + at));
      const std::uint32_t rows[kVectorPostings / 2] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
      for (unsigned i = 0; i < kVectorPostings; ++i) {
        add(rows[i / 2] >> (i % 2 * 16), slice.weight,
            at + i >= slice.begin && at + i < slice.end);
      }
    }
  }

  // The first of keys[low … high − 1] that is not below the key (`beyond`: above it), or `high`: by
  // `group` lanes, each with a key to compare. Called by whole warps.
  __device__ static std::uint32_t bound(const compute::Keyword* keys, std::uint32_t low,
                                        std::uint32_t high, compute::Keyword key, bool beyond,
                                        unsigned group) {
    const unsigned lane = threadIdx.x % kLanes, own = lane % group;
    const unsigned mask = group == kLanes ? ~0u : (1u << group) - 1;
    const float share = 1.0f / static_cast<float>(group + 1);
    while (__any_sync(~0u, low < high)) {
      const std::uint32_t step =
          max(1u, static_cast<std::uint32_t>(static_cast<float>(high - low) * share));
      const std::uint32_t at = low + step * (own + 1) - 1;
      bool below = false;
      if (at < high) {
        const compute::Keyword there = __ldg(keys + at);
        below = there < key || (beyond && there == key);
      }
      const unsigned votes = __ballot_sync(~0u, below) >> (lane - own) & mask;
      const auto passed = static_cast<unsigned>(__popc(votes));
      low += step * passed;
      if (passed < group) high = min(high, low + step - 1);
    }
    return high;
  }

  // Adds the pairs of a turn, when all of them lie in the slice.
  template <typename Add>
  __device__ static void add_all(const std::uint32_t* pairs, std::uint32_t weight,
                                 const Add& add) {
    std::uint32_t rows[kPairs];
#pragma unroll
    for (unsigned i = 0; i < kPairs; ++i) {
      rows[i] = __ldg(pairs + threadIdx.x % kLanes + i * kLanes);
    }
#pragma unroll
    for (unsigned i = 0; i < kPairs; ++i) {
      add(rows[i], weight, true);
      add(rows[i] >> 16, weight, true);
    }
  }

  template <typename Add>
  __device__ static void add_some(const std::uint32_t* pairs, std::uint32_t pair,
                                  const Slice& slice, const Add& add) {
    for (unsigned i = 0; i < kPairs && pair * 2 < slice.end; ++i, pair += kLanes) {
      const std::uint32_t own = pair + threadIdx.x % kLanes;
      const std::uint32_t rows = own * 2 < slice.end ? __ldg(pairs + own) : 0;
      add(rows, slice.weight, own * 2 >= slice.begin && own * 2 < slice.end);
      add(rows >> 16, slice.weight, own * 2 + 1 < slice.end);
    }
  }

  // The last list whose turns begin at `turn` or before.
  __device__ unsigned list_of(std::uint32_t turn) const {
    unsigned low = 0, high = kThreads;
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (first_turns[middle] <= turn ? low : high) = middle;
    }
    return low;
  }
};

}  // namespace warplite::gpu
