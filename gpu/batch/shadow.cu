#include "gpu/batch/shadow.h"
#include "gpu/rows/element_load.cuh"
#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr unsigned kWarpsPerBlock = kThreads / kWarp;
// Rows are scaled so that their largest element lies in [2^7, 2^8): exact for 8-bit integers,
// and 21 binades away from where float16 loses relative precision.
constexpr int kLargestExponent = 8;

__device__ double warp_sum(double value) {
  for (unsigned lanes = kWarp / 2; lanes != 0; lanes /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, lanes);
  }
  return value;
}

__device__ float warp_max(float value) {
  for (unsigned lanes = kWarp / 2; lanes != 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, lanes));
  }
  return value;
}

__device__ float largest_element(const std::byte* row, ElementType type, std::uint32_t dim) {
  float largest = 0;
  for (std::uint32_t i = threadIdx.x % kWarp; i < dim; i += kWarp) {
    largest = fmaxf(largest, fabsf(element_at(row, type, i)));
  }
  return warp_max(largest);
}

__device__ double scale_for(float largest) {
  if (largest == 0) return 1;
  int exponent = 0;
  frexpf(largest, &exponent);
  return scalbn(1.0, exponent - kLargestExponent);
}

// Writes a vector in half precision at `scale`; returns ‖x‖² and what rounding took, squared.
__device__ double2 convert(const std::byte* row, ElementType type, std::uint32_t dim,
                           double scale, std::uint32_t vector, std::uint32_t panel_rows,
                           __half* out) {
  double square = 0, lost = 0;
  for (std::uint32_t i = threadIdx.x % kWarp; i < padded_elements(dim); i += kWarp) {
    const double x = i < dim ? element_at(row, type, i) : 0;
    const __half half = __double2half(x / scale);
    const double rest = x - scale * static_cast<double>(__half2float(half));
    out[panel_offset(vector, i, dim, panel_rows)] = half;
    square += x * x;
    lost += rest * rest;
  }
  return {warp_sum(square), warp_sum(lost)};
}

// Sums in float64 are off by far less than this.
__device__ float root_up(double square) {
  return __double2float_ru(sqrt(square) * (1 + 1e-10));
}

__global__ void shadow_kernel(const std::byte* vectors, ElementType type, std::uint32_t dim,
                              std::uint32_t stride, std::uint32_t rows, __half* out,
                              RowStats* stats) {
  const std::uint32_t row = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarp;
  if (row >= rows) return;
  const std::byte* vector = vectors + std::size_t{row} * stride;
  const double scale = scale_for(largest_element(vector, type, dim));
  const double2 sums = convert(vector, type, dim, scale, row, kPanelRows, out);
  if (threadIdx.x % kWarp != 0) return;
  stats[row] = {__double2float_ru(sums.x), root_up(sums.x), root_up(sums.y),
                static_cast<float>(scale)};
}

// Queries for canonical arithmetic: float64, or bytes with zeros behind, and y·y.
__global__ void canonical_queries_kernel(QueryShape shape, std::uint32_t stride,
                                         const std::byte* raw, PreparedQueries out) {
  const std::uint32_t query = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarp;
  if (query >= shape.queries) return;
  const unsigned lane = threadIdx.x % kWarp;
  const std::byte* row = raw + std::size_t{query} * stride;
  const std::uint32_t padded = padded_query(shape.type, shape.dim);
  if (!is_real(shape.type)) {
    std::byte* bytes = out.bytes + std::size_t{query} * padded;
    double square = 0;
    for (std::uint32_t i = lane; i < padded; i += kWarp) {
      bytes[i] = i < stride ? row[i] : std::byte{0};
      const double value = static_cast<signed char>(bytes[i]);
      square += value * value;
    }
    square = warp_sum(square);
    if (lane == 0) out.squares[query] = square;
    return;
  }
  double* real = out.real + std::size_t{query} * padded;
  for (std::uint32_t i = lane; i < padded; i += kWarp) {
    real[i] = i < shape.dim ? element_at(row, shape.type, i) : 0;
  }
  __syncwarp();
  double sums[4] = {};
  for (std::uint32_t i = lane % kLanesPerRow * 4; i < padded; i += 16) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[j] = __dadd_rn(sums[j], __dmul_rn(real[i + j], real[i + j]));
  }
  const double square = fold(sums);
  if (lane == 0) out.squares[query] = square;
}

// The order of numbers that are not negative is that of their bits. A look first: of a million queries few
// raise it, and atomics at one address take turns.
__device__ void raise_to(float* maximum, float value) {
  if (value <= *static_cast<volatile float*>(maximum)) return;
  atomicMax(reinterpret_cast<int*>(maximum), __float_as_int(value));
}

