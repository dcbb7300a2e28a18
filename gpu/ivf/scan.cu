// The first pass of a search: every row of every probed list, for the least of each group.
#include "gpu/ivf/score.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpLanes;
constexpr unsigned kQueries = kScanQueries;  // compared at once

// One list, and some of the pairs that probe it.
struct Unit {
  std::uint32_t list, first_pair, pairs;
};

__device__ bool find_unit(const IvfSearchView& search, std::uint32_t number, Unit& unit) {
  if (search.direct) {
    unit = {search.probes.lists[number], number, 1};
    return unit.list != kNoList;
  }
  const std::uint32_t* first_units = search.pairs.first_units;
  std::uint32_t low = 0, high = search.shape.lists;
  if (number >= first_units[high]) return false;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (first_units[middle] <= number ? low : high) = middle;
  }
  const std::uint32_t first =
      search.pairs.first_pairs[low] + (number - first_units[low]) * kUnitQueries;
  unit = {low, first, min(search.pairs.first_pairs[low + 1] - first, kUnitQueries)};
  return true;
}

// What is compared at once. It lies in shared memory.
struct Comparison {
  std::uint32_t query[kQueries];
  float a[kQueries], step[kQueries];
  std::uint64_t* least[kQueries];

  // The first kQueries threads fill it; those beyond `count` repeat the last pair.
  __device__ void fill(const IvfSearchView& search, std::uint32_t first_pair, unsigned count) {
    if (threadIdx.x >= kQueries) return;
    const unsigned i = threadIdx.x;
    const uint2 pair = search.pairs.pairs[first_pair + min(i, count - 1)];
    const std::uint64_t at = std::uint64_t{pair.x} * search.probes.count + pair.y;
    query[i] = pair.x;
    least[i] = search.least + std::size_t{pair.x} * search.group_stride +
               search.probes.first_groups[at + pair.x];
    if (search.shape.m == 0) return;
    a[i] = __fadd_rn(search.probes.distances[at], search.tables.offsets[pair.x]);
    step[i] = search.tables.steps[pair.x];
  }
};

// Entries of four queries side by side: one look-up serves them all.
__device__ void load_tables(const IvfSearchView& search, const Comparison& now, std::uint32_t* out) {
  const std::uint32_t entries = search.shape.m * search.shape.codewords();
  const auto words = [&](unsigned q) {
    return reinterpret_cast<const std::uint32_t*>(search.tables.entries +
                                                  std::size_t{now.query[q]} * entries);
  };
  const std::uint32_t *w0 = words(0), *w1 = words(1), *w2 = words(2), *w3 = words(3);
  for (std::uint32_t i = threadIdx.x; i < entries / 4; i += kThreads) {
    const std::uint32_t a = w0[i], b = w1[i], c = w2[i], d = w3[i];
    const std::uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    const std::uint32_t ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);
    reinterpret_cast<uint4*>(out)[i] = {__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632),
                                        __byte_perm(ab2, cd2, 0x5410),
                                        __byte_perm(ab2, cd2, 0x7632)};
  }
}

// Sums of four queries' entries, 16 bits each: m is at most 257.
template <unsigned kBits>
__device__ void scan_group(const IvfSearchView& search, const Comparison& now, unsigned queries,
                           const std::uint32_t* tables, const Group& group,
                           std::uint32_t number) {
  std::uint32_t even = 0, odd = 0;  // queries 0 and 2; 1 and 3
  for_codes<kBits>(search.shape, group, [&](std::uint32_t s, std::uint32_t code) {
    const std::uint32_t entry = tables[(s << kBits) + code];
    even += entry & 0x00ff00ffu;
    odd += entry >> 8 & 0x00ff00ffu;
  });
  bool active = group.there();
  if (kBits == 4 || !search.all_live) {
    const std::uint32_t ordinal = group.ordinal();
    active = ordinal != compute::kNoOrdinal && (search.all_live || lives(search.table, ordinal));
  }
  const float bias = active ? group.run->bias[group.position] : 0;
  const std::uint32_t sums[kQueries] = {even & 0xffff, odd & 0xffff, even >> 16, odd >> 16};
#pragma unroll
  for (unsigned q = 0; q < kQueries; ++q) {
    const std::uint32_t key = active ? score_key(now.step[q], sums[q], bias, now.a[q]) : ~0u;
    // The first lane with an equal score has the least ordinal.
    const std::uint32_t least = least_of_warp(key);
    const unsigned first = __ffs(static_cast<int>(__ballot_sync(kWholeWarp, key == least))) - 1;
    if (threadIdx.x % kWarpLanes != first || q >= queries) continue;
    now.least[q][number] = active ? make_key(key, group.ordinal()) : kNoKey;
  }
}

