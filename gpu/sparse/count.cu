// Counting a strip for a query, and which of its rows are kept.
#include "gpu/sparse/lists.cuh"

#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kSparseLanes;
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
constexpr unsigned kBlocks = 5;  // in the 228 KB of shared memory of a multiprocessor
#else
constexpr unsigned kBlocks = 1;
#endif
// A counter of 0: what is taken off never makes one negative, and what adds never leaves 16 bits.
constexpr std::uint32_t kZero = 0x8000;
constexpr unsigned kCountersPerVector = 8;
// Rows whose bytes of a column a thread takes at a time, 16 bytes.
constexpr unsigned kGroup = 16;
// Columns are added in pairs; those that take off are listed from the end, in pairs, too.
constexpr std::uint32_t kColumnRoom = compute::kMostSparseLists + 8;
// So near a k-th counter need not be known.
constexpr std::uint32_t kNearEnough = 16;

struct Shared {
  uint4 counters[kSparseStrip / kCountersPerVector];
  SparseLists<kThreads> lists;
  uint2 columns[kColumnRoom / 2];          // where they begin, in vectors of 16 bytes
  std::uint32_t weights[kColumnRoom / 2];  // of two columns, 16 bits each
  std::uint32_t adding, taking;            // columns
  std::uint32_t stop;
  std::uint64_t floor;
  std::uint32_t found, largest;  // counters that reach the floor
  std::uint32_t sums[kWarps];
  std::uint32_t first_slot, slots;
};

__device__ std::uint32_t warp_sum(std::uint32_t value) {
  for (unsigned step = kSparseLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(~0u, value, static_cast<int>(step));
  }
  return value;
}

__device__ void raise(std::uint64_t* bound, double to) {
  if (to > 0)
    atomicMax(reinterpret_cast<unsigned long long*>(bound), std::bit_cast<std::uint64_t>(to));
}

// A thread block, its query and its strip. Members are called by all threads.
class StripSearch {
 public:
  __device__ StripSearch(const SparseSearchView& search, Shared& shared, std::uint32_t strip,
                         std::uint32_t query)
      : search_(search),
        shared_(shared),
        strip_(strip),
        query_(query),
        at_(search.strips[strip]),
        tile_(search.tiles[at_.tile]),
        rows_(sparse_strip_rows(tile_, at_.first)) {}

  __device__ void run() {
    begin();
    if (shared_.stop != 0 || shared_.lists.count == 0) return;
    if (shared_.lists.count > compute::kMostSparseLists) return leave();
    double share = 1;
    scale_ = shared_.lists.scale(tile_, share);
    if (scale_.unit == 0) return;
    if (!scale_.serves()) return leave();
    if (threadIdx.x == 0) raise(search_.others + query_, (scale_.margin + 1) * scale_.unit);
    const double floor = floor_of(sparse_number(shared_.floor));
    if (floor > compute::kMostSparseUnits) return;
    set_weights(share);
    add_lists();
    __syncthreads();
    add_columns(stored(floor));
    if (shared_.found != 0) keep();
  }

 private:
  __device__ void begin() {
    if (threadIdx.x == 0) {
      shared_.stop = __ldcg(search_.stop);
      shared_.floor = __ldcg(search_.floors + query_);
      shared_.adding = shared_.taking = shared_.found = shared_.largest = shared_.slots = 0;
    }
    constexpr std::uint32_t kZeros = kZero << 16 | kZero;
    for (std::uint32_t i = threadIdx.x; i < rows_ / kCountersPerVector; i += kThreads) {
      shared_.counters[i] = {kZeros, kZeros, kZeros, kZeros};
    }
    const std::uint32_t first = search_.begins[query_];
    shared_.lists.find(tile_, search_.entries + first, search_.begins[query_ + 1] - first);
  }

  __device__ void leave() const {
    if (threadIdx.x == 0) search_.left[atomicAdd(search_.left_count, 1u)] = {strip_, query_};
  }

