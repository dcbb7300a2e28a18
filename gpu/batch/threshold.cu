#include "gpu/batch/threshold.h"
#include "gpu/rows/row_score.cuh"
#include "gpu/runtime/cuda_error.h"
#include "gpu/select/kth_key.cuh"
#include "gpu/select/ordered_key.cuh"

namespace warplite::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr float kFarthest = 3e38f;

__device__ float infinite() { return __int_as_float(0x7f800000); }

// Returns the key of the upper bound; the greatest key for a row that is not there or has no
// bounds.
__device__ std::uint32_t upper_key(float2 bounds) {
  return bounds.x <= kFarthest && bounds.y < infinite() ? ordered_key(bounds.y) : ~0u;
}

// One thread block per query: the k-th least upper bound.
__global__ void __launch_bounds__(kThreads) bound_kernel(Nominees sample, std::uint32_t rows) {
  __shared__ KthKey<kThreads, std::uint32_t> select;
  const std::uint32_t query = blockIdx.x;
  const float2* const bounds = sample.bounds + std::size_t{query} * sample.capacity;
  const std::uint32_t key =
      select.find([&](std::uint32_t i) { return upper_key(bounds[i]); }, rows, sample.k);
  // Where fewer than k rows have bounds, nothing is known.
  if (key == ~0u || threadIdx.x != 0 || !(sample.limits[query] > 0)) return;
  sample.limits[query] = fminf(sample.limits[query], fminf(value_of_key(key), kFarthest));
}

static_assert(products_are({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}));

// Scores are those of nominate.h; ip and cosine have them of the query divided by its scale.
__global__ void lower_kernel(Nominees nominees, PreparedQueries prepared, Distance distance,
                             const double* farthest) {
  const std::uint32_t query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= nominees.queries) return;
  const double bound = farthest[query], square = prepared.squares[query];
  if (!(bound < __longlong_as_double(0x7ff0000000000000ll))) return;
  double limit = 0;
  if (distance == Distance::kL2) {
    limit = bound * bound - square + 0x1p-40 * (bound * bound + square);
  } else {
    const double norm = prepared.norms[query];
    const double scale = norm > 0 ? exp2(rint(log2(sqrt(square) / norm))) : 1.0;
    limit = distance == Distance::kInnerProduct
                ? bound / scale + 0x1p-30 * fabs(bound / scale)
                : (bound - 1) * (sqrt(square) / scale) + 0x1p-20 * norm;
  }
  nominees.limits[query] = fminf(nominees.limits[query], __double2float_ru(limit));
}

__global__ void mask_kernel(Nominees nominees, std::uint32_t tile_queries,
                            const std::uint32_t* chosen, float* masked) {
  const std::uint32_t query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= tile_queries) return;
  const bool is_chosen = query < nominees.queries && chosen[query] != 0;
  masked[query] = is_chosen ? nominees.limits[query] : -infinite();
}

constexpr unsigned kMeasureParts = 8;  // thread blocks of a query

template <ElementType kType, Distance kDistance>
__global__ void __launch_bounds__(kThreads) measure_kernel(Measure work) {
  const std::uint32_t query = blockIdx.x;
  const Nominees& nominees = work.nominees;
  const std::uint32_t count = nominees.counts[query];
  if (blockIdx.y == 0 && threadIdx.x == 0) work.found[query] = count;
  if (count > nominees.capacity) return;
  const std::uint32_t padded = padded_query(kType, work.table.dim);
  const QueryTerms terms{work.prepared.real + std::size_t{query} * padded,
                         work.prepared.bytes + std::size_t{query} * padded,
                         work.prepared.squares + query, padded};
  const std::size_t first = std::size_t{query} * nominees.capacity;
  constexpr unsigned kRows = kThreads / kLanesPerRow;
  for (unsigned base = blockIdx.y * kRows; base < count; base += kMeasureParts * kRows) {
    const unsigned i = base + threadIdx.x / kLanesPerRow;
    const bool active = i < count;
    Candidate candidate{};
    const std::byte* row = nullptr;
    if (active) {
      std::uint32_t ordinal = nominees.ordinals[first + i];
      if (work.ordinals != nullptr) ordinal = work.ordinals[ordinal];
      candidate.block = block_of_row(work.table, ordinal);
      const RowBlock& block = work.table.blocks[candidate.block];
      candidate.row = ordinal - block.first_ordinal;
      row = block.vectors + std::size_t{candidate.row} * work.table.stride;
    }
    double found[1];
    RowScore<kType, kDistance, 1>::run(work.table, terms, row, active, found);
    if (!active || threadIdx.x % kLanesPerRow != 0) continue;
    candidate.distance = found[0];
    work.out[first + i] = candidate;
  }
}

}  // namespace

void launch_bound(const Nominees& sample, std::uint32_t rows, cudaStream_t stream) {
  bound_kernel<<<sample.queries, kThreads, 0, stream>>>(sample, rows);
  check_launch("finding thresholds");
}

void launch_lower(const Nominees& nominees, const PreparedQueries& prepared, Distance distance,
                  const double* farthest, cudaStream_t stream) {
  lower_kernel<<<(nominees.queries + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      nominees, prepared, distance, farthest);
  check_launch("lowering thresholds");
}

void launch_mask(const Nominees& nominees, std::uint32_t tile_queries, const std::uint32_t* chosen,
                 float* masked, cudaStream_t stream) {
  mask_kernel<<<(tile_queries + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      nominees, tile_queries, chosen, masked);
  check_launch("choosing queries");
}

void launch_measure(const Measure& work, cudaStream_t stream) {
  for_kernel(work.type, work.distance, [&]<ElementType kType, Distance kDistance>() {
    if constexpr (info(kDistance).product) {
      measure_kernel<kType, kDistance>
          <<<dim3(work.nominees.queries, kMeasureParts), kThreads, 0, stream>>>(work);
    }
  });
  check_launch("computing nominees' distances");
}

}  // namespace warplite::gpu
