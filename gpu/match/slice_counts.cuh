// Counts of 32 queries in slices, one bit of each query's count to a word; thresholds; and how many
// rows reach these.
#pragma once

#include <cstdint>

#include "gpu/match/codes_slices.h"

namespace warplite::gpu {

// sum and carry of three bits.
__device__ inline void add_bits(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                std::uint32_t& sum, std::uint32_t& carry) {
  const std::uint32_t s = a ^ b ^ c;
  carry = (a & b) | (a & c) | (b & c);
  sum = s;
}

// SliceCounts are what a row counts, by query.
template <unsigned kGroups>
struct SliceCounts {
  static constexpr unsigned kBits = slice_bits(kGroups);
  std::uint32_t bits[kBits];

  // `places`: of the row; `slices`: of the tile, the lane's words.
  __device__ void count(const uint4* places, const std::uint32_t* slices) {
#pragma unroll
    for (unsigned group = 0; group < kGroups; ++group) {
      const uint4 a = __ldg(places + group * kSliceVectors);
      const uint4 b = __ldg(places + group * kSliceVectors + 1);
      const std::uint32_t x[kSliceColumns] = {
          __ldg(slices + a.x), __ldg(slices + a.y), __ldg(slices + a.z), __ldg(slices + a.w),
          __ldg(slices + b.x), __ldg(slices + b.y), __ldg(slices + b.z)};
      add(group, x);
    }
  }

  // Returns the count of one of the lane's queries.
  __device__ std::uint32_t of(unsigned query) const {
    std::uint32_t number = 0;
#pragma unroll
    for (unsigned bit = 0; bit < kBits; ++bit) number |= (bits[bit] >> query & 1) << bit;
    return number;
  }

 private:
  __device__ void add(unsigned group, const std::uint32_t (&x)[kSliceColumns]) {
    std::uint32_t a, b, c, one, two, four;
    add_bits(x[0], x[1], x[2], one, a);
    add_bits(x[3], x[4], x[5], two, b);
    add_bits(one, two, x[6], one, c);
    add_bits(a, b, c, two, four);
    if (group == 0) {
#pragma unroll
      for (unsigned bit = 0; bit < kBits; ++bit) {
        bits[bit] = bit == 0 ? one : bit == 1 ? two : bit == 2 ? four : 0;
      }
      return;
    }
    std::uint32_t carry = bits[0] & one;
    bits[0] ^= one;
    add_bits(bits[1], two, carry, bits[1], carry);
    add_bits(bits[2], four, carry, bits[2], carry);
#pragma unroll
    for (unsigned bit = 3; bit < kBits; ++bit) {
      const std::uint32_t next = bits[bit] & carry;
      bits[bit] ^= carry;
      carry = next;
    }
  }
};

// A SliceThreshold is what counts must reach, by query.
template <unsigned kGroups>
struct SliceThreshold {
  static constexpr unsigned kBits = slice_bits(kGroups);
  std::uint32_t bits[kBits + 1];

  __device__ void load(const std::uint32_t* slices) {
#pragma unroll
    for (unsigned bit = 0; bit <= kBits; ++bit) bits[bit] = slices[bit * 32 + threadIdx.x % 32];
  }
  __device__ void set(std::uint32_t number) {
#pragma unroll
    for (unsigned bit = 0; bit <= kBits; ++bit) bits[bit] = (number >> bit & 1) != 0 ? ~0u : 0;
  }
  // Returns the queries whose counts reach it.
  __device__ std::uint32_t reached(const SliceCounts<kGroups>& counts) const {
    std::uint32_t at_least = ~0u;
#pragma unroll
    for (unsigned bit = 0; bit < kBits; ++bit) {
      const std::uint32_t c = counts.bits[bit], t = bits[bit];
      at_least = (c & ~t) | (~(c ^ t) & at_least);
    }
    return at_least & ~bits[kBits];
  }
};

// A SliceTally counts, in slices, how many of up to 128 rows reach a threshold.
struct SliceTally {
  static constexpr unsigned kBits = 8;
  std::uint32_t bits[kBits];

  __device__ void clear() {
#pragma unroll
    for (unsigned bit = 0; bit < kBits; ++bit) bits[bit] = 0;
  }
  __device__ void add(const std::uint32_t (&rows)[4]) {
    std::uint32_t a, b, carry;
    add_bits(bits[0], rows[0], rows[1], bits[0], a);
    add_bits(bits[0], rows[2], rows[3], bits[0], b);
    add_bits(bits[1], a, b, bits[1], carry);
#pragma unroll
    for (unsigned bit = 2; bit < kBits; ++bit) {
      const std::uint32_t next = bits[bit] & carry;
      bits[bit] ^= carry;
      carry = next;
    }
  }
  // Adds the numbers to those of `pairs`: of queries b + 8h and b + 8h + 16 of each lane in
  // pairs[2b + h][lane].
  __device__ void flush(std::uint32_t (*pairs)[32]) const {
    for (unsigned b = 0; b < 8; ++b) {
      std::uint32_t bytes = 0;
#pragma unroll
      for (unsigned bit = 0; bit < kBits; ++bit) {
        bytes |= (bits[bit] >> b & 0x01010101u) << bit;
      }
      atomicAdd(&pairs[2 * b][threadIdx.x % 32], bytes & 0x00ff00ffu);
      atomicAdd(&pairs[2 * b + 1][threadIdx.x % 32], bytes >> 8 & 0x00ff00ffu);
    }
  }
  __device__ static std::uint32_t get(const std::uint32_t (*pairs)[32], std::uint32_t query) {
    const std::uint32_t i = query % 32;
    return pairs[2 * (i % 8) + (i / 8 & 1)][query / 32] >> (i / 16 * 16) & 0xffffu;
  }
};

}  // namespace warplite::gpu