  // The counter that rows need whose S reaches `sum`.
  __device__ double floor_of(double sum) const {
    return fmax(1.0, ::floor(sum / scale_.unit - scale_.margin));
  }
  // REQUIRES: at most kMostSparseUnits
  __device__ static std::uint32_t stored(double counter) {
    return kZero + static_cast<std::uint32_t>(counter);
  }

  // From now on `each` of a list is its weight; columns are by themselves.
  __device__ void set_weights(double share) {
    auto& lists = shared_.lists;
    for (std::uint32_t i = threadIdx.x; i < lists.count; i += kThreads) {
      auto& list = lists.lists[i];
      const bool taken = list.each < 0;
      const std::uint16_t weight =
          taken ? scale_.weight(-list.each * share, true) : scale_.weight(list.each, false);
      list.each = taken ? -static_cast<double>(weight) : weight;
      if (list.end == lists.kColumn) put_column(list.begin, weight, taken);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      // A column that is alone has company that counts nothing.
      if (shared_.adding % 2 != 0) put_column(0, 0, false);
      if (shared_.taking % 2 != 0) put_column(0, 0, true);
    }
  }

  __device__ void put_column(std::uint32_t number, std::uint16_t weight, bool taken) {
    const std::uint32_t at =
        taken ? kColumnRoom - 1 - atomicAdd(&shared_.taking, 1u) : atomicAdd(&shared_.adding, 1u);
    const std::uint32_t begin = number * (tile_.padded_rows / kGroup) + at_.first / kGroup;
    reinterpret_cast<std::uint32_t*>(shared_.columns)[at] = begin;
    reinterpret_cast<std::uint16_t*>(shared_.weights)[at] = weight;
  }

  // A warp takes a list.
  __device__ void add_lists() {
    const auto& lists = shared_.lists;
    for (std::uint32_t i = threadIdx.x / kSparseLanes; i < lists.count; i += kWarps) {
      const auto list = lists.lists[i];
      if (list.end == lists.kColumn) continue;
      const bool taken = list.each < 0;
      const auto weight = static_cast<std::uint32_t>(fabs(list.each));
      const std::uint32_t less = taken ? 1 : 0;
#pragma unroll 4
      for (std::uint32_t p = list.begin + threadIdx.x % kSparseLanes; p < list.end;
           p += kSparseLanes) {
        const std::uint32_t place = __ldg(tile_.places + p) - at_.first;
        const std::uint32_t amount = (__ldg(tile_.impacts + p) - less) * weight >> 8;
        if (place < rows_) add(place, taken ? 0 - amount : amount);
      }
    }
  }

  // Neither of the two counters of a word leaves its 16 bits.
  __device__ void add(std::uint32_t place, std::uint32_t amount) {
    auto* const words = reinterpret_cast<std::uint32_t*>(shared_.counters);
    atomicAdd(words + place / 2, amount << (place % 2 * 16));
  }

  // Adds columns; rows that do not live count as little as there is. Counts those that reach
  // `floor`.
  __device__ void add_columns(std::uint32_t floor) {
    std::uint32_t found = 0, largest = 0;
    for (std::uint32_t g = threadIdx.x; g < rows_ / kGroup; g += kThreads) {
      std::uint32_t sums[kGroup] = {};
      sum_columns<false>(g, 0, (shared_.adding + 1) / 2, sums);
      if (shared_.taking != 0) {
        negate(sums);
        sum_columns<true>(g, (kColumnRoom - shared_.taking) / 2, kColumnRoom / 2, sums);
        negate(sums);
      }
      store(g, sums, floor, found, largest);
    }
    if (found != 0) atomicMax(&shared_.largest, largest);
    found = warp_sum(found);
    if (threadIdx.x % kSparseLanes == 0 && found != 0) atomicAdd(&shared_.found, found);
    if (threadIdx.x == 0) shared_.floor = __ldcg(search_.floors + query_);
    __syncthreads();
  }

