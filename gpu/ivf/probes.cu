// Makes pairs of queries and lists, in the order of lists, from the nearest centroids of every
// query.
#include "gpu/ivf/ivf.h"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/block_sum.cuh"
#include "gpu/select/kth_key.cuh"
#include "gpu/select/ordered_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kSumThreads = 1024;

// Groups of kGroupRows rows that a list has in all runs.
__device__ std::uint32_t groups_of(const IvfSearchView& search, std::uint32_t list) {
  std::uint32_t groups = 0;
  for (std::uint32_t r = 0; r < search.run_count; ++r) {
    const std::uint32_t* begins = search.runs[r].begins + list;
    groups += (begins[1] - begins[0] + kGroupRows - 1) / kGroupRows;
  }
  return groups;
}

// D of compute/ivf.h.
__device__ float added_to_scores(double distance, bool product) {
  return __double2float_rn(product ? distance : __dmul_rn(distance, distance));
}

// Of a query with these lists, how many of them it probes.
__device__ std::uint32_t probes_of(const IvfProbes& probes, const Candidate* nearest, bool product) {
  constexpr std::uint32_t kPlace = compute::ContrastSteps::kPlace;
  if (!probes.by_contrast.known() || !isfinite(nearest[kPlace].distance)) return probes.count;
  return probes.by_contrast.probes(added_to_scores(nearest[0].distance, product),
                                   added_to_scores(nearest[kPlace].distance, product));
}

// One thread block per query.
__global__ void __launch_bounds__(kThreads)
    probes_kernel(IvfSearchView search, const Candidate* nearest, std::uint32_t room) {
  __shared__ BlockSums<kThreads> sums;
  const IvfProbes& probes = search.probes;
  const std::uint32_t query = blockIdx.x, count = probes.count;
  const bool product = search.distance == Distance::kInnerProduct;
  std::uint32_t* const first_groups = probes.first_groups + std::size_t{query} * (count + 1);
  const std::uint32_t end = probes_of(probes, nearest + std::size_t{query} * room, product);
  unsigned before = 0;
  for (std::uint32_t base = 0; base < count; base += kThreads) {
    const std::uint32_t probe = base + threadIdx.x;
    unsigned groups = 0, total = 0;
    if (probe < count) {
      const Candidate& centroid = nearest[std::size_t{query} * room + probe];
      const std::size_t at = std::size_t{query} * count + probe;
      const double d = centroid.distance;
      const std::uint32_t list = isfinite(d) && probe < end ? centroid.row : kNoList;
      probes.lists[at] = list;
      probes.distances[at] = added_to_scores(d, product);
      if (search.direct) search.pairs.pairs[at] = {query, probe};
      if (list != kNoList) groups = groups_of(search, list);
    }
    const unsigned sum = exclusive_sum<kThreads>(groups, sums, total);
    if (probe < count) first_groups[probe] = before + sum;
    before += total;
  }
  if (threadIdx.x == 0) first_groups[count] = before;
}

