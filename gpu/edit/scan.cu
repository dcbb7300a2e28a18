// Compares queries of up to kMostEditWords words with all texts.
#include <algorithm>

#include "gpu/edit/scan.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
// Groups that a thread block takes.
constexpr std::uint32_t kChunk = 128;
constexpr std::uint32_t kTileChunks = compute::kTileRows / compute::kEditGroup / kChunk;
// Texts that are looked at first: so many groups, in each of up to so many tiles.
constexpr std::uint32_t kPrimeGroups = 32;
constexpr std::uint32_t kPrimeTiles = 96;

constexpr unsigned queries_at_once(unsigned words) {
  return words == 1 ? 8 : words == 2 ? 4 : words <= 4 ? 2 : 1;
}

// Lane i of each warp knows this of the i-th query.
struct OwnQuery {
  std::uint32_t number, length;
  bool some;

  __device__ OwnQuery(const EditSearchView& search, std::uint32_t first, unsigned queries) {
    number = first + threadIdx.x % 32;
    some = threadIdx.x % 32 < queries && number < search.queries;
    length = some ? search.begins[number + 1] - search.begins[number] : 0;
  }
  __device__ std::uint32_t threshold(const EditSearchView& search) const {
    return some ? __ldcg(search.thresholds + number) : 0;
  }
  __device__ bool near(std::uint32_t threshold, std::uint32_t least, std::uint32_t most) const {
    return some && may_be_near(length, threshold, least, most);
  }
};

template <unsigned kWords, unsigned kQueries, typename Symbol>
__global__ void __launch_bounds__(kThreads)
    scan_kernel(const __grid_constant__ EditSearchView search, std::uint32_t first_tile) {
  __shared__ EditOccurrences<kWords, kQueries, Symbol> occurrences;
  const std::uint32_t batches = (search.queries + kQueries - 1) / kQueries;
  const std::uint32_t first = blockIdx.x % batches * kQueries, chunk = blockIdx.x / batches;
  const std::uint32_t number = first_tile + chunk / kTileChunks;
  const EditTileView tile = search.tiles[number];
  const std::uint32_t first_group = chunk % kTileChunks * kChunk;
  const std::uint32_t end = min(first_group + kChunk, tile.groups);
  if (first_group >= end) return;
  const OwnQuery query(search, first, kQueries);
  const std::uint32_t least = tile.lengths[first_group * compute::kEditGroup];
  const std::uint32_t most = tile.begins[end] - tile.begins[end - 1];
  const bool near = __ldcg(search.stop) == 0 && query.near(query.threshold(search), least, most);
  if (__syncthreads_or(near ? 1 : 0) == 0) return;
  occurrences.make(search, tile, first);
  std::uint32_t compared = 0;
  for (std::uint32_t group = first_group + threadIdx.x / 32; group < end; group += kWarps) {
    const std::uint32_t threshold = query.threshold(search);
    const std::uint32_t stop = __ldcg(search.stop);
    const EditGroupLengths lengths(tile, group);
    const unsigned some =
        __ballot_sync(~0u, stop == 0 && query.near(threshold, lengths.least, lengths.most));
    if (some == 0) continue;
    compared += static_cast<unsigned>(__popc(some)) *
                min(tile.texts - group * compute::kEditGroup, compute::kEditGroup);
    std::uint32_t distances[kQueries];
    edit_distances<kWords, kQueries, Symbol>(tile, group, lengths, query.length, occurrences,
                                             distances);
    take_distances<kQueries>(search, EditText(tile, number, group), first, threshold, distances);
  }
  if (search.compared != nullptr && threadIdx.x % 32 == 0 && compared != 0) {
    atomicAdd(search.compared, static_cast<unsigned long long>(compared));
  }
}

