// Half-precision copies of vectors, which tensor cores multiply to nominate rows. Every row is
// scaled by a power of two of its own, and what rounding took away is kept as a number, so that
// the product's error has a bound that holds (nominate.h). Data that float16 represents exactly,
// such as small integers, has residual 0 whatever its range.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/distance.h"
#include "core/types.h"
#include "gpu/runtime/cuda_raii.h"

namespace warplite::gpu {

// RowStats describe one row x with copy h and scale s, in float32 rounded up: x ≈ s·h.
struct RowStats {
  float square;    // ‖x‖²
  float norm;      // ‖x‖
  float residual;  // ‖x − s·h‖
  float scale;     // s
};

// Norms beyond this are left to canonical arithmetic: their squares would not fit float32. Such a row
// is near enough whatever the product says; for such a query the product says nothing.
inline constexpr float kLargestNorm = 1e17f;

// Copies lie as the product takes them: in panels of rows, a panel in slabs of slab_elements()
// elements, a slab row after row, zeros behind dim.
inline constexpr std::uint32_t kPanelRows = 128;

struct Shadow {
  DeviceBytes memory;
  const std::uint16_t* rows = nullptr;  // panels of kPanelRows, binary16
  const RowStats* stats = nullptr;
};

// Elements of a copied row: a multiple of 32, what a step of the product takes.
constexpr std::uint32_t padded_elements(std::uint32_t dim) { return (dim + 31) / 32 * 32; }

constexpr std::uint32_t slab_elements(std::uint32_t dim) {
  return padded_elements(dim) % 64 == 0 ? 64 : 32;
}

// Returns where a 16-byte chunk of a row lies in its slab, in chunks. Chunks change places from row
// to row, so that eight rows' chunks of one column lie in different banks of shared memory: the
// order that tensor cores call 128- and 64-byte swizzling.
constexpr std::uint32_t slab_offset(std::uint32_t row, std::uint32_t chunk, std::uint32_t slab) {
  return slab == 64 ? row * 8 + (chunk ^ (row & 7)) : row * 4 + (chunk ^ ((row >> 1) & 3));
}

// Returns where element i of a vector lies among panels of `panel_rows` vectors.
constexpr std::size_t panel_offset(std::uint32_t vector, std::uint32_t i, std::uint32_t dim,
                                   std::uint32_t panel_rows) {
  const std::uint32_t slab = slab_elements(dim);
  const std::uint32_t row = vector % panel_rows;
  return std::size_t{vector - row} * padded_elements(dim) +
         std::size_t{i / slab} * panel_rows * slab +
         slab_offset(row, i % slab / 8, slab) * 8 + i % 8;
}

std::size_t shadow_bytes(std::uint32_t dim, std::uint32_t rows);

// Fills a Shadow for `rows` vectors at `vectors`; returns when it is complete.
void make_shadow(const std::byte* vectors, ElementType type, std::uint32_t dim,
                 std::uint32_t rows, cudaMemPool_t pool, cudaStream_t stream, Shadow& out);

// The queries of a batch as kernels want them; see launch_prepare(). Device addresses.
struct PreparedQueries {
  double* real;           // [queries][padded16] for real elements
  std::byte* bytes;       // [queries][padded_bytes] for INT8 and BIT
  double* squares;        // canonical y·y
  std::uint16_t* halves;  // panels of panel_queries, zeros beyond `queries`; or null
  float* norms;           // ‖y‖ of the scaled query, rounded up; > kLargestNorm: not to be nominated
  float* residuals;       // what the scaled query lost in `halves`
  float* extremes;        // [4]: max |element|, max norm, max residual, the common scale
};
struct QueryShape {
  ElementType type;
  Distance distance;
  std::uint32_t dim;
  std::uint32_t queries;
  std::uint32_t tile_queries;   // ≥ queries, a multiple of the next
  std::uint32_t panel_queries;
};
// `raw`: the queries as the host has them, in device memory. Without halves only what canonical
// arithmetic needs is made.
void launch_prepare(const QueryShape& shape, const std::byte* raw, const PreparedQueries& out,
                    cudaStream_t stream);

// Doubles, or bytes, from one prepared query to the next.
constexpr std::uint32_t padded_query(ElementType type, std::uint32_t dim) {
  const auto size = static_cast<std::uint32_t>(
      is_real(type) ? dim : bytes_per_vector(type, dim));
  return (size + 15) / 16 * 16;
}

}  // namespace warplite::gpu
