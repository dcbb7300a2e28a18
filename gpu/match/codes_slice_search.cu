// Counting by slices: what the k-th best row of each query counts, and the rows that count as much.
#include "gpu/match/slice_counts.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kWarps = kThreads / 32;
constexpr std::uint32_t kWarpRows = kSliceStrip / kWarps;
constexpr std::uint32_t kTallyRows = 128;
static_assert(kWarpRows % kTallyRows == 0);

// A strip and the rows of it that are a warp's.
struct WarpRows {
  std::uint32_t tile, first, end;

  __device__ explicit WarpRows(std::uint32_t strip)
      : tile(strip / kTileStrips),
        first(strip % kTileStrips * kSliceStrip + threadIdx.x / 32 * kWarpRows),
        end(first + kWarpRows) {}
  __device__ const uint4* places(const SliceView& view) const {
    return view.places + std::size_t{tile} * compute::kTileRows * view.groups * kSliceVectors;
  }
  // The lane's words. The compiler is kept from taking the address apart, so that a look-up costs
  // one instruction, not four.
  __device__ const std::uint32_t* slices(const SliceView& view) const {
    const std::size_t each = std::size_t{kSliceColumns} * view.groups * kSliceSlots * 32;
    const std::uint32_t* words = view.slices + tile * each + threadIdx.x % 32;
    asm("" : "+l"(words));
    return words;
  }
};

__device__ bool skipped(const SliceView& view, std::uint32_t strip) {
  const MatchTileView& tile = view.search.rows.tiles[strip / kTileStrips];
  const int stop = threadIdx.x == 0 && __ldcg(view.search.rows.stop) != 0 ? 1 : 0;
  return __syncthreads_or(stop) != 0 || strip % kTileStrips * kSliceStrip >= tile.rows;
}

// Counts how many rows of the strip reach each of the thresholds.
template <unsigned kGroups, bool kLimited, unsigned kSteps>
__device__ void tally_strip(const SliceView& view, std::uint32_t strip,
                            std::uint32_t (&pairs)[kSteps][16][32]) {
  SliceThreshold<kGroups> thresholds[kSteps], above;
#pragma unroll
  for (unsigned i = 0; i < kSteps; ++i) {
    thresholds[i].load(view.thresholds + i * kMostSliceBits * 32);
  }
  above.set(kLimited ? view.search.rows.most + 1 : 0);
  const WarpRows rows(strip);
  const uint4* const places = rows.places(view);
  const std::uint32_t* const slices = rows.slices(view);
  for (std::uint32_t first = rows.first; first < rows.end; first += kTallyRows) {
    SliceTally tallies[kSteps];
#pragma unroll
    for (unsigned i = 0; i < kSteps; ++i) tallies[i].clear();
    for (std::uint32_t row = first; row < first + kTallyRows; row += 4) {
      std::uint32_t reached[kSteps][4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        SliceCounts<kGroups> counts;
        counts.count(places + (row + j) * kGroups * kSliceVectors, slices);
        const std::uint32_t counted = kLimited ? ~above.reached(counts) : ~0u;
#pragma unroll
        for (unsigned i = 0; i < kSteps; ++i) {
          reached[i][j] = thresholds[i].reached(counts) & counted;
        }
      }
#pragma unroll
      for (unsigned i = 0; i < kSteps; ++i) tallies[i].add(reached[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < kSteps; ++i) tallies[i].flush(pairs[i]);
  }
}

template <unsigned kSteps>
__device__ void clear(std::uint32_t (&pairs)[kSteps][16][32]) {
  for (unsigned i = threadIdx.x; i < kSteps * 16 * 32; i += kThreads) {
    pairs[i / 512][i / 32 % 16][i % 32] = 0;
  }
  __syncthreads();
}

template <unsigned kGroups, bool kLimited>
__global__ void __launch_bounds__(kThreads, 2)
    totals_kernel(const __grid_constant__ SliceView view) {
  __shared__ std::uint32_t pairs[kSliceSteps][16][32];
  if (skipped(view, blockIdx.x)) return;
  clear(pairs);
  tally_strip<kGroups, kLimited>(view, blockIdx.x, pairs);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kSliceSteps * kSliceQueries; i += kThreads) {
    const std::uint32_t rows = SliceTally::get(pairs[i / kSliceQueries], i % kSliceQueries);
    if (rows != 0) atomicAdd(view.totals + i, rows);
  }
}

// Counts them in each strip, with two thresholds.
template <unsigned kGroups, bool kLimited>
__global__ void __launch_bounds__(kThreads, 2)
    counts_kernel(const __grid_constant__ SliceView view) {
  __shared__ std::uint32_t pairs[2][16][32];
  if (skipped(view, blockIdx.x)) return;
  clear(pairs);
  tally_strip<kGroups, kLimited>(view, blockIdx.x, pairs);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 2 * kSliceQueries; i += kThreads) {
    const std::size_t row = i / kSliceQueries * view.strips + blockIdx.x;
    view.counts[row * kSliceQueries + i % kSliceQueries] =
        static_cast<std::uint16_t>(SliceTally::get(pairs[i / kSliceQueries], i % kSliceQueries));
  }
}

