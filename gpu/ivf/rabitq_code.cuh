// The arithmetic of RaBitQ codes, with the bits of compute/rabitq.h: nothing is fused. A warp makes
// the tables of a query and a list, and looks at records of rows, a lane each.
#pragma once

#include <cuda_pipeline.h>
#include <cstdint>

#include "gpu/ivf/rabitq.h"
#include "gpu/ivf/score.cuh"

namespace warplite::gpu {

using compute::RabitqGroup;
using compute::RabitqRecord;

// Bytes of records that a warp looks at together, unless one has more.
inline constexpr std::uint32_t kRecordBytes = 4096;

// +∞ for NaN; no −0.
__device__ inline std::uint32_t known_key(float score) {
  return ordered_key(score != score ? __int_as_float(0x7f800000) : score + 0.0f);
}

__device__ inline float from_bfloat(std::uint16_t bits) {
  return __uint_as_float(std::uint32_t{bits} << 16);
}

// Adds products of unsigned and signed bytes.
__device__ inline int add_products(std::uint32_t codes, std::uint32_t elements, int sum) {
  int out;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(codes), "r"(elements), "r"(sum));
  return out;
}

// trunc(x·scale ± ½)
__device__ inline int rounded(float x, float scale) {
  const float scaled = __fmul_rn(x, scale);
  return __float2int_rz(__fadd_rn(scaled, copysignf(0.5f, scaled)));
}

// Of so many lanes that work together, those that add up different sums.
constexpr unsigned lanes_of_sums(unsigned lanes) {
  return lanes < 16 ? lanes : 16;
}

// Σ16 of the sums of sixteen lanes, or of eight that have two each, for the lanes' first.
template <unsigned kLanes>
__device__ float total(const float (&sums)[16 / kLanes]) {
  float sum = sums[0];
  if constexpr (kLanes == 8) sum = __fadd_rn(sum, sums[1]);
  for (unsigned half = kLanes == 8 ? 4 : 8; half != 0; half /= 2) {
    sum = __fadd_rn(sum, __shfl_down_sync(kWholeWarp, sum, half, kLanes));
  }
  return sum;
}

// What follows from the sums of lanes that follow each other, 8 or a whole warp, and from the
// greatest of their |x|. Halves of a warp that work together have the same.
template <unsigned kLanes>
__device__ RabitqTables sum_up(bool product, const float (&squares)[16 / lanes_of_sums(kLanes)],
                               const float (&products)[16 / lanes_of_sums(kLanes)], float greatest,
                               float& top) {
  constexpr unsigned kOwn = lanes_of_sums(kLanes);
  const float norm = __shfl_sync(kWholeWarp, total<kOwn>(squares), 0, kLanes);
  float a = norm;
  if (product) a = __fsub_rn(0.0f, __shfl_sync(kWholeWarp, total<kOwn>(products), 0, kLanes));
  for (unsigned step = kOwn / 2; step != 0; step /= 2) {
    greatest = fmaxf(greatest, __shfl_xor_sync(kWholeWarp, greatest, step));
  }
  top = greatest;
  return {a, __fsqrt_rn(norm), 0, 0, 0, 0};
}

// What such lanes make of a query and a list.
template <unsigned kLanes>
__device__ RabitqTables subtract(std::uint32_t dim, bool product, const float* y,
                                 const float* centroid, float& top) {
  constexpr unsigned kOwn = lanes_of_sums(kLanes), kSums = 16 / kOwn;
  float squares[kSums] = {}, products[kSums] = {}, greatest = 0;
#pragma unroll 4
  for (std::uint32_t base = threadIdx.x % kOwn; base < dim; base += 16) {
#pragma unroll
    for (unsigned j = 0; j < kSums; ++j) {
      const std::uint32_t i = base + j * kOwn;
      if (i >= dim) break;
      const float own = y[i], other = centroid[i], x = __fsub_rn(own, other);
      squares[j] = __fadd_rn(squares[j], __fmul_rn(x, x));
      if (product) products[j] = __fadd_rn(products[j], __fmul_rn(own, other));
      greatest = fmaxf(greatest, fabsf(x));
    }
  }
  return sum_up<kLanes>(product, squares, products, greatest, top);
}