  template <bool kTaken>
  __device__ void sum_columns(std::uint32_t group, std::uint32_t pair, std::uint32_t end,
                              std::uint32_t (&sums)[kGroup]) const {
    const auto* const vectors = reinterpret_cast<const uint4*>(tile_.columns) + group;
#pragma unroll 2
    for (; pair < end; ++pair) {
      const uint2 at = shared_.columns[pair];
      const uint4 a = __ldg(vectors + at.x), b = __ldg(vectors + at.y);
      const std::uint32_t weights = shared_.weights[pair];
      sum_four<kTaken, 0>(a.x, b.x, weights, sums);
      sum_four<kTaken, 4>(a.y, b.y, weights, sums);
      sum_four<kTaken, 8>(a.z, b.z, weights, sums);
      sum_four<kTaken, 12>(a.w, b.w, weights, sums);
    }
  }

  // Two columns' impacts of four rows.
  template <bool kTaken, unsigned kAt>
  __device__ static void sum_four(std::uint32_t a, std::uint32_t b, std::uint32_t weights,
                                  std::uint32_t (&sums)[kGroup]) {
    if constexpr (kTaken) {
      a = __vsubus4(a, 0x01010101u);
      b = __vsubus4(b, 0x01010101u);
    }
    const std::uint32_t first = __byte_perm(a, b, 0x5140), second = __byte_perm(a, b, 0x7362);
    sums[kAt] = __dp2a_lo(weights, first, sums[kAt]);
    sums[kAt + 1] = __dp2a_hi(weights, first, sums[kAt + 1]);
    sums[kAt + 2] = __dp2a_lo(weights, second, sums[kAt + 2]);
    sums[kAt + 3] = __dp2a_hi(weights, second, sums[kAt + 3]);
  }

  __device__ static void negate(std::uint32_t (&sums)[kGroup]) {
#pragma unroll
    for (unsigned i = 0; i < kGroup; ++i) sums[i] = 0 - sums[i];
  }

  // Of sixteen rows the even ones have a vector of counters, the odd ones that of four vectors on
  // (compute::sparse_place).
  __device__ void store(std::uint32_t group, const std::uint32_t (&sums)[kGroup],
                        std::uint32_t floor, std::uint32_t& found, std::uint32_t& largest) {
    const std::uint32_t row = at_.first + group * kGroup;
    std::uint32_t live = 0xffff;
    if (tile_.live != nullptr) {
      live = row < tile_.rows ? static_cast<std::uint32_t>(tile_.live[row / 64] >> row % 64) : 0;
    }
    uint4* const even = shared_.counters + group / 4 * 8 + group % 4;
    uint4* const odd = even + 4;
    const auto put = [&](std::uint32_t& word, unsigned first) {
      const unsigned second = first + 2;
      std::uint32_t low = (word & 0xffff) + (static_cast<int>(sums[first]) >> 8);
      std::uint32_t high = (word >> 16) + (static_cast<int>(sums[second]) >> 8);
      if ((live >> first & 1) == 0) low = 0;
      if ((live >> second & 1) == 0) high = 0;
      found += (low >= floor ? 1 : 0) + (high >= floor ? 1 : 0);
      largest = max(largest, max(low, high));
      word = low | high << 16;
    };
    uint4 counters = *even;
    put(counters.x, 0);
    put(counters.y, 4);
    put(counters.z, 8);
    put(counters.w, 12);
    *even = counters;
    counters = *odd;
    put(counters.x, 1);
    put(counters.y, 5);
    put(counters.z, 9);
    put(counters.w, 13);
    *odd = counters;
  }

  // Calls visit(place in the strip, stored counter) for the counters that this thread looks at.
  template <typename Visit>
  __device__ void each_counter(const Visit& visit) const {
    for (std::uint32_t i = threadIdx.x; i < rows_ / kCountersPerVector; i += kThreads) {
      const uint4 v = shared_.counters[i];
      const std::uint32_t words[] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (unsigned w = 0; w < 4; ++w) {
        visit(i * kCountersPerVector + 2 * w, words[w] & 0xffff);
        visit(i * kCountersPerVector + 2 * w + 1, words[w] >> 16);
      }
    }
  }

