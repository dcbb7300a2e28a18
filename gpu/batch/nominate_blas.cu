// The product by cuBLAS: some rows at a time lie dense in scratch memory, cuBLAS multiplies them by some of the
// queries, and a kernel of ours compares the sums with the queries' limits.
#include <algorithm>

#include "gpu/batch/nominate_common.cuh"
#include "gpu/batch/nominate_kernels.h"
#include "gpu/runtime/arena.h"
#include "gpu/runtime/blas.h"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256, kWarps = kThreads / kWarp;
constexpr std::uint32_t kTileRows = kSmallTile.rows;
static_assert(kTileRows == kPanelRows && kSmallTile.queries == kPanelRows, "a tile is a panel");
static_assert(kTileRows == kWarp * 4, "a thread takes four rows");

// What cuBLAS asks for on Hopper, and what there is of sums and of rows at a time.
constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr std::size_t kMostSums = std::size_t{16} << 20, kMostElements = std::size_t{16} << 20;
constexpr std::uint32_t kMostQueries = 4096;

std::uint32_t tiles_at_once(std::uint32_t dim, std::uint32_t queries) {
  const std::size_t by_sums = kMostSums / (std::size_t{queries} * kTileRows);
  const std::size_t by_elements = kMostElements / (std::size_t{padded_elements(dim)} * kTileRows);
  return static_cast<std::uint32_t>(std::max<std::size_t>(std::min(by_sums, by_elements), 1));
}

// What lies in scratch memory.
struct BlasPieces {
  std::size_t tile_queries, padded;
  Plan plan{};
  Slot<std::byte> workspace{plan, kWorkspace};
  Slot<std::uint16_t> queries{plan, tile_queries * padded};
  Slot<std::uint16_t> rows{plan, std::max(kMostElements, kTileRows * padded)};
  Slot<float> sums{plan, kMostSums};
};
static_assert(std::size_t{kMostQueries} * kTileRows <= kMostSums);

// A thread block writes the vectors of a panel one after the other.
__device__ void spread(const std::uint16_t* panel, std::uint32_t dim, std::uint16_t* out) {
  const std::uint32_t chunks = padded_elements(dim) / 8;
  for (std::uint32_t i = threadIdx.x; i < kPanelRows * chunks; i += kThreads) {
    const std::size_t from = panel_offset(i / chunks, i % chunks * 8, dim, kPanelRows);
    reinterpret_cast<uint4*>(out)[i] = *reinterpret_cast<const uint4*>(panel + from);
  }
}

__global__ void spread_queries_kernel(const std::uint16_t* halves, std::uint32_t dim, std::uint16_t* out) {
  const std::size_t at = std::size_t{blockIdx.x} * kPanelRows * padded_elements(dim);
  spread(halves + at, dim, out + at);
}

__global__ void spread_rows_kernel(const RowTile* tiles, std::uint32_t dim, std::uint16_t* out) {
  spread(tiles[blockIdx.x].rows, dim, out + std::size_t{blockIdx.x} * kTileRows * padded_elements(dim));
}

// Sums of some tiles and some queries.
struct Part {
  const float* sums;  // [queries][tiles · kTileRows]
  std::uint32_t first_tile, tiles;
  std::uint32_t first_query, queries;
};

// As Finish::keep_all() and Finish::nominate(), for four rows of one query.
template <bool kKeepAll>
__device__ void take(const Nominees& out, const float4 (&terms)[4], const float4& four,
                     const Found& first, std::uint32_t slot) {
  const float sums[4] = {four.x, four.y, four.z, four.w};
  const float limit = out.limits[first.query];
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    const float bound = fmaf(sums[i], terms[i].x, terms[i].y);
    if constexpr (kKeepAll) {
      if (!(limit > 0)) return;
      const std::size_t at = std::size_t{first.query} * out.capacity + slot + i;
      out.bounds[at] = {bound, bound + terms[i].z};
      out.ordinals[at] = first.ordinal + i;
    } else if (bound <= limit) {
      append(out, {bound, bound + terms[i].z, first.ordinal + i, first.query});
    }
  }
}

