// All rows within a radius, through tables of distances to pivots.
#include "gpu/metric/queue.cuh"
#include "gpu/metric/window.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

using compute::kMetricGroup;

// Thread blocks that share a block of rows where queries are few.
constexpr unsigned kMostParts = 32;

template <ElementType kType, Distance kDistance>
struct PivotsShared {
  MetricQueue<kType, kDistance> queues[kMetricWarps];
  FloatWindow windows[kMostMetricPivots][kMetricTile];
  MetricTotals totals;
};

template <ElementType kType, Distance kDistance>
class PivotSearch {
 public:
  using Shared = PivotsShared<kType, kDistance>;

  __device__ PivotSearch(const MetricSearchView& search, Shared& shared)
      : search_(search), shared_(shared), view_(search.blocks[blockIdx.y]),
        block_(search.table.blocks[blockIdx.y]), first_query_(blockIdx.x * kMetricTile),
        pivots_(min(view_.count, kMostMetricPivots)), warp_(threadIdx.x / 32),
        lane_(threadIdx.x % 32) {
    shared_.queues[warp_].begin();
    if (threadIdx.x == 0) shared_.totals = {0, 0};
  }

  __device__ void run() {
    compare_pivots();
    __syncthreads();
    const unsigned queries = queries_of_warp();
    if (queries != 0 && pivots_ != 0) search_rows(queries);
    if (blockIdx.z == 0) {
      distances_ += push_outliers(search_, view_, block_, first_query_, shared_.queues[warp_]);
    }
    shared_.queues[warp_].drain(search_, block_, first_query_, true);
    if (lane_ == 0) distances_ += std::uint64_t{queries} * pivots_;
    add_totals({distances_, clusters_}, shared_.totals, search_.totals);
  }

 private:
  // Each warp searches for kMetricAtOnce queries of the tile.
  static_assert(kMetricWarps * kMetricAtOnce == kMetricTile);
  __device__ unsigned queries_of_warp() const {
    const std::uint32_t first = first_query_ + warp_ * kMetricAtOnce;
    return first < search_.queries ? min(search_.queries - first, kMetricAtOnce) : 0;
  }

  // A lane a query.
  __device__ void compare_pivots() {
    const Windows<kDistance> windows(search_);
    const float* const own =
        search_.points + std::size_t{blockIdx.x} * search_.table.dim * kMetricTile + lane_;
    for (std::uint32_t p = warp_; p < pivots_; p += kMetricWarps) {
      const float* const pivot =
          view_.points + std::size_t{p / kMetricGroup} * search_.table.dim * kMetricGroup +
          p % kMetricGroup;
      float sum = 0;
      for (std::uint32_t d = 0; d < search_.table.dim; ++d) {
        sum = add_difference<kDistance>(sum, __ldg(pivot + d * kMetricGroup),
                                        __ldg(own + d * kMetricTile));
      }
      shared_.windows[p][lane_] = windows.of(distance_of_sum<kDistance>(sum));
    }
  }

  // Places of rows whose distance to the first pivot lets them be near one of the warp's queries.
  __device__ uint2 range(unsigned queries) const {
    const unsigned own = min(lane_ / 2, queries - 1);
    const FloatWindow window = shared_.windows[0][warp_ * kMetricAtOnce + own];
    const bool upper = lane_ % 2 == 1;
    std::uint32_t low = 0, high = view_.places;
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      const float e = view_.rings[middle];
      if (upper ? e <= window.high : e < window.low) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const std::uint32_t begin = least_of_warp(upper ? view_.places : low);
    const std::uint32_t end = greatest_of_warp(upper ? low : 0);
    return {begin, end};
  }
  static __device__ std::uint32_t least_of_warp(std::uint32_t value) {
    for (unsigned lanes = 16; lanes != 0; lanes /= 2) {
      value = min(value, __shfl_xor_sync(kWholeWarp, value, static_cast<int>(lanes)));
    }
    return value;
  }
  static __device__ std::uint32_t greatest_of_warp(std::uint32_t value) {
    return ~least_of_warp(~value);
  }

  __device__ void search_rows(unsigned queries) {
    const uint2 places = range(queries);
    const std::uint32_t step = gridDim.z * 32;
    for (std::uint32_t at = places.x / 32 * 32 + blockIdx.z * 32; at < places.y; at += step) {
      if (at / step % 128 == 0 && __any_sync(kWholeWarp, __ldcg(search_.stop) != 0)) break;
      const unsigned left = rows_left(at + lane_, queries);
      if (__any_sync(kWholeWarp, left != 0)) take_rows(at + lane_, left);
    }
  }

  // A bit for each of the warp's queries that the row at a place may be near.
  __device__ unsigned rows_left(std::uint32_t place, unsigned queries) const {
    unsigned left = place < view_.places ? (1u << queries) - 1 : 0;
    const float* table = view_.rings + place;
    for (std::uint32_t p = 0; p < pivots_; ++p, table += view_.places) {
      if (!__any_sync(kWholeWarp, left != 0)) break;
      if (left == 0) continue;
      const float e = __ldg(table);
      const FloatWindow* const windows = shared_.windows[p] + warp_ * kMetricAtOnce;
#pragma unroll
      for (unsigned i = 0; i < kMetricAtOnce; ++i) {
        if (!windows[i].contains(e)) left &= ~(1u << i);
      }
    }
    return left;
  }

  __device__ void take_rows(std::uint32_t place, unsigned left) {
    auto& queue = shared_.queues[warp_];
    std::uint32_t row = 0;
    if (left != 0) {
      row = view_.rows[place];
      if (!lives(block_, row)) left = 0;
    }
    unsigned taken = 0;
#pragma unroll
    for (unsigned i = 0; i < kMetricAtOnce; ++i) {
      const bool take = (left >> i & 1) != 0;
      taken += static_cast<unsigned>(__popc(__ballot_sync(kWholeWarp, take)));
      queue.push(take, row, warp_ * kMetricAtOnce + i);
    }
    distances_ += taken;
    clusters_ += taken;
    queue.drain(search_, block_, first_query_, false);
  }

  const MetricSearchView& search_;
  Shared& shared_;
  const MetricBlockView view_;
  const RowBlock block_;
  const std::uint32_t first_query_, pivots_;
  const unsigned warp_, lane_;
  unsigned long long distances_ = 0, clusters_ = 0;  // of the warp
};

template <ElementType kType, Distance kDistance>
__global__ void __launch_bounds__(kMetricThreads)
    pivots_kernel(const __grid_constant__ MetricSearchView search) {
  __shared__ PivotsShared<kType, kDistance> shared;
  if (!search.blocks[blockIdx.y].pivots) return;
  PivotSearch<kType, kDistance>(search, shared).run();
}

}  // namespace

void launch_metric_pivots(const MetricSearchView& search, cudaStream_t stream) {
  const dim3 grid = metric_grid(search, kMostParts);
  for_kernel(search.type, search.distance, [&]<ElementType kType, Distance kDistance>() {
    if constexpr (info(kDistance).space.has_value()) {
      pivots_kernel<kType, kDistance><<<grid, kMetricThreads, 0, stream>>>(search);
    }
  });
  check_launch("comparing pivots");
}

}  // namespace warplite::gpu
