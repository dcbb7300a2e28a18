// Makes the look-up tables from slots to slices, and says where in these a row's codes are.
#include "gpu/match/codes_slices.h"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/block_sum.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kLanes = 32;
constexpr unsigned kWarps = kThreads / kLanes;
constexpr unsigned kWords = compute::kTileRows / 32;  // of a bitmap of codes
constexpr unsigned kEach = kWords / kThreads;
constexpr unsigned kWordsOfQueries = kSliceQueries / 32;

// One column of a tile; a thread block makes its ranks and slices.
struct ColumnTables {
  std::uint32_t ends[kWords];    // bitmap of codes at which ranges begin, or no longer hold
  std::uint16_t before[kWords];  // ends in the words before
  std::uint32_t slices[kLanes][kWordsOfQueries + 1];
  BlockSums<kThreads> sums;

  __device__ compute::CodeRange range_of(const SliceView& view, std::uint32_t tile,
                                         std::uint32_t column, std::uint32_t query) const {
    const std::uint32_t item =
        query < view.search.rows.queries ? view.items[column * kSliceQueries + query] : kNoItem;
    if (item == kNoItem) return {};
    return view.search.ranges[std::size_t{tile} * view.search.item_count + item];
  }

  __device__ void mark(std::uint32_t code) { atomicOr(&ends[code / 32], 1u << code % 32); }

  // Ends up to the code.
  __device__ std::uint32_t rank(std::uint32_t code) const {
    return before[code / 32] + __popc(ends[code / 32] & (~0u >> (31 - code % 32)));
  }

  // Returns the number of slots.
  __device__ std::uint32_t make_ranks(const SliceView& view, std::uint32_t tile,
                                      std::uint32_t column) {
    for (unsigned i = threadIdx.x; i < kWords; i += kThreads) ends[i] = 0;
    __syncthreads();
    for (std::uint32_t query = threadIdx.x; query < kSliceQueries; query += kThreads) {
      const compute::CodeRange range = range_of(view, tile, column, query);
      if (range.low > range.high) continue;
      mark(range.low);
      if (range.high != 0xffff) mark(range.high + 1u);
    }
    __syncthreads();
    std::uint32_t own = 0;
    for (unsigned i = 0; i < kEach; ++i) own += __popc(ends[threadIdx.x * kEach + i]);
    unsigned total = 0;
    std::uint32_t at = exclusive_sum<kThreads>(own, sums, total);
    for (unsigned i = 0; i < kEach; ++i) {
      before[threadIdx.x * kEach + i] = static_cast<std::uint16_t>(at);
      at += __popc(ends[threadIdx.x * kEach + i]);
    }
    __syncthreads();
    return total + 1;
  }

  // Makes slices of 32 slots from `first` on. Each warp makes those of the queries of some words.
  __device__ void make_slices(const SliceView& view, std::uint32_t tile, std::uint32_t column,
                              std::uint32_t slots, std::uint32_t* out) {
    constexpr unsigned kTurns = kWordsOfQueries / kWarps;
    std::uint32_t begins[kTurns], stops[kTurns];  // slots that the query's range holds
#pragma unroll
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      const std::uint32_t word = turn * kWarps + threadIdx.x / kLanes;
      const compute::CodeRange range =
          range_of(view, tile, column, word * 32 + threadIdx.x % kLanes);
      const bool some = range.low <= range.high;
      begins[turn] = some ? rank(range.low) : 0;
      stops[turn] = !some ? 0 : range.high == 0xffff ? slots : rank(range.high + 1u);
    }
    for (std::uint32_t first = 0; first < slots; first += kLanes) {
#pragma unroll
      for (unsigned turn = 0; turn < kTurns; ++turn) {
        for (unsigned i = 0; i < kLanes; ++i) {
          const std::uint32_t slot = first + i;
          const unsigned slice =
              __ballot_sync(~0u, begins[turn] <= slot && slot < stops[turn]);
          if (threadIdx.x % kLanes == i) {
            slices[i][turn * kWarps + threadIdx.x / kLanes] = slice;
          }
        }
      }
      __syncthreads();
      for (unsigned i = threadIdx.x; i < kLanes * kWordsOfQueries; i += kThreads) {
        const std::uint32_t slot = first + i / kWordsOfQueries;
        if (slot < slots) {
          out[slot * kWordsOfQueries + i % kWordsOfQueries] =
              slices[i / kWordsOfQueries][i % kWordsOfQueries];
        }
      }
      __syncthreads();
    }
  }
};

