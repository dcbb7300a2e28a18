// All ways of multiplying share this: the bounds of a row's score, and what is done with a tile's
// sums once they are there.
#pragma once

#include <cstdint>

#include "gpu/batch/nominate.h"

namespace warplite::gpu {

inline constexpr unsigned kWarp = 32;
inline constexpr float kFarthest = 3e38f;

__device__ inline float infinite() { return __int_as_float(0x7f800000); }

// score's lower bound = product · factor + base; the upper bound is `width` above it.
struct RowTerms {
  float factor, base, width;
};

struct QueryExtremes {
  float norm, loss, scale;  // max ‖y‖, max (ρy + γ(‖y‖ + ρy)), common scale
  float least;              // what a bound is off by whatever the row
};

__device__ inline QueryExtremes load_extremes(const float* extremes, std::uint32_t dim) {
  // Tensor cores add the products of at least four elements at a time to the accumulator, and cut
  // off below the last of 24 bits: at most 1.5 · 2^-23 · dim of Σ|xᵢyᵢ| ≤ ‖x‖‖y‖ in all. That is so whatever
  // the order: in steps of n elements dim/n sums are off by n + 1 times 2^-23 of what no partial sum exceeds,
  // and sums of parts that were made apart, as cuBLAS may, are fewer than steps, off by 2^-24 each.
  const float gamma = static_cast<float>(dim) * 0x1p-22f, norm = extremes[1];
  // A canonical sum of squares is off by (dim/16 + 8) parts in 2^53 of at most 2(‖x‖² + ‖y‖²); and
  // some of what follows may be below float32's range.
  const float rounding = static_cast<float>(dim / 16 + 9) * 0x1p-52f * norm * norm;
  return {norm, extremes[2] + gamma * (norm + extremes[2]), extremes[3], rounding + 1e-37f};
}

static_assert(products_are({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}));

// The slack covers the rounding of these terms and of the canonical sums themselves.
__device__ inline RowTerms terms_of(Distance distance, const RowStats& row, const QueryExtremes& query) {
  if (!(row.norm <= kLargestNorm)) return {0, -kFarthest, infinite()};
  float error = row.residual * query.norm + (row.norm + row.residual) * query.loss;
  const float product = row.norm * query.norm;
  // Scales are powers of two: their product is exact, or nothing is left of it, nor of x·y.
  const float scale = row.scale * query.scale;
  if (scale == 0) error += 1.001f * product;
  if (distance == Distance::kL2) {
    const float half = 2 * error + 0x1p-21f * (row.square + 2 * product) + query.least;
    return {-2 * scale, row.square - half, 2.001f * half};
  }
  if (distance == Distance::kInnerProduct) {
    const float half = error + 0x1p-21f * product + query.least;
    return {-scale, -half, 2.001f * half};
  }
  if (row.norm == 0) return {0, -0x1p-19f * query.norm, 0x1p-18f * query.norm};
  if (row.norm < 1e-30f) return {0, -kFarthest, infinite()};
  const float half = error / row.norm + 0x1p-19f * query.norm + 1e-37f;
  return {-scale / row.norm, -half, 2.001f * half};
}

// A nominee on its way out of a thread block.
struct Found {
  float lower, upper;
  std::uint32_t ordinal, query;
};

__device__ inline void append(const Nominees& out, const Found& found) {
  const std::uint32_t slot = atomicAdd(&out.counts[found.query], 1u);
  if (slot >= out.capacity) return;
  const std::size_t at = std::size_t{found.query} * out.capacity + slot;
  out.bounds[at] = {found.lower, found.upper};
  out.ordinals[at] = found.ordinal;
}

// Nominees wait in shared memory, since appending one takes longer than multiplying a tile.
template <unsigned kSize>
struct Queue {
  Found* items;
  std::uint32_t* count;  // also counts what found no room
  static constexpr unsigned kBytes = kSize * sizeof(Found);

  __device__ bool wants_flush() const { return *count >= kSize / 2; }
  __device__ void push(const Nominees& out, const Found& found) {
    const std::uint32_t slot = atomicAdd(count, 1u);
    if (slot < kSize) {
      items[slot] = found;
    } else {
      append(out, found);
    }
  }
  // Called by `threads` threads, of which this is the `thread`-th. They set the barriers before and
  // after it.
  __device__ void flush(const Nominees& out, unsigned thread, unsigned threads) const {
    const unsigned waiting = min(*count, kSize);
    for (unsigned i = thread; i < waiting; i += threads) append(out, items[i]);
  }
};

// A tile's sums as a thread sees them when they are complete. `Sums` tells which they are:
// kParts × 2 queries, of which the second of a part is eight after part_query(), with kPairs
// pairs of neighbouring rows from pair_row() on. `terms` and `limits` lie in shared memory.
template <typename Sums>
struct Finish {
  static constexpr unsigned kParts = Sums::kParts, kPairs = Sums::kPairs;

  const Nominees& out;
  const float4* terms;
  const float* limits;
  std::uint32_t first_query;
  std::uint32_t first_ordinal;

