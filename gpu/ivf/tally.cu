#include <algorithm>
#include <bit>

#include <cub/device/device_radix_sort.cuh>

#include "gpu/batch/nominate.h"
#include "gpu/ivf/tally.h"
#include "gpu/rows/element_load.cuh"
#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;

__host__ __device__ constexpr std::uint32_t blocks_for(std::uint64_t count, unsigned threads) {
  return static_cast<std::uint32_t>((count + threads - 1) / threads);
}

// Element d of a row in model space.
__device__ float model_element(const ListedRows& rows, const std::byte* row, double norm,
                               std::uint32_t d) {
  const float element = element_at(row, rows.type, d);
  return norm == 0 ? element : __double2float_rn(__ddiv_rn(static_cast<double>(element), norm));
}

__device__ std::uint32_t loaded_row(const LoadRows& work, std::uint32_t i) {
  return work.ordinals == nullptr ? work.first + i : work.ordinals[i];
}

// A thread a row: squares are added in the order of elements, each in float64, where it is exact.
__global__ void __launch_bounds__(kThreads) norms_kernel(ListedRows rows, LoadRows work) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= work.count) return;
  const std::uint32_t ordinal = loaded_row(work, i);
  const std::byte* const row = row_address(rows.table, ordinal);
  double square = 0;
  for (std::uint32_t d = 0; d < rows.table.dim; ++d) {
    const double element = element_at(row, rows.type, d);
    square = __dadd_rn(square, __dmul_rn(element, element));
  }
  rows.norms[ordinal] = __dsqrt_rn(square);
}

// A warp a row.
__global__ void __launch_bounds__(kThreads) load_kernel(ListedRows rows, LoadRows work) {
  const std::uint32_t i = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (i >= work.count) return;
  const std::uint32_t ordinal = loaded_row(work, i), dim = rows.table.dim;
  const std::byte* const row = row_address(rows.table, ordinal);
  const double norm = rows.norms == nullptr ? 0 : rows.norms[ordinal];
  for (std::uint32_t d = threadIdx.x % kWarp; d < dim; d += kWarp) {
    work.out[std::size_t{i} * dim + d] = model_element(rows, row, norm, d);
  }
}

__global__ void __launch_bounds__(kThreads) take_kernel(ListedRows rows, TakeLists work) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= work.count) return;
  const std::uint32_t ordinal = work.first + i;
  if (!lives(rows.table, ordinal)) {
    rows.list[ordinal] = rows.lists;
    return;
  }
  const Candidate& nearest = work.candidates[i];
  rows.list[ordinal] = nearest.row;
  rows.distances[ordinal] = nearest.distance;
  if (work.found[i] != 0 && work.found[i] != kLost) return;
  rows.list[ordinal] = rows.lists;
  const std::uint32_t at = atomicAdd(work.lost_count, 1u);
  if (at < work.room) work.lost[at] = ordinal;
}

__global__ void __launch_bounds__(kThreads) number_kernel(std::uint32_t* numbers,
                                                          std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count) numbers[i] = i;
}

__global__ void __launch_bounds__(kThreads) begins_kernel(const std::uint32_t* sorted,
                                                          std::uint32_t count, std::uint32_t lists,
                                                          std::uint32_t* begins) {
  const std::uint32_t list = blockIdx.x * kThreads + threadIdx.x;
  if (list > lists) return;
  std::uint32_t low = 0, high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (sorted[middle] < list) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  begins[list] = low;
}

constexpr unsigned kSumThreads = 128;  // also members that are looked up together

// What a thread block knows of some members of its list.
struct Members {
  const std::byte* row[kSumThreads];
  double norm[kSumThreads];
  double distance[kSumThreads];
};

// Adds what a thread adds: an element of the rows, or, where `element` is dim, squares of
// distances.
__device__ double add_members(const ListedRows& rows, const Members& members, unsigned count,
                              std::uint32_t element, double sum) {
  if (element > rows.table.dim) return sum;
  if (element == rows.table.dim) {
    for (unsigned i = 0; i < count; ++i) {
      const double distance = members.distance[i];
      sum = __dadd_rn(sum, __dmul_rn(distance, distance));
    }
    return sum;
  }
  constexpr unsigned kAhead = 8;  // loads on their way
  unsigned i = 0;
  for (; i + kAhead <= count; i += kAhead) {
    float loaded[kAhead];
#pragma unroll
    for (unsigned j = 0; j < kAhead; ++j) {
      loaded[j] = model_element(rows, members.row[i + j], members.norm[i + j], element);
    }
#pragma unroll
    for (unsigned j = 0; j < kAhead; ++j) sum = __dadd_rn(sum, static_cast<double>(loaded[j]));
  }
  for (; i < count; ++i) {
    const float one = model_element(rows, members.row[i], members.norm[i], element);
    sum = __dadd_rn(sum, static_cast<double>(one));
  }
  return sum;
}