// A warp takes one tile, and kSlice queries of the part one after the other, the sums of some of them being on
// their way at a time.
constexpr unsigned kSlice = 64, kAhead = 4;

template <bool kKeepAll>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const __grid_constant__ Nominate work, const __grid_constant__ Part part) {
  const std::uint32_t number = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (number >= part.tiles) return;
  const std::uint32_t row = threadIdx.x % kWarp * 4;
  const RowTile tile = work.tiles[part.first_tile + number];
  const QueryExtremes extremes = load_extremes(work.prepared.extremes, work.dim);
  float4 terms[4];
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) terms[i] = row_terms(work, tile, row + i, extremes);

  const std::size_t stride = std::size_t{part.tiles} * kTileRows;
  const float* const sums = part.sums + std::size_t{number} * kTileRows + row;
  const std::uint32_t slot = (part.first_tile + number) * kTileRows + row;
  const std::uint32_t end = min(part.queries, (blockIdx.y + 1) * kSlice);
  for (std::uint32_t query = blockIdx.y * kSlice; query < end; query += kAhead) {
    float4 ahead[kAhead];
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      ahead[i] = *reinterpret_cast<const float4*>(sums + min(query + i, end - 1) * stride);
    }
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      if (query + i >= end) break;
      const Found first{0, 0, tile.first_ordinal + row, part.first_query + query + i};
      take<kKeepAll>(work.nominees, terms, ahead[i], first, slot);
    }
  }
}

void launch_finish(const Nominate& work, const Part& part, cudaStream_t stream) {
  const dim3 blocks((part.tiles + kWarps - 1) / kWarps, (part.queries + kSlice - 1) / kSlice);
  const auto kernel = work.keep_all ? finish_kernel<true> : finish_kernel<false>;
  kernel<<<blocks, kThreads, 0, stream>>>(work, part);
  check_launch("nominating rows");
}

std::uint32_t tiled(std::uint32_t queries) { return (queries + kPanelRows - 1) / kPanelRows * kPanelRows; }

}  // namespace

std::size_t blas_scratch_bytes(std::uint32_t dim, std::uint32_t tile_queries) {
  return BlasPieces{tile_queries, padded_elements(dim)}.plan.size();
}

void launch_blas(const Nominate& work, cudaStream_t stream) {
  const std::uint32_t queries = work.nominees.queries, padded = padded_elements(work.dim);
  const BlasPieces at{tiled(queries), padded};
  const Arena arena(work.scratch);
  work.blas->set_workspace(arena.bytes(at.workspace), at.workspace.bytes());
  spread_queries_kernel<<<tiled(queries) / kPanelRows, kThreads, 0, stream>>>(work.prepared.halves, work.dim,
                                                                           arena[at.queries]);
  check_launch("nominating rows");
  const std::uint32_t parts = (queries + kMostQueries - 1) / kMostQueries;
  const std::uint32_t some_queries = (queries + parts - 1) / parts;
  const std::uint32_t some_tiles = tiles_at_once(work.dim, some_queries);
  for (std::uint32_t tile = 0; tile < work.tile_count; tile += some_tiles) {
    const std::uint32_t tiles = std::min(some_tiles, work.tile_count - tile);
    spread_rows_kernel<<<tiles, kThreads, 0, stream>>>(work.tiles + tile, work.dim, arena[at.rows]);
    check_launch("nominating rows");
    for (std::uint32_t query = 0; query < queries; query += some_queries) {
      const std::uint32_t count = std::min(some_queries, queries - query);
      work.blas->multiply({arena[at.rows], arena[at.queries] + std::size_t{query} * padded, arena[at.sums],
                           tiles * kTileRows, count, padded});
      launch_finish(work, {arena[at.sums], tile, tiles, query, count}, stream);
    }
  }
}

}  // namespace warplite::gpu
