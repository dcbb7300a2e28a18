#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/scan/scan.h"
#include "gpu/select/kth_edge.cuh"
#include "gpu/select/ordered_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kScanThreads = 128;
constexpr unsigned kRowsAtOnce = kWarp / kLanesPerRow;

// The index of the block that holds a group. All lanes of the warp search together: two steps for
// a thousand blocks.
__device__ std::uint32_t block_of_group(const RowTable& table, std::uint32_t group) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  std::uint32_t low = 0;
  std::uint32_t span = table.block_count;
  while (span > 1) {
    const std::uint32_t step = (span + kWarp - 1) / kWarp;
    const std::uint32_t at = low + lane * step;
    const bool before = lane * step < span && table.blocks[at].first_group <= group;
    const unsigned count = __popc(__ballot_sync(kWholeWarp, before));
    low += (count - 1) * step;
    span = min(step, span - (count - 1) * step);
  }
  return low;
}

__device__ bool within(const Bounds& bounds, double d) {
  return (bounds.low_open ? d > bounds.low : d >= bounds.low) &&
         (bounds.high_open ? d < bounds.high : d <= bounds.high);
}

__device__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }

// A group's least distance as float32, rounded up: the greatest number stands for all beyond it.
__device__ float group_key(double d) {
  constexpr float kGreatest = 3.4028234663852886e38f;
  return d < infinity() ? fminf(__double2float_ru(d), kGreatest) : __int_as_float(0x7f800000);
}

// The terms of queries that begin with the `first`.
__device__ QueryTerms terms_from(QueryTerms terms, std::size_t first) {
  terms.real += first * terms.padded;
  terms.bytes += first * terms.padded;
  terms.squares += first;
  return terms;
}

// A warp compares one group of rows, eight at a time, with the kQueries queries of its blockIdx.y.
template <ElementType kType, Distance kDistance, int kQueries>
__global__ void __launch_bounds__(kScanThreads)
    scan_kernel(RowTable table, QueryTerms terms, Bounds bounds, double* distances, float* least,
                std::uint32_t first_group, std::uint32_t end_group) {
  const std::uint32_t group = first_group + (blockIdx.x * kScanThreads + threadIdx.x) / kWarp;
  if (group >= end_group) return;
  const std::size_t first_query = std::size_t{blockIdx.y} * kQueries;
  terms = terms_from(terms, first_query);
  distances += table.rows * first_query;
  least += table.groups * first_query;
  const std::uint32_t lane = threadIdx.x % kWarp;
  const RowBlock block = table.blocks[block_of_group(table, group)];
  const std::uint32_t begin = (group - block.first_group) * table.group_rows;
  const std::uint32_t end = min(block.rows, begin + table.group_rows);
  double nearest[kQueries];
#pragma unroll
  for (int q = 0; q < kQueries; ++q) nearest[q] = infinity();

  for (std::uint32_t at = begin; at < end; at += kRowsAtOnce) {
    std::uint64_t live = ~std::uint64_t{0};
    if (block.live != nullptr) live = __ldg(block.live + at / 64) >> (at % 64);
    const std::uint32_t row = at + lane / kLanesPerRow;
    const bool active = row < end && ((live >> (lane / kLanesPerRow)) & 1) != 0;
    double found[kQueries];
    if ((live & 0xff) != 0) {
      RowScore<kType, kDistance, kQueries>::run(
          table, terms, block.vectors + std::size_t{row} * table.stride, active, found);
    }
    if (lane % kLanesPerRow != 0 || row >= end) continue;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const double d = active && within(bounds, found[q]) ? found[q] : infinity();
      nearest[q] = fmin(nearest[q], d);
      distances[std::size_t{table.rows} * q + block.first_ordinal + row] = d;
    }
  }
  __syncwarp();
#pragma unroll
  for (int q = 0; q < kQueries; ++q) {
    double d = nearest[q];
    for (unsigned lanes = kWarp / 2; lanes >= kLanesPerRow; lanes /= 2) {
      d = fmin(d, __shfl_down_sync(kWholeWarp, d, lanes));
    }
    if (lane == 0) least[std::size_t{table.groups} * q + group] = group_key(d);
  }
}

constexpr unsigned kPickThreads = 1024;
constexpr unsigned kBins = 2048;
constexpr unsigned kGroupsPerThread = kMostGroups / kPickThreads;

struct PickShared {
  KthEdge<kPickThreads, kBins> edge;
  std::uint32_t groups;
  std::uint32_t found;
};

// One thread block per query.
__global__ void __launch_bounds__(kPickThreads) pick_kernel(Pick pick) {
  __shared__ PickShared shared;
  const RowTable& table = pick.table;
  const std::uint32_t query = blockIdx.x;
  const float* least = pick.least + std::size_t{query} * table.groups;
  const double* distances = pick.distances + std::size_t{query} * table.rows;
  std::uint32_t* chosen = pick.chosen + std::size_t{query} * table.groups;
  if (threadIdx.x == 0) shared.groups = shared.found = 0;

  const std::uint32_t no_row = ordered_key(__int_as_float(0x7f800000));
  std::uint32_t keys[kGroupsPerThread];
#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const std::uint32_t group = i * kPickThreads + threadIdx.x;
    keys[i] = group < table.groups ? ordered_key(least[group]) : ~0u;
  }
  const std::uint32_t limit = shared.edge.find(keys, no_row, pick.k);
  // The greatest finite number, or all groups: every row that counts.
  const bool all = limit == no_row - 1;
  const double threshold = value_of_key(limit);