template <unsigned kBits>
__global__ void __launch_bounds__(kThreads)
    coded_kernel(const __grid_constant__ IvfSearchView search) {
  extern __shared__ std::uint32_t tables[];
  __shared__ Comparison now;
  Unit unit;
  if (!find_unit(search, blockIdx.x, unit)) return;
  for (unsigned base = 0; base < unit.pairs; base += kQueries) {
    const unsigned queries = min(unit.pairs - base, kQueries);
    __syncthreads();
    now.fill(search, unit.first_pair + base, queries);
    __syncthreads();
    load_tables(search, now, tables);
    __syncthreads();
    for_groups(search, unit.list, threadIdx.x / kWarpLanes, kWarps,
               [&](const Group& group, std::uint32_t number) {
                 scan_group<kBits>(search, now, queries, tables, group, number);
               });
  }
}

template <ElementType kType, Distance kDistance>
__global__ void __launch_bounds__(kThreads)
    whole_kernel(const __grid_constant__ IvfSearchView search) {
  __shared__ Comparison now;
  Unit unit;
  if (!find_unit(search, blockIdx.x, unit)) return;
  for (unsigned base = 0; base < unit.pairs; base += kQueries) {
    const unsigned queries = min(unit.pairs - base, kQueries);
    __syncthreads();
    now.fill(search, unit.first_pair + base, queries);
    __syncthreads();
    QueryTerms terms = search.terms;
    for (unsigned q = 0; q < kQueries; ++q) terms.slots[q] = now.query[q];
    for_groups(search, unit.list, threadIdx.x / kWarpLanes, kWarps,
               [&](const Group& group, std::uint32_t number) {
                 std::uint64_t least[kQueries];
                 for (unsigned q = 0; q < kQueries; ++q) least[q] = kNoKey;
                 for_distances<kType, kDistance, kQueries>(
                     search, terms, group, [&](int q, std::uint64_t key) {
                       least[q] = key < least[q] ? key : least[q];
                     });
                 for (unsigned q = 0; q < kQueries; ++q) {
                   const std::uint64_t key = least_of_warp(least[q]);
                   if (threadIdx.x % kWarpLanes == 0 && q < queries) now.least[q][number] = key;
                 }
               });
  }
}

// Squared distances of float32 vectors, in float32: a list's rows and a unit's queries pass through
// shared memory together, kSlab elements at a time, two groups of rows by four warps each; a lane
// has one row and four queries.
struct Slab {
  static constexpr unsigned kElements = 128, kStride = kElements + 4;  // floats; no bank conflicts
  static constexpr unsigned kGroups = 2, kRows = kGroups * kGroupRows;
  static constexpr unsigned kWarpQueries = kUnitQueries / (kWarps / kGroups);
  float rows[kRows][kStride];
  float queries[kUnitQueries][kElements];
  const float* row_at[kRows];  // null: not there, or not live
  std::uint32_t ordinals[kRows];
  std::uint32_t query[kUnitQueries];
  std::uint64_t* least[kUnitQueries];

