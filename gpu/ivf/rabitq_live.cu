// Which rows of lists take part in a search, and what queries see of the lists that they probe: how many rows
// these have of them, and how far they lie away (compute/ivf.h, ProbedList).
#include "gpu/ivf/rabitq_code.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256, kWarps = kThreads / kWarpLanes;

__global__ void __launch_bounds__(kThreads)
    mask_kernel(const IvfRunView run, std::uint32_t positions, const RowTable table,
                std::uint32_t* bits) {
  const std::uint32_t position = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t ordinal = position < positions ? run.ordinals[position] : compute::kNoOrdinal;
  const unsigned live = __ballot_sync(
      kWholeWarp, ordinal != compute::kNoOrdinal && lives(table, run.first_ordinal + ordinal));
  if (threadIdx.x % kWarpLanes == 0 && position < positions) bits[position / kWarpLanes] = live;
}

// Rows of a list in a run, and those of them that take part: a lane's.
__device__ uint2 count_rows(const IvfRunView& run, std::uint32_t list) {
  const unsigned lane = threadIdx.x % kWarpLanes;
  const std::uint32_t begin = run.begins[list], end = run.ends[list];
  uint2 count{lane == 0 ? end - begin : 0, 0};
  if (run.live == nullptr || begin == end) return {count.x, count.x};
  for (std::uint32_t g = RabitqGroup::first_of(begin) + lane; g < RabitqGroup::end_of(end);
       g += kWarpLanes) {
    count.y += __popc(run.live[g] & RabitqGroup::rows_of(begin, end, g));
  }
  return count;
}

// A warp for each list that is counted, of each query.
__global__ void __launch_bounds__(kThreads)
    sights_kernel(const __grid_constant__ RabitqScan scan, const RabitqSights sights) {
  const unsigned lane = threadIdx.x % kWarpLanes;
  const std::uint32_t query = blockIdx.y, i = blockIdx.x * kWarps + threadIdx.x / kWarpLanes;
  if (i >= sights.counted || is_stopped(scan)) return;
  const auto place = static_cast<std::uint32_t>(compute::IvfWork::counted_place(i));
  const std::uint32_t list =
      scan.lists == nullptr ? place : scan.lists[std::size_t{query} * scan.list_stride + place];
  compute::ProbedList& out = sights.lists[std::size_t{query} * sights.counted + i];
  if (list == kNoList) {
    const bool eighth = sights.eighths != nullptr && place == compute::ContrastSteps::kPlace;
    const std::uint32_t known = eighth ? sights.eighths[query] : kNoList;
    const float a = known != kNoList ? list_distance(scan, query, known) : 0;
    if (lane == 0) out = known != kNoList ? compute::ProbedList{0, 0, known, a} : compute::ProbedList{};
    return;
  }
  uint2 count{};
  for (std::uint32_t r = 0; r < scan.run_count; ++r) {
    const uint2 own = count_rows(scan.runs[r], list);
    count.x += own.x;
    count.y += own.y;
  }
  for (unsigned step = kWarpLanes / 2; step != 0; step /= 2) {
    count.x += __shfl_down_sync(kWholeWarp, count.x, step);
    count.y += __shfl_down_sync(kWholeWarp, count.y, step);
  }
  const float a = list_distance(scan, query, list);
  if (lane == 0) out = {count.x, count.y, list, a};
}

// One thread block per query.
__global__ void __launch_bounds__(kThreads)
    left_kernel(RabitqBest best, std::uint32_t wanted, float* left) {
  __shared__ KthKey<kThreads> kth;
  __shared__ std::uint32_t worst;
  const std::uint64_t* keys = best.keys + std::size_t{blockIdx.x} * best.stride;
  const std::uint32_t count = min(best.counts[blockIdx.x], best.stride);
  if (threadIdx.x == 0) worst = 0;
  const std::uint64_t limit = kth.find([keys](std::uint32_t i) { return keys[i]; }, count, wanted);
  if (limit == kNoKey) {
    if (threadIdx.x == 0) left[blockIdx.x] = __int_as_float(0x7f800000);
    return;
  }
  __syncthreads();
  std::uint32_t own = 0;
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    if (keys[i] <= limit) own = max(own, static_cast<std::uint32_t>(keys[i] >> 32));
  }
  atomicMax(&worst, own);
  __syncthreads();
  if (threadIdx.x == 0) left[blockIdx.x] = value_of_key(worst);
}

}  // namespace

void launch_live_mask(const IvfRunView& run, std::uint32_t positions, const RowTable& table,
                      std::uint32_t* bits, cudaStream_t stream) {
  if (positions == 0) return;
  mask_kernel<<<(positions + kThreads - 1) / kThreads, kThreads, 0, stream>>>(run, positions, table,
                                                                             bits);
  check_launch("finding the rows that take part");
}

void launch_rabitq_sights(const RabitqScan& scan, const RabitqSights& sights, cudaStream_t stream) {
  const unsigned blocks = (sights.counted + kWarps - 1) / kWarps;
  sights_kernel<<<dim3(blocks, scan.count), kThreads, 0, stream>>>(scan, sights);
  check_launch("counting rows of lists");
  left_kernel<<<scan.count, kThreads, 0, stream>>>(scan.best, scan.wanted, sights.left);
  check_launch("counting rows of lists");
}

}  // namespace warplite::gpu
