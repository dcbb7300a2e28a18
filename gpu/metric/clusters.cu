// All rows within a radius, through a list of clusters.
#include "gpu/metric/queue.cuh"
#include "gpu/metric/window.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

using compute::kMetricGroup;

// Centres that are compared at a time: four to a lane.
constexpr std::uint32_t kStep = 128;
// Thread blocks that share a block of rows where queries are few; each looks for the last cluster
// of use to a query among its own.
constexpr unsigned kMostParts = 4;
// Queries are in shared memory up to so many dimensions.
constexpr std::uint32_t kSharedDim = 128;

struct Limits {
  float reach, stop;
};

template <ElementType kType, Distance kDistance>
struct ClustersShared {
  MetricQueue<kType, kDistance> queues[kMetricWarps];
  float distances[kMetricTile][kStep];
  Limits limits[kStep];            // of the distances of queries to each centre
  std::uint32_t visits[kStep];     // a bit for each query
  std::uint32_t stops[kMetricTile];  // the last cluster of use to each query
  std::uint32_t next;
  MetricTotals totals;
};

template <ElementType kType, Distance kDistance>
class ClusterSearch {
 public:
  using Shared = ClustersShared<kType, kDistance>;

  __device__ ClusterSearch(const MetricSearchView& search, Shared& shared, float* points)
      : search_(search), shared_(shared), view_(search.blocks[blockIdx.y]),
        block_(search.table.blocks[blockIdx.y]), windows_(search),
        first_query_(blockIdx.x * kMetricTile), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32) {
    const std::size_t size = std::size_t{search.table.dim} * kMetricTile;
    const float* const tile = search.points + blockIdx.x * size;
    points_ = tile;
    if (search.table.dim <= kSharedDim) {
      for (std::size_t i = threadIdx.x; i < size; i += kMetricThreads) points[i] = tile[i];
      points_ = points;
    }
    shared_.queues[warp_].begin();
    if (threadIdx.x < kMetricTile) {
      const bool some = first_query_ + threadIdx.x < search.queries;
      shared_.stops[threadIdx.x] = some ? view_.count : 0;
    }
    if (threadIdx.x == 0) shared_.totals = {0, 0};
  }

  __device__ void run() {
    __syncthreads();
    for (std::uint32_t first = blockIdx.z * kStep; first < view_.count;
         first += gridDim.z * kStep) {
      const bool goes_on = stop_of(lane_) > first;
      if (__syncthreads_or(goes_on && __ldcg(search_.stop) == 0 ? 1 : 0) == 0) break;
      begin_step(first);
      __syncthreads();
      compare_centres(first);
      __syncthreads();
      visit_clusters(first);
    }
    if (blockIdx.z == 0) {
      distances_ += push_outliers(search_, view_, block_, first_query_, shared_.queues[warp_]);
    }
    shared_.queues[warp_].drain(search_, block_, first_query_, true);
    add_totals({distances_, clusters_}, shared_.totals, search_.totals);
  }

 private:
  // The number of clusters that are of use to a query of the tile; 0: there is none.
  __device__ std::uint32_t stop_of(unsigned query) const {
    return *static_cast<volatile const std::uint32_t*>(&shared_.stops[query]);
  }

  __device__ void begin_step(std::uint32_t first) {
    if (threadIdx.x == 0) shared_.next = 0;
    if (threadIdx.x >= kStep) return;
    const std::uint32_t cluster = first + threadIdx.x;
    Limits limits{-1, -1};
    if (cluster < view_.count) {
      limits = {windows_.of(view_.cover[cluster]).high, windows_.of(view_.inner[cluster]).low};
    }
    shared_.limits[threadIdx.x] = limits;
    shared_.visits[threadIdx.x] = 0;
  }

  // Four centres of the lane with four queries of the warp.
  __device__ void compare_centres(std::uint32_t first) {
    const unsigned query = warp_ * 4, centre = lane_ * 4;
    unsigned active = 0;
    for (unsigned i = 0; i < 4; ++i) active += stop_of(query + i) > first ? 1 : 0;
    if (active == 0) return;
    const bool some = first + centre < view_.count;
    float sums[4][4] = {};
    if (some) add_up(first + centre, query, sums);
#pragma unroll
    for (unsigned q = 0; q < 4; ++q) {
      float4 own;
      float* const e = &own.x;
#pragma unroll
      for (unsigned c = 0; c < 4; ++c) {
        e[c] = distance_of_sum<kDistance>(sums[q][c]);
        const Limits limits = shared_.limits[centre + c];
        const bool last = first + centre + c < view_.count && e[c] < limits.stop;
        if (last) atomicMin(&shared_.stops[query + q], first + centre + c + 1);
        if (e[c] <= limits.reach) atomicOr(&shared_.visits[centre + c], 1u << (query + q));
      }
      *reinterpret_cast<float4*>(&shared_.distances[query + q][centre]) = own;
    }
    distances_ += active * min(view_.count - first, kStep);
  }

  __device__ void add_up(std::uint32_t centre, unsigned query, float (&sums)[4][4]) const {
    const float4* at = reinterpret_cast<const float4*>(
        view_.points + std::size_t{centre / kMetricGroup} * search_.table.dim * kMetricGroup +
        centre % kMetricGroup);
    const float4* from = reinterpret_cast<const float4*>(points_ + query);
    for (std::uint32_t d = 0; d < search_.table.dim; ++d) {
      const float4 centres = __ldg(at), queries = *from;
      at += kMetricGroup / 4;
      from += kMetricTile / 4;
      const float x[4] = {centres.x, centres.y, centres.z, centres.w};
      const float y[4] = {queries.x, queries.y, queries.z, queries.w};
#pragma unroll
      for (unsigned q = 0; q < 4; ++q) {
#pragma unroll
        for (unsigned c = 0; c < 4; ++c) {
          sums[q][c] = add_difference<kDistance>(sums[q][c], x[c], y[q]);
        }
      }
    }
  }

  __device__ void visit_clusters(std::uint32_t first) {
    const std::uint32_t own_stop = stop_of(lane_);
    const std::uint32_t count = min(view_.count - first, kStep);
    for (;;) {
      std::uint32_t i = 0;
      if (lane_ == 0) i = atomicAdd(&shared_.next, 1u);
      i = __shfl_sync(kWholeWarp, i, 0);
      if (i >= count) break;
      // Queries go no further than their last cluster.
      const std::uint32_t visits =
          shared_.visits[i] & __ballot_sync(kWholeWarp, own_stop > first + i);
      if (visits != 0) visit(first + i, i, visits);
    }
  }

  __device__ void visit(std::uint32_t cluster, std::uint32_t place, std::uint32_t visits) {
    clusters_ += static_cast<unsigned>(__popc(visits));
    const std::uint32_t begin = view_.begins[cluster], end = view_.begins[cluster + 1];
    while (visits != 0) {
      unsigned queries[kMetricAtOnce], count = 0;
#pragma unroll
      for (unsigned i = 0; i < kMetricAtOnce; ++i) {
        queries[i] = i == 0 ? 0 : queries[0];
        if (visits == 0) continue;
        queries[i] = static_cast<unsigned>(__ffs(static_cast<int>(visits)) - 1);
        visits &= visits - 1;
        ++count;
      }
      FloatWindow own{1, 0};
      if (lane_ < kMetricAtOnce) {
        unsigned query = queries[0];
#pragma unroll
        for (unsigned i = 1; i < kMetricAtOnce; ++i) query = lane_ == i ? queries[i] : query;
        if (lane_ < count) own = windows_.of(shared_.distances[query][place]);
      }
      compare_members(begin, end, queries, count, own);
    }
  }

  // Members with `count` queries, whose windows are in the first lanes.
  __device__ void compare_members(std::uint32_t begin, std::uint32_t end,
                                  const unsigned (&queries)[kMetricAtOnce], unsigned count,
                                  FloatWindow own) {
    auto& queue = shared_.queues[warp_];
    FloatWindow windows[kMetricAtOnce];
#pragma unroll
    for (unsigned i = 0; i < kMetricAtOnce; ++i) {
      windows[i].low = __shfl_sync(kWholeWarp, own.low, static_cast<int>(i));
      windows[i].high = __shfl_sync(kWholeWarp, own.high, static_cast<int>(i));
    }
    for (std::uint32_t pair = begin; pair < end; pair += 32 / kMetricGroup) {
      const std::uint32_t group = pair + lane_ / kMetricGroup;
      const bool some = group < end;
      const std::size_t member = std::size_t{group} * kMetricGroup + lane_ % kMetricGroup;
      const float ring = some ? view_.rings[member] : 0;
      bool may[kMetricAtOnce], any = false;
#pragma unroll
      for (unsigned i = 0; i < kMetricAtOnce; ++i) {
        may[i] = some && windows[i].contains(ring);
        any |= may[i];
      }
      const unsigned lanes = __ballot_sync(kWholeWarp, any);
      if (lanes == 0) continue;
      distances_ += static_cast<unsigned>(__popc(lanes)) * count;
      if (any) test_members(group, queries, may);
      any = false;
#pragma unroll
      for (unsigned i = 0; i < kMetricAtOnce; ++i) any |= may[i];
      std::uint32_t row = 0;
      if (any) {
        row = view_.rows[member];
        any = lives(block_, row);
      }
#pragma unroll
      for (unsigned i = 0; i < kMetricAtOnce; ++i) queue.push(any && may[i], row, queries[i]);
      queue.drain(search_, block_, first_query_, false);
    }
  }

  // Says whether the lane's member may be a hit of the queries for which its ring lets it.
  __device__ void test_members(std::uint32_t group, const unsigned (&queries)[kMetricAtOnce],
                               bool (&may)[kMetricAtOnce]) const {
    const float* at = view_.members +
                      std::size_t{group} * search_.table.dim * kMetricGroup + lane_ % kMetricGroup;
    const float* from = points_;
    float sums[kMetricAtOnce] = {};
#pragma unroll 4
    for (std::uint32_t d = 0; d < search_.table.dim; ++d) {
      const float x = __ldg(at);
#pragma unroll
      for (unsigned i = 0; i < kMetricAtOnce; ++i) {
        sums[i] = add_difference<kDistance>(sums[i], x, from[queries[i]]);
      }
      at += kMetricGroup;
      from += kMetricTile;
    }
#pragma unroll
    for (unsigned i = 0; i < kMetricAtOnce; ++i) {
      may[i] &= distance_of_sum<kDistance>(sums[i]) <= search_.near;
    }
  }

  const MetricSearchView& search_;
  Shared& shared_;
  const MetricBlockView view_;
  const RowBlock block_;
  const Windows<kDistance> windows_;
  const std::uint32_t first_query_;
  const unsigned warp_, lane_;
  const float* points_;
  unsigned long long distances_ = 0, clusters_ = 0;  // of the warp
};

template <ElementType kType, Distance kDistance>
__global__ void __launch_bounds__(kMetricThreads)
    clusters_kernel(const __grid_constant__ MetricSearchView search) {
  extern __shared__ float4 memory[];
  __shared__ ClustersShared<kType, kDistance> shared;
  if (search.blocks[blockIdx.y].pivots) return;
  ClusterSearch<kType, kDistance>(search, shared, reinterpret_cast<float*>(memory)).run();
}

}  // namespace

void launch_metric_clusters(const MetricSearchView& search, cudaStream_t stream) {
  const dim3 grid = metric_grid(search, kMostParts);
  const std::size_t points =
      search.table.dim <= kSharedDim ? search.table.dim * kMetricTile * sizeof(float) : 0;
  for_kernel(search.type, search.distance, [&]<ElementType kType, Distance kDistance>() {
    if constexpr (info(kDistance).space.has_value()) {
      clusters_kernel<kType, kDistance><<<grid, kMetricThreads, points, stream>>>(search);
    }
  });
  check_launch("comparing clusters");
}

}  // namespace warplite::gpu