__global__ void __launch_bounds__(kThreads) tables_kernel(const __grid_constant__ SliceView view) {
  __shared__ ColumnTables tables;
  const std::uint32_t all = view.groups * kSliceColumns;
  const std::uint32_t tile = blockIdx.x / all, column = blockIdx.x % all;
  const std::uint32_t slots = tables.make_ranks(view, tile, column);
  SliceRank* const ranks = view.ranks + std::size_t{blockIdx.x} * kWords;
  for (unsigned i = threadIdx.x; i < kWords; i += kThreads) {
    ranks[i] = {tables.ends[i], tables.before[i]};
  }
  tables.make_slices(view, tile, column, slots,
                     view.slices + std::size_t{blockIdx.x} * kSliceSlots * kWordsOfQueries);
}

// The slot of a row's code; 0, which no query's range holds, where there is none.
__device__ std::uint32_t slot_of(const SliceView& view, std::uint32_t tile, std::uint32_t column,
                                 std::uint32_t row) {
  const std::uint32_t number = view.columns[column];
  if (number == kNoItem) return 0;
  const std::uint16_t* const codes =
      view.search.columns[std::size_t{tile} * view.search.column_count + number];
  if (codes == nullptr) return 0;
  const std::uint32_t code = codes[row];
  const std::uint32_t all = view.groups * kSliceColumns;
  const SliceRank rank = view.ranks[(std::size_t{tile} * all + column) * kWords + code / 32];
  return rank.before + __popc(rank.ends & (~0u >> (31 - code % 32)));
}

// A thread for each row, up to whole strips.
__global__ void __launch_bounds__(kThreads) places_kernel(const __grid_constant__ SliceView view) {
  constexpr std::uint32_t kBlocks = compute::kTileRows / kThreads;
  const std::uint32_t number = blockIdx.x / kBlocks;
  const std::uint32_t row = blockIdx.x % kBlocks * kThreads + threadIdx.x;
  const MatchTileView& tile = view.search.rows.tiles[number];
  if (row / kSliceStrip * kSliceStrip >= tile.rows) return;
  bool lives = row < tile.rows;
  if (lives && tile.live != nullptr) lives = (tile.live[row / 64] >> (row % 64) & 1) != 0;
  uint4* out = view.places +
               (std::size_t{number} * compute::kTileRows + row) * view.groups * kSliceVectors;
  for (std::uint32_t group = 0; group < view.groups; ++group, out += kSliceVectors) {
    std::uint32_t places[kSliceColumns + 1] = {};
#pragma unroll
    for (unsigned i = 0; i < kSliceColumns; ++i) {
      const std::uint32_t column = group * kSliceColumns + i;
      const std::uint32_t slot = lives ? slot_of(view, number, column, row) : 0;
      places[i] = (column * kSliceSlots + slot) * kWordsOfQueries;
    }
    out[0] = {places[0], places[1], places[2], places[3]};
    out[1] = {places[4], places[5], places[6], places[7]};
  }
}

}  // namespace

void launch_slice_tables(const SliceView& view, cudaStream_t stream) {
  const unsigned tiles = view.search.rows.tile_count;
  tables_kernel<<<tiles * view.groups * kSliceColumns, kThreads, 0, stream>>>(view);
  check_launch("making slices of codes");
  places_kernel<<<tiles * (compute::kTileRows / kThreads), kThreads, 0, stream>>>(view);
  check_launch("placing codes");
}

}  // namespace warplite::gpu
