// Nominating rows for a batch of queries: the product of queries and rows on tensor cores, with
// the choice of candidates fused into its epilogue, so that no distance matrix is written
// (faiss-gpu §5.1 asks for one pass over it; this is none).
//
// For each pair the product gives a lower and an upper bound of the row's score, a number that
// orders rows as the canonical distance does: ‖x‖² − 2x·y for l2, −x·y for ip, −x·y/‖x‖ for
// cosine. With residuals ρ (shadow.h) and the accumulation error γ of tensor cores,
//   |x·y − s·acc| ≤ ρx‖y‖ + (‖x‖ + ρx)(ρy + γ(‖y‖ + ρy)).
// A row is kept while its lower bound does not exceed the query's limit: the k-th least upper
// bound seen, so k rows are known to be at most that far. Rows are visited in phases, each
// several times longer than the one before, in an order that mixes the table; between phases
// tighten() lowers the limits and drops what no longer can belong.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/distance.h"
#include "gpu/batch/shadow.h"
#include "gpu/rows/row_table.h"

namespace warplite::gpu {

class Blas;
class Gpu;

// Rows multiplied together.
struct RowTile {
  const std::uint16_t* rows;
  const RowStats* stats;
  const std::uint64_t* live;  // the word of the first row; null: all live
  std::uint32_t first_ordinal;
  std::uint32_t count;
};

// Tile sizes: many queries, or few (then memory decides, not arithmetic); small ones where thread
// blocks have little shared memory.
struct TileShape {
  unsigned queries, rows;
  friend constexpr bool operator==(const TileShape&, const TileShape&) = default;
};
inline constexpr TileShape kManyQueries{256, 128};
inline constexpr TileShape kFewQueries{64, 256};
inline constexpr TileShape kSmallTile{128, 128};

// Nominees hold what is known of each query; device addresses.
struct Nominees {
  std::uint32_t queries;
  std::uint32_t k;
  std::uint32_t capacity;      // per query: one of kCapacities
  float* limits;               // [tile_queries]; lower bounds above it are dropped
  std::uint32_t* counts;       // [queries]; above capacity: some were lost, limit is −inf
  float2* bounds;              // [queries][capacity] lower, upper
  std::uint32_t* ordinals;     // [queries][capacity]
};
inline constexpr std::uint32_t kCapacities[] = {2048, 4096, 8192, 16384};

// How queries and rows are multiplied: by groups of warps or by single warps, tensor cores' sums being looked
// at where they are; or by cuBLAS, whose sums are written and read.
enum class ProductKind : std::uint8_t { kNone, kGroups, kWarps, kSmallWarps, kBlas };

struct Nominate {
  Distance distance;
  std::uint32_t dim;
  TileShape shape;             // as tile_shape() says
  const RowTile* tiles;        // `tile_count` of them
  std::uint32_t tile_count;
  bool keep_all;               // the first phase
  PreparedQueries prepared;
  Nominees nominees;
  unsigned multiprocessors;
  ProductKind product;
  // Of cuBLAS alone.
  Blas* blas;
  std::byte* scratch;          // of blas_scratch_bytes()
};

// Returns what serves a GPU best, or what WARPLITE_GPU_PRODUCT names: warps or small-warps (in small tiles, on
// GPUs that have better), cublas. kNone: nothing does. Throws where cublas is named and does not work.
ProductKind product_for(const Gpu& gpu, std::uint32_t dim);
// Returns the least number of queries for which cuBLAS takes less time than passes over the rows; 0 where the
// product is one of ours, or cuBLAS was named.
std::size_t least_queries(const Gpu& gpu, ElementType type, std::uint32_t dim);
// As product_for() says.
TileShape tile_shape(const Gpu& gpu, std::uint32_t dim, std::uint32_t queries);
std::size_t blas_scratch_bytes(std::uint32_t dim, std::uint32_t tile_queries);

// `first_rows`: slots that the first phase fills.
void launch_start(const Nominees& nominees, const float* norms, std::uint32_t tile_queries,
                  std::uint32_t first_rows, cudaStream_t stream);
void launch_nominate(const Nominate& work, cudaStream_t stream);
void launch_tighten(const Nominees& nominees, cudaStream_t stream);

// Canonical distances of what is left, sorted. `found[q]`: rows as near as the k-th or nearer;
// they are in out[q·room …] by (distance, ordinal). More than `room`, or kLost: ask the scan. Where there
// is room for one, for k = 1, it is the first of the nearest, and not counted how many there are.
struct Rescore {
  RowTable table;
  ElementType type;
  Distance distance;
  PreparedQueries prepared;
  Nominees nominees;
  const std::uint32_t* ordinals;  // of the rows that nominees name; null: their own
  std::uint32_t room;
  Candidate* out;              // mapped memory
  std::uint32_t* found;        // mapped memory
};
inline constexpr std::uint32_t kLost = ~std::uint32_t{0};
void launch_rescore(const Rescore& work, cudaStream_t stream);

}  // namespace warplite::gpu
