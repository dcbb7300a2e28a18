// The canonical distance of one stored row to up to kScanQueries queries (compute/reference.h),
// computed by four neighbouring lanes: of the sixteen float64 accumulators each lane keeps four,
// so that a lane's 16-byte load of float32 feeds its own accumulators in order, and a warp reads
// eight rows at once. Nothing is fused: the intrinsics round every operation.
#pragma once

#include <cstdint>

#include "gpu/rows/element_load.cuh"
#include "gpu/rows/row_table.h"

namespace warplite::gpu {

inline constexpr unsigned kWholeWarp = 0xffffffffu;
inline constexpr unsigned kLanesPerRow = 4;

// The index of the block that holds a row.
__device__ inline std::uint32_t block_of_row(const RowTable& table, std::uint32_t ordinal) {
  std::uint32_t low = 0, high = table.block_count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (table.blocks[middle].first_ordinal <= ordinal ? low : high) = middle;
  }
  return low;
}

// Says whether the row takes part.
__device__ inline bool lives(const RowTable& table, std::uint32_t ordinal) {
  const RowBlock& block = table.blocks[block_of_row(table, ordinal)];
  const std::uint32_t row = ordinal - block.first_ordinal;
  return block.live == nullptr || (block.live[row / 64] >> (row % 64) & 1) != 0;
}

__device__ inline const std::byte* row_address(const RowTable& table, std::uint32_t ordinal) {
  const RowBlock& block = table.blocks[block_of_row(table, ordinal)];
  return block.vectors + std::size_t{ordinal - block.first_ordinal} * table.stride;
}

__device__ inline double shuffle_down(double value, int lanes) {
  return __shfl_down_sync(kWholeWarp, value, lanes, kLanesPerRow);
}

// Folds the accumulators of four lanes; the first lane has the sum.
__device__ inline double fold(double (&a)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) a[j] = __dadd_rn(a[j], shuffle_down(a[j], 2));
#pragma unroll
  for (int j = 0; j < 4; ++j) a[j] = __dadd_rn(a[j], shuffle_down(a[j], 1));
  return __dadd_rn(__dadd_rn(a[0], a[2]), __dadd_rn(a[1], a[3]));
}

__device__ inline int fold(int value) {
  value += __shfl_down_sync(kWholeWarp, value, 2, kLanesPerRow);
  return value + __shfl_down_sync(kWholeWarp, value, 1, kLanesPerRow);
}

__device__ inline double negated(double sum) { return sum == 0 ? 0.0 : -sum; }

__device__ inline double cosine_of_sums(double dot, double xx, double yy) {
  if (xx == 0 || yy == 0) return 1;
  const double cosine = __ddiv_rn(dot, __dsqrt_rn(__dmul_rn(xx, yy)));
  const double distance = __dsub_rn(1.0, cosine);
  return distance < 0 ? 0.0 : distance;
}

// RealTerms say what a distance of real elements sums, and what the sum becomes; there is one for
// each distance. `norm` and `square` are the row's and the query's x·x where the distance divides
// by norms, else 0.
template <Distance kDistance>
struct RealTerms;
template <>
struct RealTerms<Distance::kL2> {
  static __device__ double of(double y, double x) {
    const double t = __dsub_rn(y, x);
    return __dmul_rn(t, t);
  }
  static __device__ double distance(double sum, double, double) { return __dsqrt_rn(sum); }
};
template <>
struct RealTerms<Distance::kL1> {
  static __device__ double of(double y, double x) { return fabs(__dsub_rn(y, x)); }
  static __device__ double distance(double sum, double, double) { return sum; }
};
template <>
struct RealTerms<Distance::kInnerProduct> {
  static __device__ double of(double y, double x) { return __dmul_rn(y, x); }
  static __device__ double distance(double sum, double, double) { return negated(sum); }
};
template <>
struct RealTerms<Distance::kCosine> : RealTerms<Distance::kInnerProduct> {
  static __device__ double distance(double sum, double norm, double square) {
    return cosine_of_sums(sum, norm, square);
  }
};

// Four consecutive elements, as stored: two bytes each, or float32.
template <ElementType kType>
struct Quad {
  static_assert(is_real(kType) && property<&ElementInfo::bits>(kType) == 16);
  uint2 raw;
  template <bool kAligned>
  __device__ void load(const std::byte* row, std::uint32_t i, std::uint32_t dim) {
    const auto* at = reinterpret_cast<const std::uint16_t*>(row) + i;
    if constexpr (kAligned) {
      raw = i < dim ? __ldcs(reinterpret_cast<const uint2*>(at)) : uint2{0, 0};
    } else {
      const auto part = [&](std::uint32_t j) { return i + j < dim ? std::uint32_t{at[j]} : 0u; };
      raw = {part(0) | part(1) << 16, part(2) | part(3) << 16};
    }
  }
  __device__ void unpack(double (&x)[4]) const {
    const auto element = [](std::uint32_t bits) {
      return static_cast<double>(
          DeviceElement<kType>::value(static_cast<unsigned short>(bits)));
    };
    x[0] = element(raw.x & 0xffff), x[1] = element(raw.x >> 16);
    x[2] = element(raw.y & 0xffff), x[3] = element(raw.y >> 16);
  }
};

