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

// Σ16 of sixteen lanes' sums, for each half of the warp.
__device__ inline float total(float sum) {
  for (unsigned half = 8; half != 0; half /= 2) {
    sum = __fadd_rn(sum, __shfl_down_sync(kWholeWarp, sum, half, 16));
  }
  return sum;
}

// What some lanes that follow each other, 16 or a whole warp, make of a query and a list. Halves of
// a warp that work together add up the same sums.
template <unsigned kLanes>
__device__ RabitqTables subtract(std::uint32_t dim, bool product, const float* y,
                                 const float* centroid, float& top) {
  float squares = 0, products = 0, greatest = 0;
#pragma unroll 4
  for (std::uint32_t i = threadIdx.x % 16; i < dim; i += 16) {
    const float own = y[i], other = centroid[i], x = __fsub_rn(own, other);
    squares = __fadd_rn(squares, __fmul_rn(x, x));
    if (product) products = __fadd_rn(products, __fmul_rn(own, other));
    greatest = fmaxf(greatest, fabsf(x));
  }
  squares = __shfl_sync(kWholeWarp, total(squares), 0, kLanes);
  if (product) products = __shfl_sync(kWholeWarp, total(products), 0, kLanes);
  for (unsigned step = 8; step != 0; step /= 2) {
    greatest = fmaxf(greatest, __shfl_xor_sync(kWholeWarp, greatest, step));
  }
  top = greatest;
  return {product ? __fsub_rn(0.0f, products) : squares, __fsqrt_rn(squares), 0, 0, 0, 0};
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

// What the query and the list make of each other; calls write(k, w, v) for the words of their
// elements, zeros behind the last up to a multiple of eight words. Called by the whole warp.
template <unsigned kLanes, typename Write>
__device__ RabitqTables make_tables(const compute::IvfShape& shape, bool product, const float* y,
                                    const float* centroid, const Write& write) {
  float top;
  RabitqTables tables = subtract<kLanes>(shape.dim, product, y, centroid, top);
  const bool some = top >= compute::kLeastTop && top <= 3.402823466e38f;
  const float coarse = some ? __fdiv_rn(31.0f, top) : 0, fine = some ? __fdiv_rn(127.0f, top) : 0;
  for (std::uint32_t base = 0; base < pair_words(shape.m); base += kLanes) {
    const std::uint32_t k = base + threadIdx.x % kLanes;
    int w[4], v[4];
#pragma unroll
    for (unsigned b = 0; b < 4; ++b) {
      const std::uint32_t i = element_of(k, b);
      const float x = some && i < shape.dim ? __fsub_rn(y[i], centroid[i]) : 0.0f;
      w[b] = rounded(x, coarse);
      v[b] = rounded(x, fine);
      tables.signs += w[b];
      tables.sum += v[b];
    }
    write(k, bytes_of(w), bytes_of(v));
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

// Adds the bits of 32 elements times v.
__device__ inline int add_bits(std::uint32_t word, const std::uint32_t* elements, int sum) {
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) {
    sum = add_products(word >> k & 0x01010101u, elements[k], sum);
  }
  return sum;
}

// Σ of one plane's bits times v. `plane` lies on four bytes when `aligned`.
__device__ inline int plane_product(const std::uint8_t* plane, bool aligned, std::uint32_t m,
                                    const std::uint32_t* elements) {
  int sum = 0;
  for (std::uint32_t s = 0; s < m; s += 8) {
    const std::uint8_t* from = plane + s / 2;
    const std::uint32_t word =
        aligned ? *reinterpret_cast<const std::uint32_t*>(from)
                : from[0] | from[1] << 8 | from[2] << 16 | std::uint32_t{from[3]} << 24;
    sum = add_bits(word, elements + s, sum);
  }
  return sum;
}

// The same of the signs of a row.
__device__ inline int signs_of_row(const std::uint8_t* group, std::uint32_t place, std::uint32_t m,
                                   const std::uint32_t* elements) {
  const std::uint8_t* codes = group + place % 16;
  const unsigned shift = place / 16 * 4;
  int sum = 0;
  for (std::uint32_t s = 0; s < m; s += 8) {
    std::uint32_t word = 0;
    for (std::uint32_t n = 0; n < 8 && s + n < m; ++n) {
      word |= (codes[(s + n) * 16] >> shift & 15u) << (4 * n);
    }
    sum = add_bits(word, elements + s, sum);
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

// Σ of the codes' products, from which ū·x follows. `elements`: v.
__device__ inline float fine_product(const compute::IvfShape& shape, const RabitqTables& tables,
                                     const std::uint32_t* elements, const SignedRow& row,
                                     const std::uint8_t* record) {
  const std::uint32_t bytes = compute::plane_bytes(shape.dim), others = shape.planes - 1;
  const bool with_signs = shape.planes >= compute::kSignsAsElements;
  int dot = with_signs ? signs_of_row(row.group, row.place, shape.m, elements) : 0;
  for (std::uint32_t p = 0; p < others; ++p) {
    dot = 2 * dot + plane_product(record + RabitqRecord::kPlanes + p * bytes, bytes % 4 == 0,
                                  shape.m, elements);
  }
  const long long levels = (1ll << (with_signs ? shape.planes : others)) - 1;
  const float fine = __fmul_rn(tables.fine, __ll2float_rn(2ll * dot - levels * tables.sum));
  if (with_signs) return fine;
  const float weight = static_cast<float>(1u << others) / 2;
  return __fadd_rn(__fmul_rn(weight, row.product), fine);
}

// The key of a row's score, `low` being the one that its signs have.
__device__ inline std::uint32_t score_of_record(const compute::IvfShape& shape,
                                                const RabitqTables& tables,
                                                const std::uint32_t* elements, const SignedRow& row,
                                                std::uint32_t low, const std::uint8_t* record) {
  if (shape.planes == 1) return low;
  const float factor = *reinterpret_cast<const float*>(record + RabitqRecord::kFine);
  const float bias = *reinterpret_cast<const float*>(record + RabitqRecord::kBias);
  const float product = fine_product(shape, tables, elements, row, record);
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

// Asks for `count` records; the lanes take the words of one row after the other.
template <typename PositionOf>
__device__ void ask_records(const RecordPlan& plan, const std::uint8_t* records,
                            std::uint32_t count, std::byte* to, const PositionOf& position_of) {
  const std::uint32_t words = plan.size / 4;
  if (words == 0) return;
  std::uint32_t row = 0, word = threadIdx.x % kWarpLanes;
  for (;; word += kWarpLanes) {
    for (; word >= words; word -= words) ++row;
    if (row >= count) break;
    __pipeline_memcpy_async(to + row * plan.stride + word * 4,
                            records + std::size_t{position_of(row)} * plan.size + word * 4, 4);
  }
  __pipeline_commit();
}

// Waits for them, and for whatever else the warp has asked for.
__device__ inline void await_records() {
  __pipeline_wait_prior(0);
  __syncwarp();
}

// Asks for a group of rows.
__device__ inline void fetch_group(const std::uint8_t* from, std::uint32_t size, std::byte* to) {
  for (std::uint32_t i = threadIdx.x % kWarpLanes * 16; i < size; i += kWarpLanes * 16) {
    __pipeline_memcpy_async(to + i, from + i, 16);
  }
}

// The row's ordinal among all, or kNoOrdinal where it does not count.
__device__ inline std::uint32_t ordinal_of(const RabitqScan& scan, const IvfRunView& run,
                                           std::uint32_t position) {
  const std::uint32_t ordinal = run.first_ordinal + run.ordinals[position];
  return scan.all_live || lives(scan.table, ordinal) ? ordinal : compute::kNoOrdinal;
}

}  // namespace warplite::gpu