#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    if (keys[i] <= limit) chosen[atomicAdd(&shared.groups, 1u)] = i * kPickThreads + threadIdx.x;
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned i = threadIdx.x / kWarp; i < shared.groups; i += kPickThreads / kWarp) {
    const std::uint32_t group = chosen[i];
    const std::uint32_t number = block_of_group(table, group);
    const RowBlock block = table.blocks[number];
    const std::uint32_t begin = (group - block.first_group) * table.group_rows;
    const std::uint32_t end = min(block.rows, begin + table.group_rows);
    for (std::uint32_t row = begin + lane; row < end; row += kWarp) {
      const double d = distances[block.first_ordinal + row];
      if (!(d <= threshold || (all && d < infinity()))) continue;
      const std::uint32_t slot = atomicAdd(&shared.found, 1u);
      if (slot < pick.capacity) {
        pick.candidates[std::size_t{query} * pick.capacity + slot] = {d, number, row};
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) pick.found[query] = shared.found;
}

constexpr unsigned kEmitThreads = 256;

__global__ void count_kernel(const double* distances, std::uint32_t rows, std::uint32_t* count) {
  const std::uint32_t row = blockIdx.x * kEmitThreads + threadIdx.x;
  const bool hit = row < rows && distances[row] < infinity();
  const int hits = __syncthreads_count(hit);
  if (threadIdx.x == 0 && hits != 0) atomicAdd(count, static_cast<std::uint32_t>(hits));
}

__global__ void emit_kernel(const double* distances, RowTable table, Candidate* out,
                            std::uint32_t* count) {
  const std::uint32_t ordinal = blockIdx.x * kEmitThreads + threadIdx.x;
  const double d = ordinal < table.rows ? distances[ordinal] : infinity();
  const bool hit = d < infinity();
  const unsigned hits = __ballot_sync(kWholeWarp, hit);
  const unsigned lane = threadIdx.x % kWarp;
  std::uint32_t slot = 0;
  if (lane == 0 && hits != 0) slot = atomicAdd(count, static_cast<std::uint32_t>(__popc(hits)));
  slot = __shfl_sync(kWholeWarp, slot, 0) + __popc(hits & ((1u << lane) - 1));
  if (!hit) return;
  const std::uint32_t block = block_of_row(table, ordinal);
  out[slot] = {d, block, ordinal - table.blocks[block].first_ordinal};
}

__global__ void locate_kernel(const double* distances, const std::uint32_t* ordinals,
                              std::uint32_t count, RowTable table, Candidate* out) {
  const std::uint32_t i = blockIdx.x * kEmitThreads + threadIdx.x;
  if (i >= count) return;
  const std::uint32_t block = block_of_row(table, ordinals[i]);
  out[i] = {distances[i], block, ordinals[i] - table.blocks[block].first_ordinal};
}

unsigned blocks_for(std::uint64_t items, unsigned per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace

void launch_scan(const Scan& scan, cudaStream_t stream) {
  const unsigned blocks = blocks_for(std::uint64_t{scan.groups} * kWarp, kScanThreads);
  for_kernel(scan.type, scan.distance, [&]<ElementType kType, Distance kDistance>() {
    const auto launch = [&](auto* kernel, unsigned at_once) {
      const dim3 grid(blocks, scan.queries / at_once);
      kernel<<<grid, kScanThreads, 0, stream>>>(scan.table, scan.terms, scan.bounds,
                                                  scan.distances, scan.least, scan.first_group,
                                                  scan.first_group + scan.groups);
    };
    if (scan.queries == 1) {
      launch(scan_kernel<kType, kDistance, 1>, 1);
    } else {
      launch(scan_kernel<kType, kDistance, kScanQueries>, kScanQueries);
    }
  });
  check_launch("comparing rows");
}

void launch_pick(const Pick& pick, cudaStream_t stream) {
  pick_kernel<<<pick.queries, kPickThreads, 0, stream>>>(pick);
  check_launch("picking the nearest");
}

void launch_count(const double* distances, std::uint32_t rows, std::uint32_t* count,
                  cudaStream_t stream) {
  count_kernel<<<blocks_for(rows, kEmitThreads), kEmitThreads, 0, stream>>>(distances, rows,
                                                                            count);
  check_launch("counting rows within the range");
}

void launch_emit(const double* distances, const RowTable& table, Candidate* out,
                 std::uint32_t* count, cudaStream_t stream) {
  emit_kernel<<<blocks_for(table.rows, kEmitThreads), kEmitThreads, 0, stream>>>(distances, table,
                                                                                 out, count);
  check_launch("collecting rows within the range");
}

void launch_locate(const double* distances, const std::uint32_t* ordinals, std::uint32_t count,
                   const RowTable& table, Candidate* out, cudaStream_t stream) {
  locate_kernel<<<blocks_for(count, kEmitThreads), kEmitThreads, 0, stream>>>(
      distances, ordinals, count, table, out);
  check_launch("locating rows");
}

cudaError_t kernels_run_here() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, count_kernel);
}

}  // namespace warplite::gpu