template <>
struct Quad<ElementType::kFloat32> {
  float4 raw;
  template <bool kAligned>
  __device__ void load(const std::byte* row, std::uint32_t i, std::uint32_t dim) {
    const float* at = reinterpret_cast<const float*>(row) + i;
    if constexpr (kAligned) {
      raw = i < dim ? __ldcs(reinterpret_cast<const float4*>(at)) : float4{0, 0, 0, 0};
    } else {
      raw = {i < dim ? at[0] : 0, i + 1 < dim ? at[1] : 0, i + 2 < dim ? at[2] : 0,
             i + 3 < dim ? at[3] : 0};
    }
  }
  __device__ void unpack(double (&x)[4]) const {
    x[0] = raw.x, x[1] = raw.y, x[2] = raw.z, x[3] = raw.w;
  }
};

// All lanes of the warp call this; lanes of rows that are not `active` read nothing. The first
// lane of the row receives the distances.
template <ElementType kType, Distance kDistance, int kQueries>
struct RowScore {
  static __device__ void run(const RowTable& table, const QueryTerms& queries,
                             const std::byte* row, bool active, double (&out)[kQueries]) {
    double sums[kQueries][4] = {};
    double xx[4] = {};
    if (active) {
      if (table.aligned) {
        accumulate<true, 8>(table.dim, queries, row, sums, xx);
      } else {
        accumulate<false, 1>(table.dim, queries, row, sums, xx);
      }
    }
    __syncwarp();
    finish(queries, sums, xx, out);
  }

 private:
  static constexpr bool kNorms = info(kDistance).norms;

  // kAhead: loads in flight.
  template <bool kAligned, int kAhead>
  static __device__ void accumulate(std::uint32_t dim, const QueryTerms& queries,
                                    const std::byte* row, double (&sums)[kQueries][4],
                                    double (&xx)[4]) {
    const std::uint32_t first = threadIdx.x % kLanesPerRow * 4;
    const std::uint32_t end = (dim + 15) / 16 * 16;
    for (std::uint32_t at = 0; at < end; at += 16 * kAhead) {
      Quad<kType> quads[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        quads[u].template load<kAligned>(row, at + u * 16 + first, dim);
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (at + u * 16 < end) add(quads[u], queries, at + u * 16 + first, sums, xx);
      }
    }
  }

  static __device__ void add(const Quad<kType>& quad, const QueryTerms& queries, std::uint32_t i,
                             double (&sums)[kQueries][4], double (&xx)[4]) {
    double x[4];
    quad.unpack(x);
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const auto* y2 = reinterpret_cast<const double2*>(
          queries.real + std::size_t{queries.slots[q]} * queries.padded + i);
      const double2 low = __ldg(y2), high = __ldg(y2 + 1);
      const double y[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sums[q][j] = __dadd_rn(sums[q][j], RealTerms<kDistance>::of(y[j], x[j]));
      }
    }
    if constexpr (kNorms) {
#pragma unroll
      for (int j = 0; j < 4; ++j) xx[j] = __dadd_rn(xx[j], __dmul_rn(x[j], x[j]));
    }
  }

  static __device__ void finish(const QueryTerms& queries, double (&sums)[kQueries][4],
                                double (&xx)[4], double (&out)[kQueries]) {
    const double norm = kNorms ? fold(xx) : 0;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const double square = kNorms ? __ldg(queries.squares + queries.slots[q]) : 0;
      out[q] = RealTerms<kDistance>::distance(fold(sums[q]), norm, square);
    }
  }
};

// Sixteen bytes of a row from `i` on; zeros behind its end.
__device__ inline uint4 load_bytes(const std::byte* row, std::uint32_t i, std::uint32_t size,
                                   bool aligned) {
  if (i >= size) return {0, 0, 0, 0};
  if (aligned) return __ldcs(reinterpret_cast<const uint4*>(row + i));
  std::uint32_t words[4] = {};
  const std::uint32_t end = min(size - i, 16u);
#pragma unroll
  for (std::uint32_t j = 0; j < 16; ++j) {
    if (j < end) words[j / 4] |= static_cast<std::uint32_t>(row[i + j]) << (j % 4 * 8);
  }
  return {words[0], words[1], words[2], words[3]};
}

// The same for INT8, four elements a word. kSquares: `norm` and `square` are wanted.
template <Distance kDistance>
struct Int8Terms;
template <>
struct Int8Terms<Distance::kInnerProduct> {
  static constexpr bool kSquares = false;
  static __device__ int add(int a, int b, int sum) { return __dp4a(a, b, sum); }
  static __device__ double distance(double sum, double, double) { return negated(sum); }
};
template <>
struct Int8Terms<Distance::kCosine> : Int8Terms<Distance::kInnerProduct> {
  static constexpr bool kSquares = true;
  static __device__ double distance(double sum, double norm, double square) {
    return cosine_of_sums(sum, norm, square);
  }
};
template <>
struct Int8Terms<Distance::kL2> : Int8Terms<Distance::kInnerProduct> {
  static constexpr bool kSquares = true;
  static __device__ double distance(double sum, double norm, double square) {
    return __dsqrt_rn(norm - 2 * sum + square);
  }
};
template <>
struct Int8Terms<Distance::kL1> {
  static constexpr bool kSquares = false;
  static __device__ int add(int a, int b, int sum) {
    return sum +
           static_cast<int>(__vsads4(static_cast<unsigned>(a), static_cast<unsigned>(b)));
  }
  static __device__ double distance(double sum, double, double) { return sum; }
};

