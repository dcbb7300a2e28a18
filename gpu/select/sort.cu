#include <cub/device/device_radix_sort.cuh>

#include "gpu/runtime/cuda_error.h"
#include "gpu/select/sort.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;

__global__ void number_kernel(std::uint32_t* ordinals, std::uint32_t rows) {
  const std::uint32_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row < rows) ordinals[row] = row;
}

std::size_t cub_bytes(std::uint32_t rows) {
  std::size_t bytes = 0;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const double*>(nullptr),
                                        static_cast<double*>(nullptr),
                                        static_cast<const std::uint32_t*>(nullptr),
                                        static_cast<std::uint32_t*>(nullptr), rows),
        "sizing a sort");
  return bytes;
}

std::size_t ordinal_bytes(std::uint32_t rows) {
  return (std::size_t{rows} * sizeof(std::uint32_t) + 255) / 256 * 256;
}

}  // namespace

std::size_t sort_scratch_bytes(std::uint32_t rows) { return ordinal_bytes(rows) + cub_bytes(rows); }

void launch_sort(const double* distances, std::uint32_t rows, std::byte* scratch,
                 std::size_t scratch_bytes, double* sorted, std::uint32_t* ordinals,
                 cudaStream_t stream) {
  auto* numbers = reinterpret_cast<std::uint32_t*>(scratch);
  number_kernel<<<(rows + kThreads - 1) / kThreads, kThreads, 0, stream>>>(numbers, rows);
  check_launch("numbering rows");
  std::size_t bytes = scratch_bytes - ordinal_bytes(rows);
  check(cub::DeviceRadixSort::SortPairs(scratch + ordinal_bytes(rows), bytes, distances, sorted,
                                        numbers, ordinals, rows, 0, 64, stream),
        "sorting distances");
}

}  // namespace warplite::gpu
