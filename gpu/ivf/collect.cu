// The second pass of a search: the groups that may hold one of the best rows, again.
#include "gpu/ivf/score.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
// A query that is alone, or nearly: its block has a multiprocessor to itself.
constexpr unsigned kManyThreads = 1024;
constexpr std::uint32_t kLonely = 64;

// Whole vectors: their keys hold rounded distances, so all that tie with the last may belong.
__device__ std::uint64_t with_ties(const IvfSearchView& search, std::uint64_t key) {
  return search.shape.m == 0 ? key | 0xffffffffu : key;
}

// What the R-th least of the groups allows as the least of a group, and as a row.
struct Limits {
  std::uint64_t group, row;
};

__device__ Limits limits_of(const IvfSearchView& search, std::uint64_t key) {
  if (key == kNoKey || search.slack == 0) return {with_ties(search, key), with_ties(search, key)};
  // Groups have squared distances in float32, off by at most a third of the slack, and by half of
  // the least number for each square that is below float32's range.
  const float least = static_cast<float>(search.shape.dim) * 0x1p-149f;
  const float square = __fmaf_ru(value_of_key(static_cast<std::uint32_t>(key >> 32)),
                                 1 + search.slack, least);
  return {make_key(ordered_key(square), ~0u), make_key(ordered_key(__fsqrt_ru(square)), ~0u)};
}

// Groups that are within the limit, a few at a time. In shared memory.
template <unsigned kBlock>
struct Chosen {
  std::uint32_t probes[kBlock];
  std::uint32_t numbers[kBlock];  // of the group within its list
  std::uint32_t count;
};

// Keys within the limit, of one query.
struct Collector {
  std::uint64_t limit;
  std::uint64_t* out;
  std::uint32_t room;
  std::uint32_t* count;  // in shared memory

  // Called by the whole warp.
  __device__ void add(std::uint64_t key) const {
    const bool within = key != kNoKey && key <= limit;
    const unsigned votes = __ballot_sync(kWholeWarp, within);
    if (votes == 0) return;
    const unsigned lane = threadIdx.x % kWarpLanes;
    std::uint32_t first = 0;
    if (lane == 0) first = atomicAdd(count, static_cast<std::uint32_t>(__popc(votes)));
    first = __shfl_sync(kWholeWarp, first, 0);
    const std::uint32_t slot = first + __popc(votes & ((1u << lane) - 1));
    if (within && slot < room) out[slot] = key;
  }
};

// Score keys of a group's rows, one query.
template <unsigned kBits>
struct CodedRows {
  const std::uint8_t* entries;  // of the query, in shared memory
  float step, offset;

  __device__ void visit(const IvfSearchView& search, std::uint64_t probe_at, const Group& group,
                        const Collector& collector) const {
    std::uint32_t sum = 0;
    for_codes<kBits>(search.shape, group, [&](std::uint32_t s, std::uint32_t code) {
      sum += entries[(s << kBits) + code];
    });
    const std::uint32_t ordinal = group.ordinal();
    const bool active = ordinal != compute::kNoOrdinal &&
                        (search.all_live || lives(search.table, ordinal));
    const float a = __fadd_rn(search.probes.distances[probe_at], offset);
    collector.add(active ? make_key(score_key(step, sum, group.run->bias[group.position], a),
                                    ordinal)
                         : kNoKey);
  }
};

template <ElementType kType, Distance kDistance>
struct WholeRows {
  QueryTerms terms;

  __device__ void visit(const IvfSearchView& search, std::uint64_t, const Group& group,
                        const Collector& collector) const {
    for_distances<kType, kDistance, 1>(search, terms, group,
                                       [&](int, std::uint64_t key) { collector.add(key); });
  }
};

__device__ std::uint32_t probe_of(const std::uint32_t* first_groups, std::uint32_t count,
                                  std::uint32_t group) {
  std::uint32_t low = 0, high = count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (first_groups[middle] <= group ? low : high) = middle;
  }
  return low;
}

