// The ways of multiplying that launch_nominate() chooses from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace warplite::gpu {

struct Nominate;
struct TileShape;

// nominate_warps.cu
std::size_t warps_shared_memory(TileShape shape, std::uint32_t dim);
void launch_warps(const Nominate& work, cudaStream_t stream);

// nominate_groups.cu
bool groups_are_built();
void launch_groups(const Nominate& work, cudaStream_t stream);

// nominate_blas.cu
void launch_blas(const Nominate& work, cudaStream_t stream);

}  // namespace warplite::gpu