// Which element is a byte of a word of v: eight words take the elements of a word of a plane, each
// those of every eighth bit, so that a shift makes bytes of bits.
__device__ constexpr std::uint32_t element_of(std::uint32_t word, unsigned byte) {
  return word / 8 * 32 + word % 8 + 8 * byte;
}

// Four numbers as bytes.
__device__ inline std::uint32_t bytes_of(const int (&x)[4]) {
  const std::uint32_t low = __byte_perm(x[0], x[1], 0x0040), high = __byte_perm(x[2], x[3], 0x0040);
  return __byte_perm(low, high, 0x5410);
}

// Dimensions of which eight lanes keep all differences in registers.
inline constexpr std::uint32_t kHeldDims = 128;
using HeldDifferences = float[kHeldDims / 8];

// The same as subtract() for eight lanes, which keep x: element lane + 8 · n is the n-th. All is asked
// for before the first is waited for.
__device__ inline RabitqTables subtract_held(std::uint32_t dim, bool product, const float* y,
                                             const float* centroid, HeldDifferences& x,
                                             float& top) {
  constexpr unsigned kEach = kHeldDims / 8;
  const unsigned lane = threadIdx.x % 8;
  float own[kEach], other[kEach];
#pragma unroll
  for (unsigned n = 0; n < kEach; ++n) {
    const std::uint32_t i = lane + 8 * n;
    own[n] = i < dim ? y[i] : 0.0f;
    other[n] = i < dim ? centroid[i] : 0.0f;
  }
  float squares[2] = {}, products[2] = {}, greatest = 0;
#pragma unroll
  for (unsigned n = 0; n < kEach; ++n) {
    x[n] = __fsub_rn(own[n], other[n]);
    if (lane + 8 * n >= dim) continue;
    squares[n % 2] = __fadd_rn(squares[n % 2], __fmul_rn(x[n], x[n]));
    if (product) products[n % 2] = __fadd_rn(products[n % 2], __fmul_rn(own[n], other[n]));
    greatest = fmaxf(greatest, fabsf(x[n]));
  }
  return sum_up<8>(product, squares, products, greatest, top);
}

// Adds what four elements are as w and v, and receives them as bytes.
__device__ inline void quantise(const float (&x)[4], float coarse, float fine, RabitqTables& tables,
                                std::uint32_t& w, std::uint32_t& v) {
  int coarse_ones[4], fine_ones[4];
#pragma unroll
  for (unsigned b = 0; b < 4; ++b) {
    coarse_ones[b] = rounded(x[b], coarse);
    fine_ones[b] = rounded(x[b], fine);
    tables.signs += coarse_ones[b];
    tables.sum += fine_ones[b];
  }
  w = bytes_of(coarse_ones);
  v = bytes_of(fine_ones);
}