// A thread block a list and kSumThreads elements.
__global__ void __launch_bounds__(kSumThreads)
    sum_kernel(ListedRows rows, const std::uint32_t* members, const std::uint32_t* begins,
               ListSums out) {
  __shared__ Members some;
  const std::uint32_t list = out.first + blockIdx.x, dim = rows.table.dim;
  const std::uint32_t element = blockIdx.y * kSumThreads + threadIdx.x;
  const std::uint32_t end = begins[list + 1];
  double* const total = element < dim ? out.sums + std::size_t{list} * dim + element
                                      : out.squares + list;
  double sum = element <= dim ? *total : 0;
  for (std::uint32_t at = begins[list]; at < end; at += kSumThreads) {
    __syncthreads();
    if (at + threadIdx.x < end) {
      const std::uint32_t ordinal = members[at + threadIdx.x];
      some.row[threadIdx.x] = row_address(rows.table, ordinal);
      some.norm[threadIdx.x] = rows.norms == nullptr ? 0 : rows.norms[ordinal];
      some.distance[threadIdx.x] = rows.distances[ordinal];
    }
    __syncthreads();
    sum = add_members(rows, some, min(kSumThreads, end - at), element, sum);
  }
  if (element <= dim) *total = sum;
}

struct Farthest {
  double distance;
  std::uint32_t at;  // among the members

  __device__ void take(const Farthest& other) {
    if (other.distance > distance || (other.distance == distance && other.at < at)) *this = other;
  }
};

// A thread block a list.
__global__ void __launch_bounds__(kSumThreads)
    farthest_kernel(ListedRows rows, const std::uint32_t* members, const std::uint32_t* begins,
                    ListSums out) {
  __shared__ Farthest all[kSumThreads];
  const std::uint32_t list = out.first + blockIdx.x, end = begins[list + 1];
  Farthest mine{-1, ~0u};
  for (std::uint32_t at = begins[list] + threadIdx.x; at < end; at += kSumThreads) {
    mine.take({rows.distances[members[at]], at});
  }
  all[threadIdx.x] = mine;
  for (unsigned half = kSumThreads / 2; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) all[threadIdx.x].take(all[threadIdx.x + half]);
  }
  if (threadIdx.x != 0) return;
  Candidate found{-1, 0, 0};
  if (all[0].at != ~0u) {
    const std::uint32_t ordinal = members[all[0].at];
    const std::uint32_t block = block_of_row(rows.table, ordinal);
    found = {all[0].distance, block, ordinal - rows.table.blocks[block].first_ordinal};
  }
  out.farthest[list] = found;
}

// What a sort needs besides its results.
struct SortScratch {
  std::size_t sorted, numbers, cub, size;

  explicit SortScratch(std::uint32_t rows) {
    const auto round = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
    std::size_t bytes = 0;
    check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const std::uint32_t*>(nullptr),
                                          static_cast<std::uint32_t*>(nullptr),
                                          static_cast<const std::uint32_t*>(nullptr),
                                          static_cast<std::uint32_t*>(nullptr), rows),
          "sizing a sort");
    sorted = 0;
    numbers = round(std::size_t{rows} * sizeof(std::uint32_t));
    cub = 2 * numbers;
    size = cub + bytes;
  }
};

}  // namespace

void launch_load_rows(const ListedRows& rows, const LoadRows& work, cudaStream_t stream) {
  if (work.count == 0) return;
  if (rows.norms != nullptr) {
    norms_kernel<<<blocks_for(work.count, kThreads), kThreads, 0, stream>>>(rows, work);
  }
  load_kernel<<<blocks_for(work.count, kThreads / kWarp), kThreads, 0, stream>>>(rows, work);
  check_launch("loading rows");
}

void launch_take_lists(const ListedRows& rows, const TakeLists& work, cudaStream_t stream) {
  take_kernel<<<blocks_for(work.count, kThreads), kThreads, 0, stream>>>(rows, work);
  check_launch("taking lists");
}

std::size_t sort_lists_scratch(std::uint32_t rows) { return SortScratch(rows).size; }

void launch_sort_lists(const ListedRows& rows, std::byte* scratch, std::size_t scratch_bytes,
                       std::uint32_t* members, std::uint32_t* begins, cudaStream_t stream) {
  const std::uint32_t count = rows.table.rows;
  const SortScratch at(count);
  auto* const sorted = reinterpret_cast<std::uint32_t*>(scratch + at.sorted);
  auto* const numbers = reinterpret_cast<std::uint32_t*>(scratch + at.numbers);
  number_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(numbers, count);
  check_launch("numbering rows");
  std::size_t bytes = scratch_bytes - at.cub;
  check(cub::DeviceRadixSort::SortPairs(scratch + at.cub, bytes, rows.list, sorted, numbers, members,
                                        count, 0, std::bit_width(rows.lists), stream),
        "sorting lists");
  begins_kernel<<<blocks_for(std::uint64_t{rows.lists} + 1, kThreads), kThreads, 0, stream>>>(
      sorted, count, rows.lists, begins);
  check_launch("finding where lists begin");
}

void launch_sum_lists(const ListedRows& rows, const std::uint32_t* members,
                      const std::uint32_t* begins, const ListSums& out, cudaStream_t stream) {
  const std::uint32_t lists = out.end - out.first;
  const dim3 grid(lists, blocks_for(std::uint64_t{rows.table.dim} + 1, kSumThreads));
  sum_kernel<<<grid, kSumThreads, 0, stream>>>(rows, members, begins, out);
  farthest_kernel<<<lists, kSumThreads, 0, stream>>>(rows, members, begins, out);
  check_launch("summing lists");
}

}  // namespace warplite::gpu
