// Several queries of up to kWords words, and how a warp compares a group of texts with them.
#pragma once

#include <cstdint>

#include "gpu/edit/columns.cuh"
#include "gpu/edit/hits.cuh"

namespace warplite::gpu {

// EditOccurrences say where a tile's symbols occur in the queries. They lie in shared memory and
// are made by the whole thread block.
template <unsigned kWords, unsigned kQueries, typename Symbol>
struct EditOccurrences {
  static constexpr bool kHashed = sizeof(Symbol) != 1;
  // Twice as many as the queries have characters, or all symbols.
  static constexpr std::uint32_t kSlots = kHashed ? 512 : 256;
  static constexpr std::uint32_t kEmpty = 0xffffffffu;
  static_assert(!kHashed || kSlots >= 2 * 32 * kWords * kQueries);

  std::uint32_t words[kQueries][kWords][kSlots];
  std::uint32_t keys[kHashed ? kSlots : 1];

  __device__ void make(const EditSearchView& search, const EditTileView& tile,
                       std::uint32_t first) {
    __syncthreads();
    auto* const all = &words[0][0][0];
    for (unsigned i = threadIdx.x; i < kQueries * kWords * kSlots; i += blockDim.x) all[i] = 0;
    if constexpr (kHashed) {
      for (unsigned i = threadIdx.x; i < kSlots; i += blockDim.x) keys[i] = kEmpty;
    }
    __syncthreads();
    const std::uint32_t end = min(first + kQueries, search.queries);
    const std::uint32_t begin_point = search.begins[first], end_point = search.begins[end];
    for (std::uint32_t i = begin_point + threadIdx.x; i < end_point; i += blockDim.x) {
      std::uint32_t query = first;
      while (search.begins[query + 1] <= i) ++query;
      const std::uint32_t symbol = symbol_of(tile, search.points[i]);
      if (symbol == kEmpty) continue;
      // The query stands at the upper end.
      const std::uint32_t bit = 32 * kWords - (search.begins[query + 1] - i);
      atomicOr(&words[query - first][bit / 32][insert(symbol)], 1u << bit % 32);
    }
    __syncthreads();
  }

  __device__ std::uint32_t slot(std::uint32_t symbol) const {
    if constexpr (kHashed) {
      std::uint32_t at = hash(symbol);
      while (keys[at] != symbol && keys[at] != kEmpty) at = (at + 1) % kSlots;
      return at;
    } else {
      return symbol;
    }
  }

 private:
  __device__ static std::uint32_t hash(std::uint32_t symbol) {
    return symbol * 0x9e3779b1u >> 23;
  }
  static_assert(!kHashed || kSlots == 1u << (32 - 23));

  // kEmpty: no text of the tile has it.
  __device__ static std::uint32_t symbol_of(const EditTileView& tile, std::uint32_t point) {
    if (sizeof(Symbol) == 4) return point;
    std::uint32_t low = 0, high = tile.alphabet_size;
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (tile.alphabet[middle] < point) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < tile.alphabet_size && tile.alphabet[low] == point ? low : kEmpty;
  }

  __device__ std::uint32_t insert(std::uint32_t symbol) {
    if constexpr (kHashed) {
      for (std::uint32_t at = hash(symbol);; at = (at + 1) % kSlots) {
        const std::uint32_t before = atomicCAS(&keys[at], kEmpty, symbol);
        if (before == kEmpty || before == symbol) return at;
      }
    } else {
      return symbol;
    }
  }
};

// The lengths of a group, and of the lane's text; 0 where there is none.
struct EditGroupLengths {
  std::uint32_t own, least, most;

  __device__ EditGroupLengths(const EditTileView& tile, std::uint32_t group) {
    own = tile.lengths[group * compute::kEditGroup + threadIdx.x % 32];
    most = tile.begins[group + 1] - tile.begins[group];
    least = __shfl_sync(~0u, own, 0);
  }
};

// Says whether the lengths of a query and of texts let a distance be within the threshold.
__device__ inline bool may_be_near(std::uint32_t query, std::uint32_t threshold,
                                   std::uint32_t least, std::uint32_t most) {
  return (query <= most || query - most <= threshold) &&
         (query >= least || least - query <= threshold);
}

// Distances of the lane's text from the queries, whose lengths are in lanes 0, 1, …
template <unsigned kWords, unsigned kQueries, typename Symbol>
__device__ void edit_distances(const EditTileView& tile, std::uint32_t group,
                               const EditGroupLengths& lengths, std::uint32_t query_length,
                               const EditOccurrences<kWords, kQueries, Symbol>& occurrences,
                               std::uint32_t (&distances)[kQueries]) {
  EditColumn<kWords> columns[kQueries];
#pragma unroll
  for (unsigned i = 0; i < kQueries; ++i) columns[i].begin(__shfl_sync(~0u, query_length, i));
  const Symbol* symbols = static_cast<const Symbol*>(tile.symbols) +
                          std::size_t{tile.begins[group]} * compute::kEditGroup + threadIdx.x % 32;
  const auto advance = [&](std::uint32_t symbol) {
    const std::uint32_t slot = occurrences.slot(symbol);
#pragma unroll
    for (unsigned i = 0; i < kQueries; ++i) {
      std::uint32_t equal[kWords];
#pragma unroll
      for (unsigned w = 0; w < kWords; ++w) equal[w] = occurrences.words[i][w][slot];
      columns[i].advance(equal);
    }
  };
  // First all texts go on together, up to the end of the shortest; then only those that are longer.
  std::uint32_t at = 0;
#pragma unroll 4
  for (; at < lengths.least; ++at) advance(__ldg(symbols + at * compute::kEditGroup));
  for (; at < lengths.most; ++at) {
    if (at < lengths.own) advance(__ldg(symbols + at * compute::kEditGroup));
  }
#pragma unroll
  for (unsigned i = 0; i < kQueries; ++i) distances[i] = columns[i].distance(lengths.own);
}

}  // namespace warplite::gpu
