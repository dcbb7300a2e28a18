// Which rows have an entry in common with a query.
#include "gpu/runtime/cuda_error.h"
#include "gpu/sparse/lists.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kSparseLanes;
constexpr std::uint32_t kWords = kSparseStrip / 32;
constexpr std::uint32_t kGroup = 16;  // rows: a vector of a column

// Bit i: byte i is not 0.
__device__ std::uint32_t bits_of(std::uint32_t word) {
  std::uint32_t bits = 0;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) bits |= (word >> (8 * i) & 0xff) != 0 ? 1u << i : 0;
  return bits;
}

__device__ void mark_lists(const SparseTileView& tile, std::uint32_t first, std::uint32_t rows,
                           const SparseLists<kThreads>& lists, std::uint32_t* words) {
  for (std::uint32_t i = threadIdx.x / kSparseLanes; i < lists.count; i += kWarps) {
    const auto list = lists.lists[i];
    if (list.end == lists.kColumn) continue;
    for (std::uint32_t p = list.begin + threadIdx.x % kSparseLanes; p < list.end;
         p += kSparseLanes) {
      const std::uint32_t place = tile.places[p] - first;
      if (place >= rows) continue;
      const std::uint32_t row = compute::sparse_row(place);
      atomicOr(words + row / 32, 1u << row % 32);
    }
  }
}

__device__ void mark_columns(const SparseTileView& tile, std::uint32_t first, std::uint32_t rows,
                             const SparseLists<kThreads>& lists, std::uint32_t* words) {
  for (std::uint32_t g = threadIdx.x; g < rows / kGroup; g += kThreads) {
    uint4 all{};
    for (std::uint32_t i = 0; i < lists.count; ++i) {
      if (lists.lists[i].end != lists.kColumn) continue;
      const std::size_t begin = std::size_t{lists.lists[i].begin} * tile.padded_rows + first;
      const uint4 some = reinterpret_cast<const uint4*>(tile.columns + begin)[g];
      all = {all.x | some.x, all.y | some.y, all.z | some.z, all.w | some.w};
    }
    const std::uint32_t bits =
        bits_of(all.x) | bits_of(all.y) << 4 | bits_of(all.z) << 8 | bits_of(all.w) << 12;
    if (bits != 0) atomicOr(words + g / 2, bits << (g % 2 * 16));
  }
}

__global__ void __launch_bounds__(kThreads)
    marks_kernel(const __grid_constant__ SparseSearchView search, std::uint32_t strips,
                 std::uint32_t* marks) {
  __shared__ SparseLists<kThreads> lists;
  __shared__ std::uint32_t words[kWords];
  const std::uint32_t strip = blockIdx.x / search.queries, query = blockIdx.x % search.queries;
  const SparseStrip at = search.strips[strip];
  const SparseTileView tile = search.tiles[at.tile];
  for (std::uint32_t i = threadIdx.x; i < kWords; i += kThreads) words[i] = 0;
  const std::uint32_t first = search.begins[query];
  lists.find(tile, search.entries + first, search.begins[query + 1] - first);
  if (lists.count > lists.kMost) return;
  const std::uint32_t rows = sparse_strip_rows(tile, at.first);
  mark_lists(tile, at.first, rows, lists, words);
  mark_columns(tile, at.first, rows, lists, words);
  __syncthreads();
  std::uint32_t* const out = marks + (std::size_t{query} * strips + strip) * kWords;
  for (std::uint32_t i = threadIdx.x; i < kWords; i += kThreads) out[i] = words[i];
}

}  // namespace

void launch_sparse_marks(const SparseSearchView& search, std::uint32_t strips, std::uint32_t* marks,
                         cudaStream_t stream) {
  marks_kernel<<<strips * search.queries, kThreads, 0, stream>>>(search, strips, marks);
  check_launch("marking sparse vectors");
}

}  // namespace warplite::gpu