// One thread block per query.
template <unsigned kBlock, typename Rows>
__device__ void collect(const IvfSearchView& search, const Rows& rows) {
  __shared__ KthKey<kBlock> kth;
  __shared__ Chosen<kBlock> chosen;
  __shared__ std::uint32_t found;
  const std::uint32_t query = blockIdx.x, probes = search.probes.count;
  const std::uint64_t* least = search.least + std::size_t{query} * search.group_stride;
  const std::uint32_t* first_groups =
      search.probes.first_groups + std::size_t{query} * (probes + 1);
  const std::uint32_t groups = first_groups[probes];
  if (threadIdx.x == 0) found = 0;
  const Limits limits = limits_of(
      search,
      kth.find([least](std::uint32_t i) { return least[i]; }, groups, search.nominated));
  const Collector collector{limits.row,
                            search.collected + std::size_t{query} * search.collect_stride,
                            search.collect_stride, &found};
  for (std::uint32_t base = 0; base < groups; base += kBlock) {
    if (threadIdx.x == 0) chosen.count = 0;
    __syncthreads();
    const std::uint32_t group = base + threadIdx.x;
    if (group < groups && least[group] <= limits.group && least[group] != kNoKey) {
      const std::uint32_t probe = probe_of(first_groups, probes, group);
      const std::uint32_t slot = atomicAdd(&chosen.count, 1u);
      chosen.probes[slot] = probe;
      chosen.numbers[slot] = group - first_groups[probe];
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x / kWarpLanes; i < chosen.count; i += kBlock / kWarpLanes) {
      const std::uint64_t at = std::uint64_t{query} * probes + chosen.probes[i];
      rows.visit(search, at, group_at(search, search.probes.lists[at], chosen.numbers[i]),
                 collector);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) search.collected_counts[query] = found;
}

template <unsigned kBits, unsigned kBlock>
__global__ void __launch_bounds__(kBlock)
    coded_kernel(const __grid_constant__ IvfSearchView search) {
  extern __shared__ std::uint32_t words[];
  const std::uint32_t bytes = search.shape.m << kBits;
  const auto* own = reinterpret_cast<const std::uint32_t*>(search.tables.entries +
                                                           std::size_t{blockIdx.x} * bytes);
  for (std::uint32_t i = threadIdx.x; i < bytes / 4; i += kBlock) words[i] = own[i];
  __syncthreads();
  collect<kBlock>(search, CodedRows<kBits>{reinterpret_cast<const std::uint8_t*>(words),
                                           search.tables.steps[blockIdx.x],
                                           search.tables.offsets[blockIdx.x]});
}

template <ElementType kType, Distance kDistance>
__global__ void __launch_bounds__(kThreads)
    whole_kernel(const __grid_constant__ IvfSearchView search) {
  WholeRows<kType, kDistance> rows{search.terms};
  rows.terms.slots[0] = blockIdx.x;
  collect<kThreads>(search, rows);
}

// Calls take(slot, key) for the best of what the thread block's query collected, in any order, and
// says in `found` how many there are; `lost` when something was dropped.
template <typename Take>
__device__ void take_best(const IvfSearchView& search, std::uint32_t lost, std::uint32_t* found,
                          const Take& take) {
  __shared__ KthKey<kThreads> kth;
  __shared__ std::uint32_t kept;
  const std::uint32_t query = blockIdx.x, count = search.collected_counts[query];
  if (count > search.collect_stride) {
    if (threadIdx.x == 0) found[query] = lost;
    return;
  }
  if (threadIdx.x == 0) kept = 0;
  const std::uint64_t* keys = search.collected + std::size_t{query} * search.collect_stride;
  const std::uint64_t limit = with_ties(
      search, kth.find([keys](std::uint32_t i) { return keys[i]; }, count, search.nominated));
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    if (keys[i] <= limit) take(atomicAdd(&kept, 1u), keys[i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) found[query] = kept;
}

__global__ void __launch_bounds__(kThreads)
    nominate_kernel(const __grid_constant__ IvfSearchView search, Nominees out) {
  take_best(search, out.capacity + 1, out.counts, [&](std::uint32_t slot, std::uint64_t key) {
    if (slot >= out.capacity) return;
    out.ordinals[std::size_t{blockIdx.x} * out.capacity + slot] = static_cast<std::uint32_t>(key);
  });
}

static_assert(products_are({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}));

__device__ double distance_of_score(Distance distance, float score) {
  const double value = score;
  if (distance == Distance::kInnerProduct) return value;
  const double positive = value > 0 ? value : 0.0;
  return distance == Distance::kL2 ? __dsqrt_rn(positive) : __dmul_rn(positive, 0.5);
}

__global__ void __launch_bounds__(kThreads)
    emit_kernel(const __grid_constant__ IvfSearchView search, Candidate* out,
                std::uint32_t* found) {
  take_best(search, kLost, found, [&](std::uint32_t slot, std::uint64_t key) {
    if (slot >= search.nominated) return;
    const auto ordinal = static_cast<std::uint32_t>(key);
    const std::uint32_t block = block_of_row(search.table, ordinal);
    out[std::size_t{blockIdx.x} * search.nominated + slot] = {
        distance_of_score(search.distance, value_of_key(static_cast<std::uint32_t>(key >> 32))),
        block, ordinal - search.table.blocks[block].first_ordinal};
  });
}

}  // namespace

void launch_ivf_collect(const IvfSearchView& search, cudaStream_t stream) {
  const std::size_t bytes = std::size_t{search.shape.m} * search.shape.codewords();
  const auto launch = [&](auto* kernel, unsigned threads) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "collecting rows of lists");
    kernel<<<search.queries, threads, bytes, stream>>>(search);
  };
  const auto launch_bits = [&]<unsigned kBits>() {
    if (search.queries <= kLonely) {
      launch(coded_kernel<kBits, kManyThreads>, kManyThreads);
    } else {
      launch(coded_kernel<kBits, kThreads>, kThreads);
    }
  };
  if (search.shape.m == 0) {
    for_kernel(search.type, search.distance, [&]<ElementType kType, Distance kDistance>() {
      if constexpr (info(kDistance).product) {
        whole_kernel<kType, kDistance><<<search.queries, kThreads, 0, stream>>>(search);
      }
    });
  } else if (search.shape.bits == 8) {
    launch_bits.template operator()<8>();
  } else {
    launch_bits.template operator()<4>();
  }
  check_launch("collecting rows of lists");
}

void launch_ivf_nominate(const IvfSearchView& search, const Nominees& out, cudaStream_t stream) {
  nominate_kernel<<<search.queries, kThreads, 0, stream>>>(search, out);
  check_launch("nominating rows of lists");
}

void launch_ivf_emit(const IvfSearchView& search, Candidate* out, std::uint32_t* found,
                     cudaStream_t stream) {
  emit_kernel<<<search.queries, kThreads, 0, stream>>>(search, out, found);
  check_launch("fetching rows of lists");
}

}  // namespace warplite::gpu
