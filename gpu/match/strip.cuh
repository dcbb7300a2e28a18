// The counts of a strip's rows for a query, and the best of them: a thread block that counts, then
// looks for what the k-th best row counts, and keeps those that reach it.
#pragma once

#include <cstdint>

#include "gpu/match/counters.cuh"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {

#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
inline constexpr bool kRoomy = true;  // 228 KB of shared memory in a multiprocessor
#else
inline constexpr bool kRoomy = false;
#endif

template <unsigned kBits>
struct StripThreads {
  static constexpr unsigned kCount = kBits == 4 ? 256 : kBits == 8 ? 512 : 1024;
  static constexpr unsigned kBlocks = !kRoomy || kBits > 8 ? 1 : kBits == 8 ? 3 : 6;
};

// Rows that are looked at one by one.
inline constexpr std::uint32_t kFewRows = 2048;

// What a thread block keeps beside the counters.
template <unsigned kThreads, typename Input>
struct StripShared {
  static constexpr unsigned kWarps = kThreads / kLanes;

  union {
    Input input;  // what is counted
    // Used once all is counted.
    struct {
      KthKey<kThreads> kth;
      BlockSums<kThreads> sums;
      std::uint32_t limit, rows;
    };
  };
  std::uint32_t counts[kWarps], more[kWarps];  // of rows, by warp
  std::uint32_t first_slot, slots;
  std::uint64_t floor;
};

// What a count must reach, and whether more than k rows do.
struct Threshold {
  std::uint32_t count;
  std::uint32_t rows;   // that reach it
  std::uint32_t turns;  // vectors of this thread in which some do
};

// Counts a strip for a query, and keeps its best rows. `Input`: in shared memory, what is counted.
template <unsigned kBits, bool kWhole, typename Input>
class StripSearch {
 public:
  static constexpr unsigned kThreads = StripThreads<kBits>::kCount;
  static constexpr unsigned kWarps = kThreads / kLanes;
  using Counters = MatchCounters<kBits, kThreads, kWhole>;
  using Shared = StripShared<kThreads, Input>;

  __device__ StripSearch(const MatchSearchView& search, Shared& shared, uint4* memory,
                         const MatchTileView& tile, std::uint32_t number, std::uint32_t first)
      : search_(search), shared_(shared), tile_(tile), tile_number_(number),
        counters_(memory, first, min(search.strip_rows, tile.rows - first)) {}

  // `count` fills the counters: count(counters, what is counted, what a row must count). False: no
  // row can count as much as the floor, or the search was cancelled.
  template <typename Count>
  __device__ void run(std::uint32_t query, const Count& count) {
    // Answers come while counting begins.
    const std::uint32_t stop = threadIdx.x == 0 ? __ldcg(search_.stop) : 0;
    const std::uint64_t floor = threadIdx.x == 0 ? floor_of(query) : 0;
    if (!count(counters_, shared_.input, stop != 0 ? ~std::uint64_t{0} : floor)) return;
    if (tile_.live != nullptr) counters_.forget_dead(tile_.live);
    if (search_.most < Counters::Word::kMost) counters_.forget_above(search_.most);
    if (threadIdx.x == 0) shared_.floor = floor_of(query);
    __syncthreads();
    if (shared_.floor > Counters::Word::kMost) return;
    keep(query, static_cast<std::uint32_t>(shared_.floor));
  }

 private:
  // Returns what a row must count to be of use; more than 32 bits: none is. It changes at any time,
  // so one thread asks.
  __device__ std::uint64_t floor_of(std::uint32_t query) const {
    const std::uint64_t word = __ldcg(search_.floors + query);
    const std::uint32_t after = kNoTile - static_cast<std::uint32_t>(word);
    return (word >> 32) + (after <= tile_number_ ? 1 : 0);
  }

  // Rows of the strip that count at least `count`; `warps`: how many of each warp. `turns` as in
  // MatchCounters::at_least().
  __device__ std::uint32_t rows_at_least(std::uint32_t count, std::uint32_t (&warps)[kWarps],
                                         std::uint32_t& turns) {
    const std::uint32_t own = warp_sum(counters_.at_least(count, turns));
    __syncthreads();
    if (threadIdx.x % kLanes == 0) warps[threadIdx.x / kLanes] = own;
    __syncthreads();
    std::uint32_t all = 0;
    for (unsigned warp = 0; warp < kWarps; ++warp) all += warps[warp];
    return all;
  }

  // The largest count that k rows reach, or `floor` where fewer do.
  __device__ Threshold threshold(std::uint32_t floor) {
    Threshold found{floor, 0, counters_.all_turns()};
    found.rows = rows_at_least(floor, shared_.counts, found.turns);
    std::uint64_t end = std::uint64_t{Counters::Word::kMost} + 1;
    while (found.rows > search_.k && end - found.count > 1) {
      if (found.rows <= kFewRows && end - found.count <= KthKey<kThreads>::kBins) {
        return among_few(found);
      }
      const auto middle = static_cast<std::uint32_t>((found.count + end) / 2);
      std::uint32_t turns = found.turns;
      const std::uint32_t rows = rows_at_least(middle, shared_.counts, turns);
      if (rows >= search_.k) {
        found = {middle, rows, turns};
      } else {
        end = middle;
      }
    }
    return found;
  }

