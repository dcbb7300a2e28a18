// Every row of one query in ascending order of distance, for k beyond what pick() handles: radix
// sort of (distance, ordinal), stable, so rows of equal distance stay in the order of ordinals.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace warplite::gpu {

// Bytes of scratch for `rows` rows.
std::size_t sort_scratch_bytes(std::uint32_t rows);

// Fills sorted distances and their ordinals; rows that do not count (+inf) come last.
void launch_sort(const double* distances, std::uint32_t rows, std::byte* scratch,
                 std::size_t scratch_bytes, double* sorted, std::uint32_t* ordinals,
                 cudaStream_t stream);

}  // namespace warplite::gpu