__device__ std::uint32_t step_of(const SliceBounds& bounds, unsigned step) {
  return bounds.low + (bounds.high - bounds.low) * (step + 1) / (kSliceSteps + 1);
}

__device__ void write_threshold(const SliceView& view, unsigned step, std::uint32_t number) {
  for (unsigned bit = 0; bit < kMostSliceBits; ++bit) {
    const unsigned slice = __ballot_sync(~0u, (number >> bit & 1) != 0);
    if (threadIdx.x % 32 == 0) {
      view.thresholds[(step * kMostSliceBits + bit) * 32 + threadIdx.x / 32] = slice;
    }
  }
}

// One thread for each query. Narrows the bounds by what was counted (`counted`), and sets the next
// thresholds: between the bounds, or (`last`) the lower bound and the one above.
__global__ void __launch_bounds__(kSliceQueries)
    narrow_kernel(const __grid_constant__ SliceView view, bool counted, bool last) {
  const std::uint32_t query = threadIdx.x;
  SliceBounds bounds = view.bounds[query];
  if (counted) {
    const SliceBounds before = bounds;
    for (unsigned step = 0; step < kSliceSteps; ++step) {
      const std::uint32_t number = step_of(before, step);
      if (view.totals[step * kSliceQueries + query] >= view.search.rows.k) {
        bounds.low = number;
      } else if (number > bounds.low) {
        bounds.high = number;
        break;
      }
    }
    for (unsigned step = 0; step < kSliceSteps; ++step) {
      view.totals[step * kSliceQueries + query] = 0;
    }
    view.bounds[query] = bounds;
  }
  for (unsigned step = 0; step < kSliceSteps; ++step) {
    write_threshold(view, step, last ? bounds.low + min(step, 1u) : step_of(bounds, step));
  }
}

// A query's strips, in as many parts as there are threads in a column of the block.
constexpr unsigned kParts = 32;

__global__ void __launch_bounds__(32 * kParts) cuts_kernel(const __grid_constant__ SliceView view) {
  __shared__ std::uint32_t all[kParts][32], more[kParts][32];
  const std::uint32_t query = blockIdx.x * 32 + threadIdx.x % 32, part = threadIdx.x / 32;
  const std::uint32_t each = (view.strips + kParts - 1) / kParts;
  const std::uint32_t begin = min(part * each, view.strips), end = min(begin + each, view.strips);
  const auto rows = [&](unsigned step, std::uint32_t strip) -> std::uint32_t {
    const MatchTileView& tile = view.search.rows.tiles[strip / kTileStrips];
    if (strip % kTileStrips * kSliceStrip >= tile.rows) return 0;
    return view.counts[(std::size_t{step} * view.strips + strip) * kSliceQueries + query];
  };
  std::uint32_t own_all = 0, own_more = 0;
  for (std::uint32_t strip = begin; strip < end; ++strip) {
    own_all += rows(0, strip);
    own_more += rows(1, strip);
  }
  all[part][threadIdx.x % 32] = own_all;
  more[part][threadIdx.x % 32] = own_more;
  __syncthreads();
  std::uint32_t before = 0, total = 0, total_more = 0;  // rows at the limit; all that count more
  for (unsigned i = 0; i < kParts; ++i) {
    const std::uint32_t ties = all[i][threadIdx.x % 32] - more[i][threadIdx.x % 32];
    before += i < part ? ties : 0;
    total += ties;
    total_more += more[i][threadIdx.x % 32];
  }
  const std::uint32_t wanted = view.search.rows.k - min(total_more, view.search.rows.k);
  if (wanted >= total && part == 0) view.cuts[query] = view.strips;
  if (wanted == 0 && part == 0) view.cuts[query] = 0;
  if (wanted == 0 || wanted >= total) return;
  for (std::uint32_t strip = begin; strip < end && before < wanted; ++strip) {
    before += rows(0, strip) - rows(1, strip);
    if (before >= wanted) view.cuts[query] = strip + 1;
  }
}