// What the query and the list make of each other; calls write(k, w, v) for the words of their
// elements, zeros behind the last up to a multiple of eight words. Called by the whole warp.
template <unsigned kLanes, typename Write>
__device__ RabitqTables make_tables(const compute::IvfShape& shape, bool product, const float* y,
                                    const float* centroid, const Write& write) {
  constexpr bool kMayHold = kLanes == 8;
  const bool held = kMayHold && shape.dim <= kHeldDims;
  HeldDifferences differences;
  float top;
  RabitqTables tables = held ? subtract_held(shape.dim, product, y, centroid, differences, top)
                             : subtract<kLanes>(shape.dim, product, y, centroid, top);
  const bool some = top >= compute::kLeastTop && top <= 3.402823466e38f;
  const float coarse = some ? __fdiv_rn(31.0f, top) : 0, fine = some ? __fdiv_rn(127.0f, top) : 0;
  const auto add = [&](std::uint32_t k, const float(&x)[4]) {
    std::uint32_t w, v;
    quantise(x, coarse, fine, tables, w, v);
    write(k, w, v);
  };
  if (held) {
#pragma unroll
    for (unsigned n = 0; n < kHeldDims / 32; ++n) {
      if (n * 8 >= pair_words(shape.m)) break;
      float x[4];
#pragma unroll
      for (unsigned b = 0; b < 4; ++b) x[b] = some ? differences[4 * n + b] : 0.0f;
      add(n * 8 + threadIdx.x % 8, x);
    }
  } else {
    for (std::uint32_t base = 0; base < pair_words(shape.m); base += kLanes) {
      const std::uint32_t k = base + threadIdx.x % kLanes;
      float x[4];
#pragma unroll
      for (unsigned b = 0; b < 4; ++b) {
        const std::uint32_t i = element_of(k, b);
        x[b] = some && i < shape.dim ? __fsub_rn(y[i], centroid[i]) : 0.0f;
      }
      add(k, x);
    }
  }
  for (unsigned step = kLanes / 2; step != 0; step /= 2) {
    tables.sum += __shfl_xor_sync(kWholeWarp, tables.sum, step);
    tables.signs += __shfl_xor_sync(kWholeWarp, tables.signs, step);
  }
  if (some) {
    tables.unit = __fdiv_rn(top, 31.0f);
    tables.fine = __fdiv_rn(top, 254.0f);
  }
  return tables;
}

// s·x, of Σ ±w.
__device__ inline float signs_product(float unit, int sum) {
  return __fmul_rn(unit, __int2float_rn(sum));
}

// The lowest bit of each byte.
inline constexpr std::uint32_t kBits = 0x01010101u;

// Eight bits, of two sub-spaces, as bytes, 0 or 1: the sub-spaces' first bits, then their second bits,
// and so on.
__device__ inline uint2 pair_bits(std::uint32_t eight) {
  const std::uint32_t both = (eight & 15u) | (eight & 0xf0u) << 4;
  const std::uint32_t rows = __byte_perm(both, both >> 1, 0x5410);
  return {rows & kBits, rows >> 2 & kBits};
}

// Four bytes of a plane, which lies on four bytes when `aligned`.
__device__ inline std::uint32_t plane_word(const std::uint8_t* from, bool aligned) {
  return aligned ? *reinterpret_cast<const std::uint32_t*>(from)
                 : from[0] | from[1] << 8 | from[2] << 16 | std::uint32_t{from[3]} << 24;
}

// Adds numbers of `planes` bits, four at most, times v, for 32 elements: word(p) has the bits of a
// plane, the highest first.
template <typename Word>
__device__ int add_numbers(std::uint32_t planes, const Word& word, const std::uint32_t* elements,
                           int sum) {
  std::uint32_t numbers[4] = {};  // of every fourth bit, a digit each
  for (std::uint32_t p = 0; p < planes; ++p) {
    const std::uint32_t bits = word(p);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) numbers[k] = 2 * numbers[k] + (bits >> k & 0x11111111u);
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    sum = add_products(numbers[k] & 0x0f0f0f0fu, elements[k], sum);
    sum = add_products(numbers[k] >> 4 & 0x0f0f0f0fu, elements[k + 4], sum);
  }
  return sum;
}

// A row as its group has it.
struct SignedRow {
  const std::uint8_t* group;
  std::uint32_t place;
  float product;  // s·x

  __device__ float factor(std::uint32_t array) const {
    return from_bfloat(reinterpret_cast<const std::uint16_t*>(group + array)[place]);
  }
  // Before +∞ is made of what is no number.
  __device__ float low(const compute::IvfShape& shape, float a, float norm) const {
    const RabitqGroup at(shape.m);
    const float score = __fadd_rn(__fadd_rn(a, factor(at.bias)), __fmul_rn(factor(at.f), product));
    return __fsub_rn(score, __fmul_rn(factor(at.g), shape.planes == 1 ? 0.0f : norm));
  }
};

// Sums of a row's bits times a query's numbers.
struct CodeSums {
  int signs;  // Σ of the signs' bits times w
  int codes;  // Σ of what ū·x follows from, times v
};