__global__ void extremes_kernel(QueryShape shape, std::uint32_t stride, const std::byte* raw,
                                PreparedQueries out) {
  const std::uint32_t query = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarp;
  if (query >= shape.queries) return;
  const std::byte* row = raw + std::size_t{query} * stride;
  const float largest = largest_element(row, shape.type, shape.dim);
  if (threadIdx.x % kWarp == 0 && largest <= kLargestNorm) raise_to(&out.extremes[0], largest);
}

// The order of inner products and cosines does not change when a query is scaled, so there every
// query has a scale of its own and counts as divided by it; under l2 all share one.
__global__ void half_queries_kernel(QueryShape shape, std::uint32_t stride, const std::byte* raw,
                                    PreparedQueries out) {
  const std::uint32_t query = blockIdx.x * kWarpsPerBlock + threadIdx.x / kWarp;
  if (query >= shape.tile_queries) return;
  const unsigned lane = threadIdx.x % kWarp;
  auto* halves = reinterpret_cast<__half*>(out.halves);
  if (query >= shape.queries) {
    for (std::uint32_t i = lane; i < padded_elements(shape.dim); i += kWarp) {
      halves[panel_offset(query, i, shape.dim, shape.panel_queries)] = __float2half(0);
    }
    return;
  }
  const std::byte* row = raw + std::size_t{query} * stride;
  const bool common = shape.distance == Distance::kL2;
  const double scale =
      scale_for(common ? out.extremes[0] : largest_element(row, shape.type, shape.dim));
  const double2 sums =
      convert(row, shape.type, shape.dim, scale, query, shape.panel_queries, halves);
  if (lane != 0) return;
  const double unit = common ? 1 : scale;
  const float norm = root_up(sums.x / (unit * unit));
  const float residual = root_up(sums.y / (unit * unit));
  const bool usable = root_up(sums.x) <= kLargestNorm;
  out.norms[query] = usable ? norm : __int_as_float(0x7f800000);
  out.residuals[query] = residual;
  if (query == 0) out.extremes[3] = common ? static_cast<float>(scale) : 1.0f;
  if (!usable) return;
  raise_to(&out.extremes[1], norm);
  raise_to(&out.extremes[2], residual);
}

unsigned blocks_for(std::uint32_t rows) { return (rows + kWarpsPerBlock - 1) / kWarpsPerBlock; }

}  // namespace

namespace {

std::size_t panel_bytes(std::uint32_t dim) {
  return std::size_t{padded_elements(dim)} * kPanelRows * sizeof(__half);
}
std::size_t panels_bytes(std::uint32_t dim, std::uint32_t rows) {
  return (std::size_t{rows} + kPanelRows - 1) / kPanelRows * panel_bytes(dim);
}

}  // namespace

std::size_t shadow_bytes(std::uint32_t dim, std::uint32_t rows) {
  return panels_bytes(dim, rows) + rows * sizeof(RowStats);
}

void make_shadow(const std::byte* vectors, ElementType type, std::uint32_t dim,
                 std::uint32_t rows, cudaMemPool_t pool, cudaStream_t stream, Shadow& out) {
  out.memory = DeviceBytes(shadow_bytes(dim, rows), pool, stream);
  const std::size_t panels = panels_bytes(dim, rows);
  auto* halves = out.memory.as<__half>();
  auto* stats = reinterpret_cast<RowStats*>(out.memory.data() + panels);
  // The last panel may have room behind the last row.
  const std::size_t last = panel_bytes(dim);
  check(cudaMemsetAsync(out.memory.data() + panels - last, 0, last, stream),
        "copying rows in half precision");
  shadow_kernel<<<blocks_for(rows), kThreads, 0, stream>>>(
      vectors, type, dim, static_cast<std::uint32_t>(bytes_per_vector(type, dim)), rows, halves,
      stats);
  check_launch("copying rows in half precision");
  check(cudaStreamSynchronize(stream), "copying rows in half precision");
  out.rows = reinterpret_cast<const std::uint16_t*>(halves);
  out.stats = stats;
}

void launch_prepare(const QueryShape& shape, const std::byte* raw, const PreparedQueries& out,
                    cudaStream_t stream) {
  const auto stride = static_cast<std::uint32_t>(bytes_per_vector(shape.type, shape.dim));
  canonical_queries_kernel<<<blocks_for(shape.queries), kThreads, 0, stream>>>(shape, stride, raw,
                                                                             out);
  check_launch("preparing queries");
  if (out.halves == nullptr) return;
  check(cudaMemsetAsync(out.extremes, 0, 4 * sizeof(float), stream), "preparing queries");
  extremes_kernel<<<blocks_for(shape.queries), kThreads, 0, stream>>>(shape, stride, raw, out);
  half_queries_kernel<<<blocks_for(shape.tile_queries), kThreads, 0, stream>>>(shape, stride, raw,
                                                                             out);
  check_launch("preparing queries");
}

}  // namespace warplite::gpu