  __device__ float lower(float sum, unsigned row) const {
    const float2 pair = *reinterpret_cast<const float2*>(&terms[row]);
    return fmaf(sum, pair.x, pair.y);
  }

  // Compares every sum with its query's limit: first the least of each query, then, rarely, each.
  template <typename Queue>
  __device__ void nominate(const float (&sums)[kParts][kPairs][4], Queue& queue) const {
    float least[kParts][2];
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) least[i][0] = least[i][1] = infinite();
#pragma unroll
    for (unsigned j = 0; j < kPairs; ++j) {
#pragma unroll
      for (unsigned odd = 0; odd < 2; ++odd) {
        const float2 pair = *reinterpret_cast<const float2*>(&terms[Sums::pair_row(j) + odd]);
#pragma unroll
        for (unsigned i = 0; i < kParts; ++i) {
          least[i][0] = fminf(least[i][0], fmaf(sums[i][j][odd], pair.x, pair.y));
          least[i][1] = fminf(least[i][1], fmaf(sums[i][j][2 + odd], pair.x, pair.y));
        }
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const float limit = limits[Sums::part_query(i) + half * 8];
        if (least[i][half] <= limit) nominate_part(sums[i], half, i, limit, queue);
      }
    }
  }

  // Most often one row of a query is within its limit: it is pushed without a look at each.
  template <typename Queue>
  __device__ void nominate_part(const float (&sums)[kPairs][4], unsigned half, unsigned part,
                                float limit, Queue& queue) const {
    std::uint32_t hits = 0;
    float last = 0;
#pragma unroll
    for (unsigned j = 0; j < kPairs; ++j) {
#pragma unroll
      for (unsigned odd = 0; odd < 2; ++odd) {
        const float bound = lower(sums[j][half * 2 + odd], Sums::pair_row(j) + odd);
        const bool hit = bound <= limit;
        hits |= (hit ? 1u : 0u) << (2 * j + odd);
        last = hit ? bound : last;
      }
    }
    const std::uint32_t query = first_query + Sums::part_query(part) + half * 8;
    if ((hits & (hits - 1)) == 0) {
      const unsigned at = static_cast<unsigned>(__ffs(static_cast<int>(hits)) - 1);
      push(Sums::pair_row(at / 2) + at % 2, last, query, queue);
      return;
    }
#pragma unroll
    for (unsigned j = 0; j < kPairs; ++j) {
#pragma unroll
      for (unsigned odd = 0; odd < 2; ++odd) {
        if (((hits >> (2 * j + odd)) & 1) == 0) continue;
        const unsigned row = Sums::pair_row(j) + odd;
        push(row, lower(sums[j][half * 2 + odd], row), query, queue);
      }
    }
  }

  template <typename Queue>
  __device__ void push(unsigned row, float bound, std::uint32_t query, Queue& queue) const {
    queue.push(out, {bound, bound + terms[row].z, first_ordinal + row, query});
  }

  // The first phase: every row gets a slot of its own.
  __device__ void keep_all(const float (&sums)[kParts][kPairs][4], unsigned first_slot) const {
#pragma unroll
    for (unsigned i = 0; i < kParts; ++i) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const unsigned query = Sums::part_query(i) + half * 8;
        if (!(limits[query] > 0)) continue;
        const std::size_t first = std::size_t{first_query + query} * out.capacity + first_slot;
#pragma unroll
        for (unsigned j = 0; j < kPairs; ++j) {
#pragma unroll
          for (unsigned odd = 0; odd < 2; ++odd) {
            const unsigned row = Sums::pair_row(j) + odd;
            const float bound = lower(sums[i][j][half * 2 + odd], row);
            out.bounds[first + row] = {bound, bound + terms[row].z};
            out.ordinals[first + row] = first_ordinal + row;
          }
        }
      }
    }
  }
};

// The terms of one row of a tile; a row that does not live, or is not there, is never within a
// limit.
__device__ inline float4 row_terms(const Nominate& work, const RowTile& tile, unsigned row,
                                   const QueryExtremes& extremes) {
  // Both loads are under way before either is looked at.
  const unsigned there = min(row, tile.count - 1);
  const RowStats stats = tile.stats[there];
  const std::uint64_t live = tile.live == nullptr ? ~std::uint64_t{0} : tile.live[there / 64];
  if (row >= tile.count || ((live >> (row % 64)) & 1) == 0) return {0, infinite(), 0, 0};
  const RowTerms terms = terms_of(work.distance, stats, extremes);
  return {terms.factor, terms.base, terms.width, 0};
}

// Thread blocks per query tile: the number that ends soonest when one block runs on each
// multiprocessor at a time and starting one costs as much as two tiles.
unsigned choose_splits(unsigned query_tiles, unsigned tiles, unsigned multiprocessors);

__device__ inline unsigned split_bound(unsigned tiles, unsigned split, unsigned splits) {
  return static_cast<unsigned>(std::uint64_t{tiles} * split / splits);
}

}  // namespace warplite::gpu
