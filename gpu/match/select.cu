// The k best of the rows that the strips kept.
#include "gpu/match/match.h"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
// A few queries: each has a multiprocessor to itself.
constexpr unsigned kManyThreads = 1024;
constexpr std::uint32_t kLonely = 64;

__device__ std::uint64_t rowid_key(const MatchSearchView& search, std::uint64_t key) {
  const MatchKey at = take_match_key(search.key_bits, key);
  const MatchTileView& tile = search.tiles[at.tile];
  const RowId rowid = tile.rowids != nullptr ? tile.rowids[at.row]
                                             : tile.first_rowid + static_cast<RowId>(at.row);
  return static_cast<std::uint64_t>(rowid) ^ std::uint64_t{1} << 63;
}

// A Limit says which of more than k keys belong to the k best.
struct Limit {
  std::uint64_t key;          // all that are below
  std::uint64_t rowid;        // and those with the same count, up to this rowid
  std::uint64_t below;        // bits of a key below the count
};

template <unsigned kBlock>
__device__ std::uint32_t number_below(const std::uint64_t* keys, std::uint32_t count,
                                      std::uint64_t key) {
  std::uint32_t below = 0;
  for (std::uint32_t base = 0; base < count; base += kBlock) {
    const std::uint32_t i = base + threadIdx.x;
    below += static_cast<std::uint32_t>(__syncthreads_count(i < count && keys[i] < key ? 1 : 0));
  }
  return below;
}

template <unsigned kBlock>
__device__ Limit find_limit(const MatchSearchView& search, KthKey<kBlock>& kth,
                            const std::uint64_t* keys, std::uint32_t count) {
  if (search.ascending) {
    const std::uint64_t last =
        kth.find([keys](std::uint32_t i) { return keys[i]; }, count, search.k);
    return {last, 0, 0};
  }
  const std::uint64_t below = (std::uint64_t{1} << (63 - search.key_bits) << 1) - 1;
  const std::uint64_t last =
      kth.find([=](std::uint32_t i) { return keys[i] | below; }, count, search.k) & ~below;
  const std::uint32_t more = number_below<kBlock>(keys, count, last);
  const std::uint64_t rowid = kth.find(
      [&](std::uint32_t i) {
        return (keys[i] & ~below) == last ? rowid_key(search, keys[i]) : ~std::uint64_t{0};
      },
      count, search.k - more);
  return {last, rowid, below};
}

__device__ bool within(const MatchSearchView& search, const Limit& limit, std::uint64_t key) {
  if (search.ascending) return key <= limit.key;
  if ((key & ~limit.below) != limit.key) return key < limit.key;
  return rowid_key(search, key) <= limit.rowid;
}

// `keys`: a power of two, by all threads.
template <unsigned kBlock>
__device__ void sort(std::uint64_t* keys, unsigned count) {
  for (unsigned size = 2; size <= count; size *= 2) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (unsigned i = threadIdx.x; i < count; i += kBlock) {
        const unsigned other = i ^ step;
        if (other <= i) continue;
        const std::uint64_t a = keys[i], b = keys[other];
        if ((a > b) != ((i & size) == 0)) continue;
        keys[i] = b;
        keys[other] = a;
      }
    }
  }
  __syncthreads();
}

// One thread block per query.
template <unsigned kBlock>
__global__ void __launch_bounds__(kBlock)
    select_kernel(const __grid_constant__ MatchSearchView search, MatchResultsView results) {
  __shared__ KthKey<kBlock> kth;
  __shared__ std::uint64_t best[kMostSortedMatches];
  __shared__ std::uint32_t slots;
  const std::uint32_t query = blockIdx.x;
  const std::uint64_t* const keys = search.kept + query * search.stride;
  const std::uint32_t count = search.kept_counts[query];
  const bool all = count <= search.k;
  const bool sorted = search.ascending && results.room <= kMostSortedMatches;
  if (threadIdx.x == 0) slots = 0;
  Limit limit{};
  if (!all) limit = find_limit<kBlock>(search, kth, keys, count);
  __syncthreads();
  std::uint64_t* const out = results.out + std::size_t{query} * results.room;
  for (std::uint32_t i = threadIdx.x; i < count; i += kBlock) {
    if (!all && !within(search, limit, keys[i])) continue;
    (sorted ? best : out)[atomicAdd(&slots, 1u)] = keys[i];
  }
  __syncthreads();
  const std::uint32_t kept = slots;
  if (threadIdx.x == 0) results.found[query] = kept;
  if (!sorted) return;
  unsigned padded = 1;
  while (padded < kept) padded *= 2;
  for (unsigned i = kept + threadIdx.x; i < padded; i += kBlock) best[i] = ~std::uint64_t{0};
  sort<kBlock>(best, padded);
  for (std::uint32_t i = threadIdx.x; i < kept; i += kBlock) out[i] = best[i];
}

}  // namespace

void launch_match_select(const MatchSearchView& search, const MatchResultsView& results,
                         cudaStream_t stream) {
  if (search.queries <= kLonely) {
    select_kernel<kManyThreads><<<search.queries, kManyThreads, 0, stream>>>(search, results);
  } else {
    select_kernel<kThreads><<<search.queries, kThreads, 0, stream>>>(search, results);
  }
  check_launch("selecting the best matches");
}

}  // namespace warplite::gpu