// One thread block: where the pairs and the units of each list begin. Both are added up as one
// number, pairs in its upper half.
__global__ void __launch_bounds__(kSumThreads)
    begins_kernel(IvfPairs pairs, std::uint32_t lists, std::uint32_t unit_queries) {
  constexpr unsigned kListsOfThread = 4;  // which are read and written together
  __shared__ BlockSums<kSumThreads, std::uint64_t> sums;
  const auto both = [unit_queries](std::uint32_t count) {
    return std::uint64_t{count} << 32 | (count + unit_queries - 1) / unit_queries;
  };
  const auto four = [](std::uint32_t* at) -> uint4& { return *reinterpret_cast<uint4*>(at); };
  std::uint64_t before = 0;
  for (std::uint32_t base = 0; base < lists; base += kSumThreads * kListsOfThread) {
    const std::uint32_t first = base + threadIdx.x * kListsOfThread;
    const bool whole = first + kListsOfThread <= lists;
    uint4 count{};
    if (whole) {
      count = four(pairs.counts + first);
    } else if (first < lists) {
      count.x = pairs.counts[first];
      if (first + 1 < lists) count.y = pairs.counts[first + 1];
      if (first + 2 < lists) count.z = pairs.counts[first + 2];
    }
    const std::uint64_t x = both(count.x), xy = x + both(count.y), xyz = xy + both(count.z);
    std::uint64_t total;
    const std::uint64_t at =
        before + exclusive_sum<kSumThreads>(xyz + both(count.w), sums, total);
    const auto pair = [at](std::uint64_t own) {
      return static_cast<std::uint32_t>((at + own) >> 32);
    };
    const auto unit = [at](std::uint64_t own) { return static_cast<std::uint32_t>(at + own); };
    const uint4 first_pairs{pair(0), pair(x), pair(xy), pair(xyz)},
        first_units{unit(0), unit(x), unit(xy), unit(xyz)};
    const auto put = [&](std::uint32_t* to, const uint4& numbers) {
      if (whole) {
        four(to + first) = numbers;
      } else if (first < lists) {
        to[first] = numbers.x;
        if (first + 1 < lists) to[first + 1] = numbers.y;
        if (first + 2 < lists) to[first + 2] = numbers.z;
      }
    };
    put(pairs.first_pairs, first_pairs);
    put(pairs.first_units, first_units);
    put(pairs.counts, first_pairs);
    before += total;
  }
  if (threadIdx.x == 0) {
    pairs.first_pairs[lists] = static_cast<std::uint32_t>(before >> 32);
    pairs.first_units[lists] = static_cast<std::uint32_t>(before);
  }
}

// Calls visit(query, probe, list) for the pair of this number, if there is one.
template <typename Visit>
__device__ void for_pair(const IvfPairWork& work, std::uint64_t at, const Visit& visit) {
  const std::uint32_t each = work.end - work.first;
  if (at >= std::uint64_t{work.queries} * each) return;
  const auto query = static_cast<std::uint32_t>(at / each);
  const std::uint32_t probe = work.first + static_cast<std::uint32_t>(at % each);
  const std::uint32_t list = work.lists[std::size_t{query} * work.stride + probe];
  if (list != kNoList) visit(query, probe, list);
}

__device__ std::uint64_t pair_of_thread() {
  return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kThreads) count_pairs_kernel(IvfPairWork work) {
  for_pair(work, pair_of_thread(), [&](std::uint32_t, std::uint32_t, std::uint32_t list) {
    atomicAdd(&work.pairs.counts[list], 1u);
  });
}

__global__ void __launch_bounds__(kThreads) pairs_kernel(IvfPairWork work) {
  for_pair(work, pair_of_thread(),
           [&](std::uint32_t query, std::uint32_t probe, std::uint32_t list) {
             work.pairs.pairs[atomicAdd(&work.pairs.counts[list], 1u)] = {query, probe};
           });
}

// The same where lists are few, of which each has many pairs: a thread block counts its own first, so
// that not all of them wait for the same numbers.
constexpr std::uint32_t kFewLists = 1024, kPairsOfBlock = 4 * kSumThreads;

template <bool kOnlyCount>
__global__ void __launch_bounds__(kSumThreads) few_lists_kernel(IvfPairWork work) {
  __shared__ std::uint32_t counts[kFewLists];
  const auto for_own = [&](const auto& visit) {
    for (std::uint32_t i = threadIdx.x; i < kPairsOfBlock; i += kSumThreads) {
      for_pair(work, std::uint64_t{blockIdx.x} * kPairsOfBlock + i, visit);
    }
    __syncthreads();
  };
  for (std::uint32_t i = threadIdx.x; i < work.list_count; i += kSumThreads) counts[i] = 0;
  __syncthreads();
  for_own([&](std::uint32_t, std::uint32_t, std::uint32_t list) { atomicAdd(&counts[list], 1u); });
  for (std::uint32_t i = threadIdx.x; i < work.list_count; i += kSumThreads) {
    if (counts[i] != 0) counts[i] = atomicAdd(&work.pairs.counts[i], counts[i]);
  }
  if constexpr (kOnlyCount) return;
  __syncthreads();
  for_own([&](std::uint32_t query, std::uint32_t probe, std::uint32_t list) {
    work.pairs.pairs[atomicAdd(&counts[list], 1u)] = {query, probe};
  });
}

constexpr std::uint32_t kSortedRoom = 2 * kMostSorted;

