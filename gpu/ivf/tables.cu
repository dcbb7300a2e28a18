// Tables of a query's products with all codewords, in eight bits (compute/ivf.h). Nothing is fused.
#include "gpu/ivf/ivf.h"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;
constexpr unsigned kWarps = kThreads / kWarp;

__device__ float entry(const IvfTableWork& work, const float* z, std::uint32_t s,
                       std::uint32_t j) {
  const std::uint32_t n = work.shape.sub_dim();
  const float* c = work.codebooks + (std::size_t{s} * work.shape.codewords() + j) * n;
  float t = 0;
  for (std::uint32_t i = 0; i < n; ++i) t = __fadd_rn(t, __fmul_rn(z[s * n + i], c[i]));
  return work.product ? -t : __fmul_rn(-2.0f, t);
}

// One thread block per query; a warp takes one sub-space after the other.
__global__ void __launch_bounds__(kThreads) tables_kernel(IvfTableWork work) {
  extern __shared__ float shared[];
  float* const z = shared;                    // [dim]
  float* const lows = z + work.shape.dim;     // [m]
  float* const widths = lows + work.shape.m;  // [m]
  const std::uint32_t query = blockIdx.x, dim = work.shape.dim, m = work.shape.m;
  const std::uint32_t codewords = work.shape.codewords();
  const float* y = work.queries + std::size_t{query} * dim;
  for (std::uint32_t i = threadIdx.x; i < dim; i += kThreads) {
    z[i] = work.product ? y[i] : __fsub_rn(y[i], work.mean[i]);
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarp;
  for (std::uint32_t s = threadIdx.x / kWarp; s < m; s += kWarps) {
    float low = __int_as_float(0x7f800000), high = -low;
    for (std::uint32_t j = lane; j < codewords; j += kWarp) {
      const float t = entry(work, z, s, j);
      low = fminf(low, t);
      high = fmaxf(high, t);
    }
    for (unsigned step = kWarp / 2; step != 0; step /= 2) {
      low = fminf(low, __shfl_xor_sync(0xffffffffu, low, step));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
    }
    if (lane == 0) {
      lows[s] = low;
      widths[s] = __fsub_rn(high, low);
    }
  }
  __syncthreads();
  float widest = 0, offset = lows[0];
  for (std::uint32_t s = 0; s < m; ++s) {
    widest = fmaxf(widest, widths[s]);
    if (s != 0) offset = __fadd_rn(offset, lows[s]);
  }
  float step = __fdiv_rn(widest, 255.0f);
  if (step == 0) step = 1;
  if (threadIdx.x == 0) {
    work.out.steps[query] = step;
    work.out.offsets[query] = offset;
  }
  std::uint8_t* const out = work.out.entries + std::size_t{query} * m * codewords;
  for (std::uint32_t i = threadIdx.x; i < m * codewords; i += kThreads) {
    const std::uint32_t s = i / codewords;
    const float t = __fsub_rn(entry(work, z, s, i % codewords), lows[s]);
    const float rounded = __fadd_rn(__fdiv_rn(t, step), 0.5f);
    out[i] = rounded < 255 ? static_cast<std::uint8_t>(rounded) : 255;
  }
}

}  // namespace

void launch_ivf_tables(const IvfTableWork& work, cudaStream_t stream) {
  const std::size_t bytes = (work.shape.dim + 2 * std::size_t{work.shape.m}) * sizeof(float);
  tables_kernel<<<work.count, kThreads, bytes, stream>>>(work);
  check_launch("computing tables");
}

}  // namespace warplite::gpu