  // The same, by a look at each of the rows. REQUIRES: more than k reach `low`, and fewer a count
  // that is kBins above
  __device__ Threshold among_few(const Threshold& low) {
    constexpr unsigned kBins = KthKey<kThreads>::kBins;
    std::uint32_t* const bins = shared_.kth.bins;
    __syncthreads();
    if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
    __syncthreads();
    for_rows_of(low, [&](std::uint32_t, std::uint32_t count) {
      atomicAdd(&bins[kBins - 1 - min(count - low.count, kBins - 1)], 1u);
    });
    __syncthreads();
    const std::uint32_t own = threadIdx.x < kBins ? bins[threadIdx.x] : 0;
    unsigned total = 0;
    const unsigned above = exclusive_sum<kThreads>(own, shared_.sums, total);
    if (above < search_.k && search_.k <= above + own) {
      shared_.limit = low.count + (kBins - 1 - threadIdx.x);
      shared_.rows = above + own;
    }
    __syncthreads();
    return {shared_.limit, shared_.rows, low.turns};
  }

  // Calls visit(row of the strip, count) for the thread's rows that reach the limit.
  template <typename Visit>
  __device__ void for_rows_of(const Threshold& limit, const Visit& visit) {
    for (std::uint32_t left = limit.turns; left != 0; left &= left - 1) {
      counters_.for_rows(static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1), limit.count,
                         visit);
    }
  }

  __device__ void keep(std::uint32_t query, std::uint32_t floor) {
    const Threshold limit = threshold(floor);
    if (limit.rows == 0) return;
    const std::uint32_t kept = min(limit.rows, search_.k);
    if (threadIdx.x == 0) {
      shared_.first_slot = atomicAdd(search_.kept_counts + query, kept);
      shared_.slots = 0;
      if (limit.rows >= search_.k) {
        atomicMax(reinterpret_cast<unsigned long long*>(search_.floors + query),
                  make_match_floor(limit.count, tile_.after));
      }
    }
    __syncthreads();
    std::uint64_t* const out = search_.kept + query * search_.stride + shared_.first_slot;
    if (limit.rows <= search_.k) return keep_all(limit, out);
    std::uint32_t turns = limit.turns;
    rows_at_least(limit.count, shared_.counts, turns);
    const std::uint32_t more =
        limit.count == Counters::Word::kMost
            ? no_more()
            : rows_at_least(limit.count + 1, shared_.more, turns);
    if (tile_.ascending != 0) return keep_first(limit, search_.k - more, out);
    keep_by_rowid(limit, search_.k - more, out);
  }

  __device__ std::uint32_t no_more() {
    __syncthreads();
    if (threadIdx.x < kWarps) shared_.more[threadIdx.x] = 0;
    __syncthreads();
    return 0;
  }

  __device__ void put(std::uint64_t* out, std::uint32_t row, std::uint32_t count) {
    const MatchKey key{count, tile_number_, counters_.first() + row};
    out[atomicAdd(&shared_.slots, 1u)] = make_match_key(search_.key_bits, key);
  }

  __device__ void keep_all(const Threshold& limit, std::uint64_t* out) {
    for_rows_of(limit, [&](std::uint32_t row, std::uint32_t count) { put(out, row, count); });
  }

  // Keeps the first `ties` of the rows at the limit.
  __device__ void keep_first(const Threshold& limit, std::uint32_t ties, std::uint64_t* out) {
    const unsigned own_warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
    std::uint32_t before = 0;
    for (unsigned warp = 0; warp < own_warp; ++warp) {
      before += shared_.counts[warp] - shared_.more[warp];
    }
    for (unsigned turn = 0; turn < counters_.turns(); ++turn) {
      const bool some = (limit.turns >> turn & 1) != 0;
      if (!__any_sync(~0u, some)) continue;
      std::uint32_t own = 0;
      counters_.for_rows(turn, limit.count, [&](std::uint32_t, std::uint32_t count) {
        own += count == limit.count ? 1 : 0;
      });
      std::uint32_t sum = own;
      for (unsigned step = 1; step < kLanes; step *= 2) {
        const std::uint32_t below = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += below;
      }
      std::uint32_t number = before + sum - own;
      counters_.for_rows(turn, limit.count, [&](std::uint32_t row, std::uint32_t count) {
        if (count > limit.count || number++ < ties) put(out, row, count);
      });
      before += __shfl_sync(~0u, sum, kLanes - 1);
    }
  }

  // Keeps the `ties` least rowids of the rows at the limit.
  __device__ void keep_by_rowid(const Threshold& limit, std::uint32_t ties, std::uint64_t* out) {
    const RowId* const rowids = tile_.rowids + counters_.first();
    const auto key_of = [rowids](std::uint32_t row) {
      return static_cast<std::uint64_t>(rowids[row]) ^ std::uint64_t{1} << 63;
    };
    const std::uint64_t last = shared_.kth.find(
        [&](std::uint32_t row) {
          return counters_.get(row) == limit.count ? key_of(row) : ~std::uint64_t{0};
        },
        counters_.rows(), ties);
    for_rows_of(limit, [&](std::uint32_t row, std::uint32_t count) {
      if (count > limit.count || key_of(row) <= last) put(out, row, count);
    });
  }

  const MatchSearchView& search_;
  Shared& shared_;
  const MatchTileView& tile_;
  const std::uint32_t tile_number_;
  const Counters counters_;
};

}  // namespace warplite::gpu