// The first group with texts as long.
__device__ std::uint32_t group_of(const EditTileView& tile, std::uint32_t length) {
  std::uint32_t low = 0, high = tile.groups;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    if (tile.begins[middle + 1] - tile.begins[middle] < length) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Lowers thresholds to what the k-th of some texts, about as long as the queries, reaches.
template <unsigned kWords, unsigned kQueries, typename Symbol>
__global__ void __launch_bounds__(kThreads)
    prime_kernel(const __grid_constant__ EditSearchView search, EditTiles tiles,
                 std::uint32_t groups, std::uint32_t parts) {
  __shared__ EditOccurrences<kWords, kQueries, Symbol> occurrences;
  __shared__ std::uint32_t tallies[kQueries][kEditBins];
  const std::uint32_t first = blockIdx.x / parts * kQueries;
  const std::uint32_t number = tiles.first + blockIdx.x % parts * tiles.count / parts;
  const EditTileView tile = search.tiles[number];
  if (__syncthreads_or(static_cast<int>(__ldcg(search.stop))) != 0) return;
  for (unsigned i = threadIdx.x; i < kQueries * kEditBins; i += kThreads) {
    tallies[i / kEditBins][i % kEditBins] = 0;
  }
  occurrences.make(search, tile, first);
  const OwnQuery query(search, first, kQueries);
  const std::uint32_t middle = group_of(tile, __shfl_sync(~0u, query.length, 0));
  const std::uint32_t begin = middle > groups / 2 ? min(middle - groups / 2, tile.groups) : 0;
  const std::uint32_t end = min(begin + groups, tile.groups);
  for (std::uint32_t group = begin + threadIdx.x / 32; group < end; group += kWarps) {
    if (__any_sync(~0u, __ldcg(search.stop) != 0)) break;
    const EditGroupLengths lengths(tile, group);
    std::uint32_t distances[kQueries];
    edit_distances<kWords, kQueries, Symbol>(tile, group, lengths, query.length, occurrences,
                                             distances);
    const EditText text(tile, number, group);
#pragma unroll
    for (unsigned i = 0; i < kQueries; ++i) {
      if (!text.counts || distances[i] < search.least) continue;
      atomicAdd(&tallies[i][min(distances[i] >> search.shift, kEditBins - 1)], 1u);
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x / 32; i < kQueries && first + i < search.queries; i += kWarps) {
    const std::uint32_t lower =
        tallied_threshold([&](std::uint32_t bin) { return tallies[i][bin]; }, kEditBins - 1,
                          search.k, search.shift);
    if (threadIdx.x % 32 == 0) atomicMin(search.thresholds + first + i, lower);
  }
}

template <unsigned kWords, unsigned kQueries, typename Symbol>
void scan(const EditSearchView& search, const EditTiles& tiles, cudaStream_t stream) {
  const unsigned batches = (search.queries + kQueries - 1) / kQueries;
  scan_kernel<kWords, kQueries, Symbol>
      <<<batches * tiles.count * kTileChunks, kThreads, 0, stream>>>(search, tiles.first);
  check_launch("comparing texts");
}

template <unsigned kWords, unsigned kQueries, typename Symbol>
void prime(const EditSearchView& search, const EditTiles& tiles, cudaStream_t stream) {
  const unsigned batches = (search.queries + kQueries - 1) / kQueries;
  const std::uint32_t groups =
      std::max(kPrimeGroups, 4 * std::min(search.k, compute::kTileRows) / compute::kEditGroup);
  const std::uint32_t parts = std::min(tiles.count, kPrimeTiles);
  prime_kernel<kWords, kQueries, Symbol>
      <<<batches * parts, kThreads, 0, stream>>>(search, tiles, groups, parts);
  check_launch("comparing the first texts");
}

// Calls body.template operator()<words, queries, symbol>().
template <unsigned kWords, unsigned kQueries, typename Body>
void with_symbols(std::uint32_t width, const Body& body) {
  if (width == 1) return body.template operator()<kWords, kQueries, std::uint8_t>();
  if (width == 2) return body.template operator()<kWords, kQueries, std::uint16_t>();
  body.template operator()<kWords, kQueries, std::uint32_t>();
}

template <unsigned kWords, typename Body>
void with_words(const EditSearchView& search, std::uint32_t width, const Body& body) {
  constexpr unsigned kQueries = queries_at_once(kWords);
  if constexpr (kQueries > 1) {
    if (search.queries > kQueries / 2) return with_symbols<kWords, kQueries>(width, body);
  }
  with_symbols<kWords, 1>(width, body);
}

template <typename Body>
void with_kernel(const EditSearchView& search, std::uint32_t words, std::uint32_t width,
                 const Body& body) {
  switch (words) {
    case 1: return with_words<1>(search, width, body);
    case 2: return with_words<2>(search, width, body);
    case 3: return with_words<3>(search, width, body);
    case 4: return with_words<4>(search, width, body);
    default: return with_words<kMostEditWords>(search, width, body);
  }
}

}  // namespace

std::uint32_t edit_words(std::uint32_t points) {
  const std::uint32_t words = (points + 31) / 32;
  return words <= 1 ? 1 : words <= 4 ? words : kMostEditWords;
}

void launch_edit_prime(const EditSearchView& search, const EditTiles& tiles, std::uint32_t words,
                       cudaStream_t stream) {
  with_kernel(search, words, tiles.width,
              [&]<unsigned kWords, unsigned kQueries, typename Symbol>() {
                prime<kWords, kQueries, Symbol>(search, tiles, stream);
              });
}

void launch_edit_scan(const EditSearchView& search, const EditTiles& tiles, std::uint32_t words,
                      cudaStream_t stream) {
  with_kernel(search, words, tiles.width,
              [&]<unsigned kWords, unsigned kQueries, typename Symbol>() {
                scan<kWords, kQueries, Symbol>(search, tiles, stream);
              });
}

}  // namespace warplite::gpu
