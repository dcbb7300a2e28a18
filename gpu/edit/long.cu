// Compares a query of any length with all texts: word after word of it in each column, whose bits
// lie in global memory. Where a character occurs in the query is found by a look at the query.
#include <algorithm>

#include "gpu/edit/hits.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 32;  // a warp to a thread block
constexpr std::uint32_t kWordsBetweenStops = 256;

struct LongQuery {
  const std::uint32_t* points;
  std::uint32_t length, words, before;  // before: bits of the first word before the query

  __device__ explicit LongQuery(const EditSearchView& search)
      : points(search.points), length(search.begins[1]), words((length + 31) / 32),
        before(32 * words - length) {}

  // Returns where the point occurs in a word.
  __device__ std::uint32_t equal(std::uint32_t word, std::uint32_t point) const {
    std::uint32_t bits = 0;
    const std::uint32_t first = word * 32;
    for (std::uint32_t bit = word == 0 ? before : 0; bit < 32; ++bit) {
      bits |= (__ldg(points + (first + bit - before)) == point ? 1u : 0u) << bit;
    }
    return bits;
  }
};

// The columns of a warp's texts, in global memory.
struct LongColumns {
  std::uint32_t* plus;  // [words][2][32], the lane's; minus follows plus

  __device__ void begin(const LongQuery& query) const {
    for (std::uint32_t w = 0; w < query.words; ++w) {
      plus[w * 64] = w == 0 ? ~0u << query.before : ~0u;
      plus[w * 64 + 32] = 0;
    }
  }

  // One word of a column; `up`, `down`: the horizontal difference above it, and then below.
  __device__ void advance(std::uint32_t word, std::uint32_t equal, std::uint32_t& up,
                          std::uint32_t& down) const {
    const std::uint32_t more = plus[word * 64], less = plus[word * 64 + 32];
    const std::uint32_t vertical = equal | less;
    equal |= down;
    const std::uint32_t diagonal = (((equal & more) + more) ^ more) | equal;
    const std::uint32_t ups = less | ~(diagonal | more), downs = more & diagonal;
    const std::uint32_t up_in = ups << 1 | up, down_in = downs << 1 | down;
    plus[word * 64] = down_in | ~(vertical | up_in);
    plus[word * 64 + 32] = up_in & vertical;
    up = ups >> 31;
    down = downs >> 31;
  }

  __device__ std::uint32_t distance(const LongQuery& query, std::uint32_t text_length) const {
    std::uint32_t sum = text_length;
    for (std::uint32_t w = 0; w < query.words; ++w) {
      sum += __popc(plus[w * 64]) - __popc(plus[w * 64 + 32]);
    }
    return sum;
  }
};

template <typename Symbol>
__device__ std::uint32_t point_of(const EditTileView& tile, Symbol symbol) {
  return sizeof(Symbol) == 4 ? symbol : tile.alphabet[symbol];
}

// False: the search was cancelled.
template <typename Symbol>
__device__ bool advance_all(const EditSearchView& search, const EditTileView& tile,
                            std::uint32_t group, const LongQuery& query,
                            const LongColumns& columns) {
  const std::uint32_t begin = tile.begins[group], end = tile.begins[group + 1];
  const std::uint32_t length = tile.lengths[group * compute::kEditGroup + threadIdx.x];
  const auto* const symbols = static_cast<const Symbol*>(tile.symbols) + threadIdx.x;
  std::uint32_t steps = 0;
  for (std::uint32_t at = begin; at < end; ++at) {
    const bool goes_on = at - begin < length;
    const std::uint32_t point =
        goes_on ? point_of(tile, symbols[std::size_t{at} * compute::kEditGroup]) : 0;
    std::uint32_t up = 1, down = 0;
    for (std::uint32_t w = 0; w < query.words; ++w) {
      if (++steps % kWordsBetweenStops == 0 && __any_sync(~0u, __ldcg(search.stop) != 0)) {
        return false;
      }
      if (goes_on) columns.advance(w, query.equal(w, point), up, down);
    }
  }
  return true;
}

template <typename Symbol>
__global__ void __launch_bounds__(kThreads)
    long_kernel(const __grid_constant__ EditSearchView search, EditTiles tiles,
                std::uint32_t tile_groups) {
  const LongQuery query(search);
  const LongColumns columns{search.states + std::size_t{blockIdx.x} * query.words * 64 +
                            threadIdx.x};
  for (std::uint32_t i = blockIdx.x; i < tiles.count * tile_groups; i += gridDim.x) {
    const std::uint32_t number = tiles.first + i / tile_groups, group = i % tile_groups;
    const EditTileView tile = search.tiles[number];
    if (group >= tile.groups) continue;
    if (__any_sync(~0u, __ldcg(search.stop) != 0)) return;
    columns.begin(query);
    if (!advance_all<Symbol>(search, tile, group, query, columns)) return;
    const EditText text(tile, number, group);
    const std::uint32_t length = tile.lengths[group * compute::kEditGroup + threadIdx.x];
    const std::uint32_t distances[1] = {columns.distance(query, length)};
    take_distances<1>(search, text, 0, __ldcg(search.thresholds), distances);
    if (search.compared == nullptr || threadIdx.x != 0) continue;
    const std::uint32_t texts = tile.texts - group * compute::kEditGroup;
    atomicAdd(search.compared, static_cast<unsigned long long>(min(texts, compute::kEditGroup)));
  }
}

}  // namespace

void launch_edit_long(const EditSearchView& search, const EditTiles& tiles, cudaStream_t stream) {
  constexpr std::uint32_t kTileGroups = compute::kTileRows / compute::kEditGroup;
  auto* const kernel = tiles.width == 1   ? long_kernel<std::uint8_t>
                       : tiles.width == 2 ? long_kernel<std::uint16_t>
                                          : long_kernel<std::uint32_t>;
  kernel<<<search.state_warps, kThreads, 0, stream>>>(search, tiles, kTileGroups);
  check_launch("comparing texts with a long one");
}

}  // namespace warplite::gpu