// The signs of a row's 32 elements from sub-space s on, the first in the lowest bit.
__device__ inline std::uint32_t signs_at(const std::uint8_t* group, std::uint32_t place,
                                         std::uint32_t m, std::uint32_t s) {
  std::uint32_t signs = 0;
#pragma unroll
  for (unsigned n = 0; n < 8; ++n) {
    if (s + n >= m) break;
    signs |= (__ldg(group + (s + n) * 16 + place % 16) >> (place / 16 * 4) & 15u) << (4 * n);
  }
  return signs;
}

// `w`: in the order of pair_bits(); not read where the signs' sum is known.
template <bool kSigns>
__device__ CodeSums code_sums(const RabitqScan& scan, const std::uint8_t* group,
                              std::uint32_t place, const std::uint8_t* record,
                              const std::uint32_t* w, const std::uint32_t* v) {
  const compute::IvfShape& shape = scan.shape;
  const std::uint32_t bytes = compute::plane_bytes(shape.dim), others = shape.planes - 1;
  const std::uint32_t with_signs = scan.with_signs ? 1 : 0;
  const std::uint32_t planes = others + with_signs, high = planes > 4 ? planes - 4 : 0;
  int signs_sum = 0, upper = 0, lower = 0;
  for (std::uint32_t s = 0; s < shape.m; s += 8) {
    const std::uint32_t signs =
        kSigns || with_signs != 0 ? signs_at(group, place, shape.m, s) : 0;
    if (kSigns) {
#pragma unroll
      for (unsigned n = 0; n < 8; n += 2) {
        const uint2 bits = pair_bits(signs >> (4 * n) & 255u);
        signs_sum = add_products(bits.x, w[s + n], signs_sum);
        signs_sum = add_products(bits.y, w[s + n + 1], signs_sum);
      }
    }
    const std::uint8_t* from = record + RabitqRecord::kPlanes + s / 2;
    const auto word = [&](std::uint32_t p) {
      return p < with_signs ? signs : plane_word(from + (p - with_signs) * bytes, bytes % 4 == 0);
    };
    if (high != 0) upper = add_numbers(high, word, v + s, upper);
    lower = add_numbers(
        planes - high, [&](std::uint32_t p) { return word(high + p); }, v + s, lower);
  }
  return {signs_sum, 16 * upper + lower};
}

// The key of a row's score, from its sums.
__device__ inline std::uint32_t score_of_codes(const RabitqScan& scan, const RabitqTables& tables,
                                               const SignedRow& row, const std::uint8_t* record,
                                               int codes) {
  const compute::IvfShape& shape = scan.shape;
  const std::uint32_t low = known_key(row.low(shape, tables.a, tables.norm));
  if (shape.planes == 1) return low;
  const std::uint32_t others = shape.planes - 1;
  const long long levels = (1ll << (scan.with_signs ? shape.planes : others)) - 1;
  float product = __fmul_rn(tables.fine, __ll2float_rn(2ll * codes - levels * tables.sum));
  if (!scan.with_signs) {
    const float weight = static_cast<float>(1u << others) / 2;
    product = __fadd_rn(__fmul_rn(weight, row.product), product);
  }
  const float factor = *reinterpret_cast<const float*>(record + RabitqRecord::kFine);
  const float bias = *reinterpret_cast<const float*>(record + RabitqRecord::kBias);
  return max(low, known_key(__fadd_rn(__fadd_rn(tables.a, bias), __fmul_rn(factor, product))));
}

// Where records that a warp looks at lie in shared memory.
struct RecordPlan {
  std::uint32_t size, stride, rows, bytes;

  constexpr explicit RecordPlan(const compute::IvfShape& shape)
      : size(RabitqRecord::size(shape.dim, shape.planes)),
        // An odd number of words, so that lanes read theirs from different banks.
        stride(size / 4 / 2 * 8 + 4),
        rows(kRecordBytes / stride),
        bytes(0) {
    rows = rows > kWarpLanes ? kWarpLanes : rows == 0 ? 1 : rows;
    // Planes are read by words, beyond the last one's end.
    bytes = (rows * stride + 4 + 15) / 16 * 16;
  }
};

