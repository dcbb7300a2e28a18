// Scores of coded rows, one lane a row, and the keys that order them: score above, ordinal below.
#pragma once

#include <cstdint>

#include "gpu/ivf/ivf.h"
#include "gpu/rows/row_score.cuh"
#include "gpu/select/ordered_key.cuh"

namespace warplite::gpu {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr std::uint64_t kNoKey = ~std::uint64_t{0};

__device__ inline std::uint64_t make_key(std::uint32_t score, std::uint32_t ordinal) {
  return std::uint64_t{score} << 32 | ordinal;
}

__device__ inline std::uint64_t least_of_warp(std::uint64_t key) {
  for (unsigned step = kWarpLanes / 2; step != 0; step /= 2) {
    const std::uint64_t other = __shfl_xor_sync(kWholeWarp, key, step);
    key = other < key ? other : key;
  }
  return key;
}

__device__ inline std::uint32_t least_of_warp(std::uint32_t key) {
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(kWholeWarp, key);
#else
  for (unsigned step = kWarpLanes / 2; step != 0; step /= 2) {
    key = min(key, __shfl_xor_sync(kWholeWarp, key, step));
  }
  return key;
#endif
}

// Returns the key of a coded row, from the sum of its table entries. REQUIRES: the same order as
// compute/ivf.h.
__device__ inline std::uint32_t score_key(float step, std::uint32_t sum, float bias, float a) {
  const float score =
      __fadd_rn(__fadd_rn(__fmul_rn(step, static_cast<float>(sum)), bias), a);
  // A score that is not a number counts as infinitely far; −0 is 0.
  return ordered_key(score != score ? __int_as_float(0x7f800000) : score + 0.0f);
}

// A group of kGroupRows rows of one list of one run, a lane each.
struct Group {
  const IvfRunView* run;
  std::uint32_t position;  // of this lane's row
  std::uint32_t end;       // of the list

  __device__ bool there() const { return position < end; }
  __device__ std::uint32_t ordinal() const {
    const std::uint32_t own = there() ? run->ordinals[position] : compute::kNoOrdinal;
    return own == compute::kNoOrdinal ? own : run->first_ordinal + own;
  }
};

// Calls visit(group, number) for this warp's share of a list's groups in all runs; `number` counts
// them from 0 in the order of probes_kernel.
template <typename Visit>
__device__ void for_groups(const IvfSearchView& search, std::uint32_t list, unsigned warp,
                           unsigned warps, const Visit& visit) {
  std::uint32_t before = 0;
  for (std::uint32_t r = 0; r < search.run_count; ++r) {
    const IvfRunView& run = search.runs[r];
    const std::uint32_t begin = run.begins[list], end = run.begins[list + 1];
    const std::uint32_t groups = (end - begin + kGroupRows - 1) / kGroupRows;
    for (std::uint32_t g = warp; g < groups; g += warps) {
      visit(Group{&run, begin + g * kGroupRows + threadIdx.x % kWarpLanes, end}, before + g);
    }
    before += groups;
  }
}

// The `number`-th group of a list.
__device__ inline Group group_at(const IvfSearchView& search, std::uint32_t list,
                                 std::uint32_t number) {
  std::uint32_t r = 0;
  for (;; ++r) {
    const std::uint32_t* begins = search.runs[r].begins + list;
    const std::uint32_t groups = (begins[1] - begins[0] + kGroupRows - 1) / kGroupRows;
    if (number < groups) break;
    number -= groups;
  }
  const IvfRunView& run = search.runs[r];
  return {&run, run.begins[list] + number * kGroupRows + threadIdx.x % kWarpLanes,
          run.begins[list + 1]};
}

// Calls add(s, code) for every sub-space of a row.
template <unsigned kBits, typename Add>
__device__ void for_codes(const compute::IvfShape& shape, const Group& group, const Add& add) {
  if (!group.there()) return;
  const std::uint32_t m = shape.m;
  if constexpr (kBits == 8) {
    const std::uint32_t stride = (m + 3) / 4 * 4;
    const std::uint8_t* codes = group.run->codes + std::size_t{group.position} * stride;
    std::uint32_t s = 0;
    if (stride % 16 == 0) {
      for (; s + 16 <= m; s += 16) {
        const uint4 four = *reinterpret_cast<const uint4*>(codes + s);
        const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (unsigned i = 0; i < 16; ++i) add(s + i, words[i / 4] >> (i % 4 * 8) & 255u);
      }
    }
    for (; s < m; s += 4) {
      const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(codes + s);
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        if (s + i < m) add(s + i, word >> (i * 8) & 255u);
      }
    }
  } else {
    const std::uint32_t lane = group.position % kGroupRows;
    const std::uint8_t* codes =
        group.run->codes + std::size_t{group.position / kGroupRows} * m * 16 + lane % 16;
    const unsigned shift = lane / 16 * 4;
    for (std::uint32_t s = 0; s < m; ++s) add(s, codes[s * 16] >> shift & 15u);
  }
}

// Canonical distances of the group's rows to kQueries queries, as keys whose scores are rounded
// down: eight rows at a time, of which the first lane of four has the result. visit(query, key).
template <ElementType kType, Distance kDistance, int kQueries, typename Visit>
__device__ void for_distances(const IvfSearchView& search, const QueryTerms& terms,
                              const Group& group, const Visit& visit) {
  const std::uint32_t own = group.ordinal();
  const unsigned lane = threadIdx.x % kWarpLanes;
  for (unsigned first = 0; first < kGroupRows; first += kWarpLanes / kLanesPerRow) {
    const std::uint32_t ordinal = __shfl_sync(kWholeWarp, own, first + lane / kLanesPerRow);
    bool active = ordinal != compute::kNoOrdinal;
    if (active && !search.all_live) active = lives(search.table, ordinal);
    double found[kQueries];
    RowScore<kType, kDistance, kQueries>::run(
        search.table, terms, active ? row_address(search.table, ordinal) : nullptr, active, found);
    const bool mine = active && lane % kLanesPerRow == 0;
    for (int q = 0; q < kQueries; ++q) {
      visit(q, mine ? make_key(ordered_key(__double2float_rd(found[q]) + 0.0f), ordinal) : kNoKey);
    }
  }
}

}  // namespace warplite::gpu