// Writes the rows that count more than the limit, and those at it in strips before the cut.
template <unsigned kGroups, bool kLimited>
__global__ void __launch_bounds__(kThreads, 2) keep_kernel(const __grid_constant__ SliceView view) {
  if (skipped(view, blockIdx.x)) return;
  const MatchSearchView& search = view.search.rows;
  const std::uint32_t lane = threadIdx.x % 32;
  SliceThreshold<kGroups> limit, more, above;
  limit.load(view.thresholds);
  more.load(view.thresholds + kMostSliceBits * 32);
  above.set(kLimited ? search.most + 1 : 0);
  std::uint32_t open = 0;
  for (unsigned i = 0; i < 32; ++i) {
    open |= (blockIdx.x < __ldg(view.cuts + lane * 32 + i) ? 1u : 0u) << i;
  }
  const WarpRows rows(blockIdx.x);
  const uint4* const places = rows.places(view);
  const std::uint32_t* const slices = rows.slices(view);
#pragma unroll 2
  for (std::uint32_t row = rows.first; row < rows.end; ++row) {
    SliceCounts<kGroups> counts;
    counts.count(places + row * kGroups * kSliceVectors, slices);
    std::uint32_t kept = more.reached(counts) | (limit.reached(counts) & open);
    if (kLimited) kept &= ~above.reached(counts);
    for (; kept != 0; kept &= kept - 1) {
      const auto bit = static_cast<unsigned>(__ffs(static_cast<int>(kept)) - 1);
      const std::uint32_t query = lane * 32 + bit;
      const std::uint32_t at = atomicAdd(search.kept_counts + query, 1u);
      search.kept[query * search.stride + at] =
          make_match_key(search.key_bits, {counts.of(bit), rows.tile, row});
    }
  }
}

// `kLimited`: some rows may count more than they should.
template <unsigned kGroups, bool kLimited>
void launch(const SliceView& view, unsigned steps, cudaStream_t stream) {
  narrow_kernel<<<1, kSliceQueries, 0, stream>>>(view, false, steps == 0);
  for (unsigned step = 0; step < steps; ++step) {
    totals_kernel<kGroups, kLimited><<<view.strips, kThreads, 0, stream>>>(view);
    narrow_kernel<<<1, kSliceQueries, 0, stream>>>(view, true, step + 1 == steps);
  }
  counts_kernel<kGroups, kLimited><<<view.strips, kThreads, 0, stream>>>(view);
  cuts_kernel<<<kSliceQueries / 32, 32 * kParts, 0, stream>>>(view);
  keep_kernel<kGroups, kLimited><<<view.strips, kThreads, 0, stream>>>(view);
  check_launch("counting slices of codes");
}

template <unsigned kGroups>
void launch(const SliceView& view, unsigned steps, cudaStream_t stream) {
  if (view.search.rows.most < (1u << slice_bits(kGroups))) {
    launch<kGroups, true>(view, steps, stream);
  } else {
    launch<kGroups, false>(view, steps, stream);
  }
}

}  // namespace

void launch_slice_search(const SliceView& view, unsigned steps, cudaStream_t stream) {
  switch (view.groups) {
    case 1: return launch<1>(view, steps, stream);
    case 2: return launch<2>(view, steps, stream);
    case 4: return launch<4>(view, steps, stream);
    default: return launch<kMostSliceGroups>(view, steps, stream);
  }
}

}  // namespace warplite::gpu
