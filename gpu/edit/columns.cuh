// Columns of the dynamic programme of edit distances, as bits (Myers; queries of several words with
// carries from word to word). A query stands at the upper end of its words: bits before it are rows
// that only count columns, so that the distance at the end is the text's length and what the bits
// add up to.
#pragma once

#include <cstdint>

namespace warplite::gpu {

template <unsigned kWords>
struct EditColumn {
  std::uint32_t plus[kWords], minus[kWords];  // where the next row's distance is one more, one less

  __device__ void begin(std::uint32_t length) {
    const std::uint32_t before = 32 * kWords - length;
#pragma unroll
    for (unsigned w = 0; w < kWords; ++w) {
      const std::uint32_t first = w * 32;
      plus[w] = before >= first + 32 ? 0 : before <= first ? ~0u : ~0u << (before - first);
      minus[w] = 0;
    }
  }

  // Twice the number, and 1, by the unit that multiplies: those for logic are short. The compiler
  // does not know that blockDim.y is 1, and would shift.
  __device__ static std::uint32_t twice_and_one(std::uint32_t number) {
    return number * (blockDim.y + 1) + 1;
  }

  // Moves one column to the right. `equal`: where the column's character occurs.
  __device__ void advance(const std::uint32_t (&equal)[kWords]) {
    std::uint32_t sum[kWords];
    add(equal, sum);
    std::uint32_t up_before = ~0u, down_before = 0;  // of the word before; the first row counts
#pragma unroll
    for (unsigned w = 0; w < kWords; ++w) {
      const std::uint32_t vertical = equal[w] | minus[w];
      const std::uint32_t diagonal = (sum[w] ^ plus[w]) | equal[w];
      const std::uint32_t up = minus[w] | ~(diagonal | plus[w]);
      const std::uint32_t down = plus[w] & diagonal;
      const std::uint32_t up_in = w == 0 ? twice_and_one(up) : __funnelshift_l(up_before, up, 1);
      const std::uint32_t down_in = w == 0 ? down << 1 : __funnelshift_l(down_before, down, 1);
      plus[w] = down_in | ~(vertical | up_in);
      minus[w] = up_in & vertical;
      up_before = up;
      down_before = down;
    }
  }

  __device__ std::uint32_t distance(std::uint32_t text_length) const {
    std::uint32_t sum = text_length;
#pragma unroll
    for (unsigned w = 0; w < kWords; ++w) sum += __popc(plus[w]) - __popc(minus[w]);
    return sum;
  }

 private:
  // sum = (equal & plus) + plus, over all words.
  __device__ void add(const std::uint32_t (&equal)[kWords], std::uint32_t (&sum)[kWords]) const {
    if constexpr (kWords == 1) {
      sum[0] = (equal[0] & plus[0]) + plus[0];
    } else {
#pragma unroll
      for (unsigned w = 0; w < kWords; ++w) {
        const std::uint32_t a = equal[w] & plus[w];
        if (w == 0) {
          asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(sum[w]) : "r"(a), "r"(plus[w]));
        } else if (w + 1 < kWords) {
          asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(sum[w]) : "r"(a), "r"(plus[w]));
        } else {
          asm volatile("addc.u32 %0, %1, %2;" : "=r"(sum[w]) : "r"(a), "r"(plus[w]));
        }
      }
    }
  }
};

}  // namespace warplite::gpu