  __device__ std::uint32_t rows_at_least(std::uint32_t least) {
    std::uint32_t own = 0;
    each_counter([&](std::uint32_t, std::uint32_t counter) { own += counter >= least ? 1 : 0; });
    own = warp_sum(own);
    __syncthreads();
    if (threadIdx.x % kSparseLanes == 0) shared_.sums[threadIdx.x / kSparseLanes] = own;
    __syncthreads();
    std::uint32_t all = 0;
    for (unsigned warp = 0; warp < kWarps; ++warp) all += shared_.sums[warp];
    return all;
  }

  __device__ void keep() {
    double floor = floor_of(sparse_number(shared_.floor));  // others may have raised it
    if (floor > compute::kMostSparseUnits) return;
    std::uint32_t kept = rows_at_least(stored(floor));
    if (search_.k != 0 && kept > search_.k) {
      floor = fmax(floor, raised_floor(stored(floor), kept));
      kept = rows_at_least(stored(floor));
    }
    if (kept == 0) return;
    if (threadIdx.x == 0) {
      shared_.first_slot = atomicAdd(search_.kept_counts + query_, kept);
      raise(search_.windows + query_, (scale_.margin + scale_.spread) * scale_.unit);
    }
    __syncthreads();
    put_keys(stored(floor));
  }

  // Finds a counter that k rows reach, and not many more; their S is what others must reach. `kept`
  // rows, more than k, reach `low`.
  __device__ double raised_floor(std::uint32_t low, std::uint32_t kept) {
    std::uint32_t end = shared_.largest + 1;
    while (kept > search_.k + search_.k / 4 && end - low > kNearEnough) {
      const std::uint32_t middle = (low + end) / 2;
      const std::uint32_t rows = rows_at_least(middle);
      if (rows >= search_.k) {
        low = middle;
        kept = rows;
      } else {
        end = middle;
      }
    }
    const double sum = (static_cast<double>(low - kZero) - scale_.spread) * scale_.unit;
    if (threadIdx.x == 0) raise(search_.floors + query_, sum);
    return floor_of(sum);
  }

  __device__ void put_keys(std::uint32_t least) {
    std::uint64_t* const out = search_.kept + query_ * search_.stride;
    each_counter([&](std::uint32_t place, std::uint32_t counter) {
      if (counter < least) return;
      const std::size_t slot = shared_.first_slot + atomicAdd(&shared_.slots, 1u);
      if (slot >= search_.stride) return;
      const double most = (static_cast<double>(counter - kZero) + scale_.margin) * scale_.unit;
      const auto bound = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(most) >> 32) + 1;
      out[slot] = make_sparse_key(bound, at_.tile, at_.first + compute::sparse_row(place));
    });
  }

  const SparseSearchView& search_;
  Shared& shared_;
  const std::uint32_t strip_, query_;
  const SparseStrip at_;
  const SparseTileView tile_;
  const std::uint32_t rows_;
  compute::SparseScale scale_;
};

// Strip by strip, so that queries share its lists in the cache.
__global__ void __launch_bounds__(kThreads, kBlocks)
    count_kernel(const __grid_constant__ SparseSearchView search, std::uint32_t first) {
  __shared__ Shared shared;
  StripSearch(search, shared, first + blockIdx.x / search.queries, blockIdx.x % search.queries)
      .run();
}

}  // namespace

void launch_sparse_count(const SparseSearchView& search, std::uint32_t first, std::uint32_t count,
                         cudaStream_t stream) {
  count_kernel<<<count * search.queries, kThreads, 0, stream>>>(search, first);
  check_launch("counting sparse vectors");
}

}  // namespace warplite::gpu