// Asks for `count` records, eight lanes for one. `position`: of the lane's own.
__device__ inline void ask_records(const RecordPlan& plan, const std::uint8_t* records,
                                   std::uint32_t count, std::uint32_t position, std::byte* to) {
  constexpr unsigned kLanes = 8, kRows = kWarpLanes / kLanes;
  const std::uint32_t words = plan.size / 4;
  if (words == 0) return;
  const unsigned own = threadIdx.x % kWarpLanes / kLanes;
  for (std::uint32_t word = threadIdx.x % kLanes; word - threadIdx.x % kLanes < words;
       word += 2 * kLanes) {
    const bool one = word < words, two = word + kLanes < words;
#pragma unroll 2
    for (std::uint32_t row = own; row - own < count; row += kRows) {
      const std::uint8_t* from =
          records + std::size_t{__shfl_sync(kWholeWarp, position, row)} * plan.size + word * 4;
      std::byte* const at = to + row * plan.stride + word * 4;
      if (one && row < count) __pipeline_memcpy_async(at, from, 4);
      if (two && row < count) __pipeline_memcpy_async(at + 4 * kLanes, from + 4 * kLanes, 4);
    }
  }
  __pipeline_commit();
}

// Waits for them, and for whatever else the warp has asked for.
__device__ inline void await_records() {
  __pipeline_wait_prior(0);
  __syncwarp();
}

// D of a query and a list, for the first of sixteen lanes that follow each other.
__device__ inline float list_distance(const RabitqScan& scan, std::uint32_t query,
                                      std::uint32_t list) {
  const std::uint32_t dim = scan.shape.dim;
  const float* y = scan.queries + std::size_t{query} * dim;
  const float* centroid = scan.centroids + std::size_t{list} * dim;
  float sums[1] = {};
#pragma unroll 4
  for (std::uint32_t i = threadIdx.x % 16; i < dim; i += 16) {
    const float x = __fsub_rn(y[i], centroid[i]);
    sums[0] = __fadd_rn(sums[0], scan.product ? __fmul_rn(y[i], centroid[i]) : __fmul_rn(x, x));
  }
  const float sum = total<16>(sums);
  return scan.product ? __fsub_rn(0.0f, sum) : sum;
}

// Where a group of rows comes to lie: its codes, and behind them which of its rows take part.
struct GroupSlot {
  std::uint32_t codes, size;

  explicit constexpr GroupSlot(std::uint32_t sub_spaces)
      : codes(RabitqGroup(sub_spaces).size), size(codes + 16) {}

  // Asks for the group that has the position. Called by a warp.
  __device__ void fetch(const IvfRunView& run, std::uint32_t position, std::byte* to) const {
    const std::uint32_t group = position / RabitqGroup::kRows;
    const std::uint8_t* from = run.codes + std::size_t{group} * codes;
    for (std::uint32_t i = threadIdx.x % kWarpLanes * 16; i < codes; i += kWarpLanes * 16) {
      __pipeline_memcpy_async(to + i, from + i, 16);
    }
    if (run.live != nullptr && threadIdx.x % kWarpLanes == 0) {
      __pipeline_memcpy_async(to + codes, run.live + group, 4);
    }
  }
  __device__ std::uint32_t live(const IvfRunView& run, const std::byte* slot) const {
    return run.live == nullptr ? ~0u : *reinterpret_cast<const std::uint32_t*>(slot + codes);
  }
};

__device__ inline bool is_stopped(const RabitqScan& scan) {
  return *static_cast<const volatile std::uint32_t*>(scan.stop) != 0;
}

// The row's ordinal among all.
__device__ inline std::uint32_t ordinal_of(const IvfRunView& run, std::uint32_t position) {
  return run.first_ordinal + run.ordinals[position];
}

}  // namespace warplite::gpu