// One thread block: the nearest lists of one query, sorted.
__global__ void __launch_bounds__(kSumThreads)
    nearest_lists_kernel(const double* distances, std::uint32_t lists, std::uint32_t count,
                         Candidate* out, std::uint32_t* lost) {
  __shared__ KthKey<kSumThreads> kth;
  __shared__ std::uint64_t keys[kSortedRoom];
  __shared__ std::uint32_t numbers[kSortedRoom];
  __shared__ std::uint32_t found;
  if (threadIdx.x == 0) found = 0;
  const auto key_of = [distances](std::uint32_t i) { return ordered_key(distances[i]); };
  const std::uint64_t limit = kth.find(key_of, lists, count);
  for (std::uint32_t list = threadIdx.x; list < lists; list += kSumThreads) {
    const std::uint64_t key = key_of(list);
    if (key > limit) continue;
    const std::uint32_t slot = atomicAdd(&found, 1u);
    if (slot >= kSortedRoom) continue;
    keys[slot] = key;
    numbers[slot] = list;
  }
  __syncthreads();
  const std::uint32_t kept = min(found, kSortedRoom);
  if (threadIdx.x == 0 && kept < found) *lost = 1;
  const auto before = [](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : numbers[a] < numbers[b];
  };
  // Each one's place is the number of those before it: no more than a few hundred thousand
  // comparisons, and no barriers.
  for (std::uint32_t i = threadIdx.x; i < kept; i += kSumThreads) {
    std::uint32_t place = 0;
    for (std::uint32_t j = 0; j < kept; ++j) place += before(j, i) ? 1 : 0;
    if (place < count) out[place] = {value_of_key(keys[i]), 0, numbers[i]};
  }
}

}  // namespace

void launch_nearest_lists(const double* distances, std::uint32_t lists, std::uint32_t count,
                          Candidate* out, std::uint32_t* lost, cudaStream_t stream) {
  nearest_lists_kernel<<<1, kSumThreads, 0, stream>>>(distances, lists, count, out, lost);
  check_launch("choosing lists");
}

std::uint32_t most_units(const IvfSearchView& search) {
  const std::uint64_t pairs = std::uint64_t{search.queries} * search.probes.count;
  if (search.direct) return static_cast<std::uint32_t>(pairs);
  const std::uint64_t lists = search.shape.lists < pairs ? search.shape.lists : pairs;
  return static_cast<std::uint32_t>(pairs / kUnitQueries + lists);
}

void launch_ivf_probes(const IvfSearchView& search, const Candidate* nearest, std::uint32_t room,
                       cudaStream_t stream) {
  probes_kernel<<<search.queries, kThreads, 0, stream>>>(search, nearest, room);
  check_launch("ordering probes by list");
  if (search.direct) return;
  launch_ivf_pairs({search.probes.lists, search.queries, search.probes.count, 0,
                    search.probes.count, search.shape.lists, kUnitQueries, search.pairs},
                   stream);
}

void launch_ivf_pairs(const IvfPairWork& work, cudaStream_t stream) {
  check(cudaMemsetAsync(work.pairs.counts, 0, work.list_count * sizeof(std::uint32_t), stream),
        "ordering probes by list");
  const std::uint64_t pairs = std::uint64_t{work.queries} * (work.end - work.first);
  const auto blocks = [pairs](std::uint32_t each) {
    return static_cast<unsigned>((pairs + each - 1) / each);
  };
  const bool few = work.list_count <= kFewLists && pairs >= kPairsOfBlock;
  if (few) {
    few_lists_kernel<true><<<blocks(kPairsOfBlock), kSumThreads, 0, stream>>>(work);
  } else {
    count_pairs_kernel<<<blocks(kThreads), kThreads, 0, stream>>>(work);
  }
  begins_kernel<<<1, kSumThreads, 0, stream>>>(work.pairs, work.list_count, work.unit_queries);
  if (few) {
    few_lists_kernel<false><<<blocks(kPairsOfBlock), kSumThreads, 0, stream>>>(work);
  } else {
    pairs_kernel<<<blocks(kThreads), kThreads, 0, stream>>>(work);
  }
  check_launch("ordering probes by list");
}

}  // namespace warplite::gpu