// INT8 and BIT: integer sums, exact in any order; with 65,536 elements at most they fit 32 bits.
template <Distance kDistance, int kQueries>
struct RowScore<ElementType::kInt8, kDistance, kQueries> {
  static __device__ void run(const RowTable& table, const QueryTerms& queries,
                             const std::byte* row, bool active, double (&out)[kQueries]) {
    constexpr int kAhead = 4;
    const std::uint32_t lane = threadIdx.x % kLanesPerRow;
    const std::uint32_t size = active ? table.stride : 0;
    int sums[kQueries] = {};
    int xx = 0;
    for (std::uint32_t at = lane * 16; at < size; at += 64 * kAhead) {
      uint4 x[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) x[u] = load_bytes(row, at + u * 64, size, table.aligned);
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (at + u * 64 >= size) break;
        add(x[u], queries, at + u * 64, sums, xx);
      }
    }
    finish(queries, sums, xx, out);
  }

 private:
  using Terms = Int8Terms<kDistance>;

  static __device__ void add(const uint4& x, const QueryTerms& queries, std::uint32_t at,
                             int (&sums)[kQueries], int& xx) {
    const int a[4] = {static_cast<int>(x.x), static_cast<int>(x.y), static_cast<int>(x.z),
                      static_cast<int>(x.w)};
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const int4 y = __ldg(
          reinterpret_cast<const int4*>(queries.bytes + std::size_t{queries.slots[q]} * queries.padded + at));
      const int b[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sums[q] = Terms::add(a[j], b[j], sums[q]);
      }
    }
    if constexpr (Terms::kSquares) {
#pragma unroll
      for (int j = 0; j < 4; ++j) xx = __dp4a(a[j], a[j], xx);
    }
  }

  static __device__ void finish(const QueryTerms& queries, int (&sums)[kQueries], int xx,
                                double (&out)[kQueries]) {
    const double norm = Terms::kSquares ? fold(xx) : 0;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const double square = Terms::kSquares ? __ldg(queries.squares + queries.slots[q]) : 0;
      out[q] = Terms::distance(fold(sums[q]), norm, square);
    }
  }
};

// BitTerms say what is counted of vectors of bits: those that differ and, with kUnion, those that
// either has.
template <Distance kDistance>
struct BitTerms;
template <>
struct BitTerms<Distance::kHamming> {
  static constexpr bool kUnion = false;
  static __device__ double distance(int differ, int) { return differ; }
};
template <>
struct BitTerms<Distance::kJaccard> {
  static constexpr bool kUnion = true;
  static __device__ double distance(int differ, int either) {
    return either == 0 ? 0.0 : __ddiv_rn(differ, either);
  }
};

template <Distance kDistance, int kQueries>
struct RowScore<ElementType::kBit, kDistance, kQueries> {
  static __device__ void run(const RowTable& table, const QueryTerms& queries,
                             const std::byte* row, bool active, double (&out)[kQueries]) {
    const std::uint32_t lane = threadIdx.x % kLanesPerRow;
    const std::uint32_t size = active ? table.stride : 0;
    int differ[kQueries] = {}, either[kQueries] = {};
    for (std::uint32_t at = lane * 16; at < size; at += 64) {
      const uint4 x = load_bytes(row, at, size, table.aligned);
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
        const uint4 y = __ldg(
            reinterpret_cast<const uint4*>(queries.bytes + std::size_t{queries.slots[q]} * queries.padded + at));
        differ[q] += __popc(x.x ^ y.x) + __popc(x.y ^ y.y) + __popc(x.z ^ y.z) + __popc(x.w ^ y.w);
        if constexpr (BitTerms<kDistance>::kUnion) {
          either[q] +=
              __popc(x.x | y.x) + __popc(x.y | y.y) + __popc(x.z | y.z) + __popc(x.w | y.w);
        }
      }
    }
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const int unions = BitTerms<kDistance>::kUnion ? fold(either[q]) : 0;
      out[q] = BitTerms<kDistance>::distance(fold(differ[q]), unions);
    }
  }
};

// Calls `visit.template operator()<kType, kDistance>()` for the pair at hand.
template <typename Visit>
void for_kernel(ElementType type, Distance distance, const Visit& visit) {
  for_each_element_type([&]<ElementType kType>() {
    if (type != kType) return;
    for_each_distance<kType>([&]<Distance kDistance>() {
      if (distance == kDistance) visit.template operator()<kType, kDistance>();
    });
  });
}

}  // namespace warplite::gpu