  __device__ void fill_pairs(const IvfSearchView& search, const Unit& unit) {
    if (threadIdx.x >= kUnitQueries) return;
    const uint2 pair = search.pairs.pairs[unit.first_pair + min(threadIdx.x, unit.pairs - 1)];
    const std::uint64_t at = std::uint64_t{pair.x} * search.probes.count + pair.y;
    query[threadIdx.x] = pair.x;
    least[threadIdx.x] = search.least + std::size_t{pair.x} * search.group_stride +
                         search.probes.first_groups[at + pair.x];
  }
  // Finds where the rows of groups `first` and `first + 1` of a list of a run are.
  __device__ void find_rows(const IvfSearchView& search, const IvfRunView& run,
                            std::uint32_t begin, std::uint32_t end) {
    if (threadIdx.x >= kRows) return;
    const std::uint32_t position = begin + threadIdx.x;
    const float* at = nullptr;
    std::uint32_t ordinal = compute::kNoOrdinal;
    if (position < end) {
      ordinal = run.first_ordinal + run.ordinals[position];
      if (search.all_live || lives(search.table, ordinal)) {
        at = reinterpret_cast<const float*>(row_address(search.table, ordinal));
      }
    }
    row_at[threadIdx.x] = at;
    ordinals[threadIdx.x] = ordinal;
  }
  __device__ void load(const IvfSearchView& search, const float* all_queries,
                       std::uint32_t first) {
    const std::uint32_t dim = search.table.dim;
    for (unsigned i = threadIdx.x; i < (kRows + kUnitQueries) * (kElements / 4); i += kThreads) {
      const unsigned item = i / (kElements / 4), e = i % (kElements / 4) * 4;
      const bool is_row = item < kRows;
      const float* from = is_row ? row_at[item]
                                 : all_queries + std::size_t{query[item - kRows]} * dim;
      float4 four{0, 0, 0, 0};
      const std::uint32_t at = first + e;
      if (from != nullptr && at < dim) {
        if (search.table.aligned) {
          four = *reinterpret_cast<const float4*>(from + at);
        } else {
          four = {from[at], at + 1 < dim ? from[at + 1] : 0, at + 2 < dim ? from[at + 2] : 0,
                  at + 3 < dim ? from[at + 3] : 0};
        }
      }
      float* const to = is_row ? &rows[item][e] : &queries[item - kRows][e];
      *reinterpret_cast<float4*>(to) = four;
    }
  }
  __device__ void add(float (&sums)[kWarpQueries], std::uint32_t elements) const {
    const unsigned warp = threadIdx.x / kWarpLanes;
    const float* row = rows[warp % kGroups * kGroupRows + threadIdx.x % kWarpLanes];
    const unsigned first = warp / kGroups * kWarpQueries;
    for (std::uint32_t e = 0; e < elements; e += 4) {
      const float4 x = *reinterpret_cast<const float4*>(row + e);
#pragma unroll
      for (unsigned q = 0; q < kWarpQueries; ++q) {
        const float4 y = *reinterpret_cast<const float4*>(&queries[first + q][e]);
        const float a = x.x - y.x, b = x.y - y.y, c = x.z - y.z, d = x.w - y.w;
        sums[q] = fmaf(a, a, sums[q]);
        sums[q] = fmaf(b, b, sums[q]);
        sums[q] = fmaf(c, c, sums[q]);
        sums[q] = fmaf(d, d, sums[q]);
      }
    }
  }
  // The least of each group, for each query.
  __device__ void choose(const float (&sums)[kWarpQueries], unsigned queries_there,
                         std::uint32_t first_group, std::uint32_t groups) const {
    const unsigned warp = threadIdx.x / kWarpLanes, lane = threadIdx.x % kWarpLanes;
    const unsigned group = warp % kGroups, first = warp / kGroups * kWarpQueries;
    if (first_group + group >= groups) return;
    const unsigned slot = group * kGroupRows + lane;
    const bool active = row_at[slot] != nullptr;
#pragma unroll
    for (unsigned q = 0; q < kWarpQueries; ++q) {
      const std::uint32_t key = active ? ordered_key(sums[q]) : ~0u;
      const std::uint32_t least_key = least_of_warp(key);
      const unsigned winner =
          __ffs(static_cast<int>(__ballot_sync(kWholeWarp, key == least_key))) - 1;
      if (lane == winner && first + q < queries_there) {
        least[first + q][first_group + group] =
            active ? make_key(key, ordinals[slot]) : kNoKey;
      }
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const __grid_constant__ IvfSearchView search, const float* queries) {
  extern __shared__ __align__(16) std::byte memory[];
  Slab& slab = *reinterpret_cast<Slab*>(memory);
  Unit unit;
  if (!find_unit(search, blockIdx.x, unit)) return;
  slab.fill_pairs(search, unit);
  std::uint32_t before = 0;
  for (std::uint32_t r = 0; r < search.run_count; ++r) {
    const IvfRunView& run = search.runs[r];
    const std::uint32_t begin = run.begins[unit.list], end = run.begins[unit.list + 1];
    const std::uint32_t groups = (end - begin + kGroupRows - 1) / kGroupRows;
    for (std::uint32_t g = 0; g < groups; g += Slab::kGroups) {
      __syncthreads();
      slab.find_rows(search, run, begin + g * kGroupRows, end);
      float sums[Slab::kWarpQueries] = {};
      for (std::uint32_t first = 0; first < search.table.dim; first += Slab::kElements) {
        __syncthreads();
        slab.load(search, queries, first);
        __syncthreads();
        slab.add(sums, Slab::kElements);
      }
      slab.choose(sums, unit.pairs, before + g, before + groups);
    }
    before += groups;
  }
}

template <typename Kernel>
void allow_shared(Kernel* kernel, std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "scanning lists");
}

}  // namespace

std::size_t ivf_scan_shared(const compute::IvfShape& shape) {
  return std::size_t{shape.m} * shape.codewords() * sizeof(std::uint32_t);
}

// Sums of squares do not cancel: each of `dim` differences, squares and additions is off by one part
// in 2^24 at most, and as much again is left over.
float ivf_slack(const compute::IvfShape& shape, ElementType type, Distance distance) {
  const bool fast = shape.m == 0 && type == ElementType::kFloat32 && distance == Distance::kL2;
  return fast ? 3 * 0x1p-23f * static_cast<float>(shape.dim + 8) : 0;
}

void launch_ivf_scan(const IvfSearchView& search, cudaStream_t stream) {
  const unsigned units = most_units(search);
  const std::size_t bytes = ivf_scan_shared(search.shape);
  if (search.slack != 0) {
    allow_shared(squares_kernel, sizeof(Slab));
    squares_kernel<<<units, kThreads, sizeof(Slab), stream>>>(search, search.raw);
  } else if (search.shape.m == 0) {
    for_kernel(search.type, search.distance, [&]<ElementType kType, Distance kDistance>() {
      if constexpr (info(kDistance).product) {
        whole_kernel<kType, kDistance><<<units, kThreads, 0, stream>>>(search);
      }
    });
  } else if (search.shape.bits == 8) {
    allow_shared(coded_kernel<8>, bytes);
    coded_kernel<8><<<units, kThreads, bytes, stream>>>(search);
  } else {
    allow_shared(coded_kernel<4>, bytes);
    coded_kernel<4><<<units, kThreads, bytes, stream>>>(search);
  }
  check_launch("scanning lists");
}

}  // namespace warplite::gpu
