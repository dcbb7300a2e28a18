// Queries of RaBitQ codes come into model space on the GPU: with the bits of
// index/clustering/model_space.h and compute/host/rotation.h, nothing fused. A warp has a query in shared
// memory, whose elements meet two by two.
#include <algorithm>

#include "compute/host/rotation.h"
#include "core/distance.h"
#include "gpu/ivf/rabitq.h"
#include "gpu/rows/element_load.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kWarp = 32, kMostWarps = 8;
constexpr std::size_t kMostShared = std::size_t{48} << 10;

// Divides by the norm, whose squares are added up in order; zeros stay so.
__device__ void normalise(float* x, std::uint32_t dim) {
  double square = 0;
  for (std::uint32_t i = 0; i < dim; ++i) {
    const double element = x[i];
    square = __dadd_rn(square, __dmul_rn(element, element));
  }
  __syncwarp();
  if (square == 0) return;
  const double norm = __dsqrt_rn(square);
  for (std::uint32_t i = threadIdx.x % kWarp; i < dim; i += kWarp) {
    x[i] = __double2float_rn(__ddiv_rn(x[i], norm));
  }
}

// As compute::define_round().
__device__ void turn(const RabitqRotation& work, std::uint32_t transformed, float scale,
                     std::uint32_t round, float* x) {
  const std::uint32_t lane = threadIdx.x % kWarp;
  for (std::uint32_t i = lane; i < work.dim; i += kWarp) {
    if ((compute::rotation_flips(round, i / 64) >> i % 64 & 1) != 0) x[i] = -x[i];
  }
  __syncwarp();
  float* const first = round % 2 == 0 ? x : x + (work.dim - transformed);
  for (std::uint32_t half = 1; half < transformed; half *= 2) {
    for (std::uint32_t pair = lane; pair < transformed / 2; pair += kWarp) {
      const std::uint32_t at = pair / half * 2 * half + pair % half;
      const float a = first[at], b = first[at + half];
      first[at] = __fadd_rn(a, b);
      first[at + half] = __fsub_rn(a, b);
    }
    __syncwarp();
  }
  for (std::uint32_t i = lane; i < transformed; i += kWarp) {
    first[i] = __fmul_rn(first[i], scale);
  }
  __syncwarp();
}

__global__ void rotate_kernel(RabitqRotation work, std::uint32_t transformed, float scale) {
  extern __shared__ float all[];
  const std::uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::uint32_t query = blockIdx.x * (blockDim.x / kWarp) + warp;
  if (query >= work.count) return;
  float* const x = all + warp * work.dim;
  const std::byte* const given = work.given + std::size_t{query} * work.stride;
  for (std::uint32_t i = lane; i < work.dim; i += kWarp) x[i] = element_at(given, work.type, i);
  __syncwarp();
  if (work.normalised) normalise(x, work.dim);
  __syncwarp();
  for (std::uint32_t round = 0; round < compute::kRotationRounds; ++round) {
    turn(work, transformed, scale, round, x);
  }
  // A sum of the largest numbers may be infinite, or none.
  constexpr float kLargest = 3.402823466e38f;
  float* const out = work.out + std::size_t{query} * work.dim;
  for (std::uint32_t i = lane; i < work.dim; i += kWarp) {
    out[i] = x[i] != x[i] ? 0.0f : fminf(fmaxf(x[i], -kLargest), kLargest);
  }
}

}  // namespace

bool rabitq_rotates(std::uint32_t dim) {
  return dim * sizeof(float) <= kMostShared;
}

void launch_rabitq_rotate(const RabitqRotation& work, cudaStream_t stream) {
  const std::size_t each = work.dim * sizeof(float);
  const unsigned warps = std::clamp(static_cast<unsigned>(kMostShared / each), 1u, kMostWarps);
  const std::uint32_t transformed = compute::rotation_length(work.dim);
  rotate_kernel<<<(work.count + warps - 1) / warps, warps * kWarp, warps * each, stream>>>(
      work, transformed, compute::rotation_scale(transformed));
  check_launch("rotating queries");
}

}  // namespace warplite::gpu
