// Counting a strip for a query: the postings that its items meet.
#include "gpu/match/strip.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

// Fills the counters for StripSearch::run(), whose `count` it is. False: no row can count as much
// as the floor, or the search was cancelled.
template <typename Counters, unsigned kThreads>
__device__ bool count_postings(const MatchSearchView& search, const MatchTileView& tile,
                               std::uint32_t query, const Counters& counters,
                               MatchLists<kThreads>& lists, std::uint64_t floor) {
  counters.clear();
  const std::uint32_t begin = search.begins[query];
  const std::uint32_t items = search.begins[query + 1] - begin;
  for (std::uint32_t at = 0; at < items; at += kThreads) {
    const auto add = [&counters](std::uint32_t row, std::uint32_t weight, bool valid) {
      counters.add(row, weight, valid);
    };
    const std::uint32_t most =
        lists.find(tile, search.items + begin + at, min(items - at, kThreads), add);
    const bool useless = floor > Counters::Word::kMost || (items <= kThreads && most < floor);
    if (at == 0 && __syncthreads_or(useless ? 1 : 0) != 0) return false;
    lists.for_postings(tile.postings, add);
    __syncthreads();
  }
  return items != 0;
}

// Strip by strip, so that queries share the postings in the cache.
template <unsigned kBits, bool kWhole>
__global__ void __launch_bounds__(StripThreads<kBits>::kCount, StripThreads<kBits>::kBlocks)
    count_kernel(const __grid_constant__ MatchSearchView search) {
  using Search = StripSearch<kBits, kWhole, MatchLists<StripThreads<kBits>::kCount>>;
  extern __shared__ uint4 counters[];
  __shared__ typename Search::Shared shared;
  const std::uint32_t strip = blockIdx.x / search.queries;
  const std::uint32_t strips = compute::kTileRows / search.strip_rows;
  const std::uint32_t number = strip / strips;
  const MatchTileView tile = search.tiles[number];
  const std::uint32_t first = strip % strips * search.strip_rows;
  if (first >= tile.rows) return;
  const std::uint32_t query = blockIdx.x % search.queries;
  Search(search, shared, counters, tile, number, first)
      .run(query, [&](const auto& counted, auto& lists, std::uint64_t floor) {
        if (search.sums == nullptr) {
          return count_postings(search, tile, query, counted, lists, floor);
        }
        counted.load(search.sums + std::size_t{number} * compute::kTileRows);
        return true;
      });
}

template <unsigned kBits, bool kWhole>
void launch(const MatchSearchView& search, cudaStream_t stream) {
  auto* const kernel = count_kernel<kBits, kWhole>;
  const std::size_t bytes = std::size_t{search.strip_rows} * kBits / 8;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "counting matches");
  const unsigned blocks =
      search.tile_count * (compute::kTileRows / search.strip_rows) * search.queries;
  kernel<<<blocks, StripThreads<kBits>::kCount, bytes, stream>>>(search);
  check_launch("counting matches");
}

template <unsigned kBits>
constexpr std::size_t other_memory() {
  constexpr unsigned kThreads = StripThreads<kBits>::kCount;
  return sizeof(StripShared<kThreads, MatchLists<kThreads>>);
}

}  // namespace

std::uint32_t match_strip_rows(unsigned bits, std::size_t shared_memory) {
  const std::size_t other = bits == 4   ? other_memory<4>()
                            : bits == 8 ? other_memory<8>()
                                        : other_memory<16>();
  std::uint32_t rows = compute::kTileRows;
  while (std::size_t{rows} * bits / 8 + other > shared_memory) rows /= 2;
  return rows;
}

void launch_match_count(const MatchSearchView& search, cudaStream_t stream) {
  const bool whole = search.strip_rows == compute::kTileRows;
  if (search.bits == 4) {
    whole ? launch<4, true>(search, stream) : launch<4, false>(search, stream);
  } else if (search.bits == 8) {
    whole ? launch<8, true>(search, stream) : launch<8, false>(search, stream);
  } else if (search.bits == 16) {
    whole ? launch<16, true>(search, stream) : launch<16, false>(search, stream);
  } else {
    launch<32, false>(search, stream);
  }
}

}  // namespace warplite::gpu
