// Counters of a strip's rows in shared memory, 4, 8, 16 or 32 bits each, as many of them in a word
// as fit. Increments are atomic; everything else a thread does to its own vectors of them: each
// warp has a run of rows, in order, so that rows are numbered without a look at other warps' rows.
#pragma once

#include <cstdint>

#include "gpu/match/lists.cuh"

namespace warplite::gpu {

// A MatchWord says what one instruction does to the counters of a word.
template <unsigned kBits>
struct MatchWord {
  static constexpr unsigned kPerWord = 32 / kBits;
  static constexpr std::uint32_t kMost = kBits == 32 ? ~0u : (1u << kBits % 32) - 1;
  static constexpr std::uint32_t kOnes = ~0u / kMost;  // 1 in each
  static constexpr std::uint32_t kTops = kOnes << (kBits - 1);

  // The top bit of each counter that is at least `count`. REQUIRES: count ≤ kMost
  __device__ static std::uint32_t at_least(std::uint32_t word, std::uint32_t count) {
    // Its mean with the complement of the count, rounded up, reaches the top bit.
    const std::uint32_t c = ~(count * kOnes);
    return ((word | c) - (((word ^ c) & ~kOnes) >> 1)) & kTops;
  }
  // Returns how many top bits are set, in parts that add up for 31 vectors; sum() adds the parts.
  __device__ static std::uint32_t tally(const uint4& tops) {
    const std::uint32_t ones = (tops.x >> (kBits - 1)) + (tops.y >> (kBits - 1)) +
                               (tops.z >> (kBits - 1)) + (tops.w >> (kBits - 1));
    return kBits == 4 ? (ones & 0x0f0f0f0fu) + (ones >> 4 & 0x0f0f0f0fu) : ones;
  }
  __device__ static std::uint32_t sum(std::uint32_t tallies) {
    if constexpr (kBits <= 8) return __dp4a(tallies, 0x01010101u, 0u);
    if constexpr (kBits == 16) return (tallies & 0xffffu) + (tallies >> 16);
    return tallies;
  }
  __device__ static std::uint32_t get(std::uint32_t word, unsigned i) {
    return word >> (i * kBits) & kMost;
  }
  // Counters whose row's bit is not set become 0.
  __device__ static std::uint32_t among(std::uint32_t word, std::uint32_t live) {
    std::uint32_t mask = 0;
#pragma unroll
    for (unsigned i = 0; i < kPerWord; ++i) {
      mask |= (0 - (live >> i & 1)) & (kMost << (i * kBits % 32));
    }
    return word & mask;
  }
};

// kWhole: strips are whole tiles.
template <unsigned kBits, unsigned kThreads, bool kWhole>
class MatchCounters {
 public:
  using Word = MatchWord<kBits>;
  static constexpr unsigned kWarps = kThreads / kLanes;
  static constexpr unsigned kWordsPerVector = 4;
  static constexpr unsigned kRowsPerVector = kWordsPerVector * Word::kPerWord;

  // Makes counters for the rows `first` … `first + rows − 1` of a tile.
  __device__ MatchCounters(uint4* memory, std::uint32_t first, std::uint32_t rows)
      : memory_(memory), address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))),
        first_(first), rows_(rows) {
    const std::uint32_t vectors = (rows + kRowsPerVector - 1) / kRowsPerVector;
    turns_ = (vectors + kThreads - 1) / kThreads;
    own_ = threadIdx.x / kLanes * turns_ * kLanes + threadIdx.x % kLanes;
  }

  std::uint32_t __device__ first() const { return first_; }
  std::uint32_t __device__ rows() const { return rows_; }
  // Vectors of a thread; the i-th begins at which row of the strip.
  __device__ unsigned turns() const { return turns_; }
  __device__ std::uint32_t all_turns() const { return (1u << turns_) - 1; }
  __device__ std::uint32_t row_of(unsigned turn) const {
    return (own_ + turn * kLanes) * kRowsPerVector;
  }
  __device__ uint4& vector(unsigned turn) const { return memory_[own_ + turn * kLanes]; }

  __device__ void clear() const {
    for (unsigned turn = 0; turn < turns_; ++turn) vector(turn) = {};
  }
  // Loads the counters from sums of the whole tile. It exists for 32 bits only.
  __device__ void load(const std::uint32_t* sums) const {
    for (unsigned turn = 0; turn < turns_; ++turn) {
      vector(turn) = reinterpret_cast<const uint4*>(sums + first_)[own_ + turn * kLanes];
    }
  }

  // The lower 16 bits of `row`: of the tile; not of this strip, or not `valid`: nothing happens.
  __device__ void add(std::uint32_t row, std::uint32_t weight, bool valid) const {
    if constexpr (!kWhole) {
      row = (row & 0xffffu) - first_;
      valid = valid && row < rows_;
    }
    // Written down, since a compiler jumps around an instruction that it could make conditional.
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %2, 0; @p red.shared.add.u32 [%0], %1; }" ::"r"(
            address_ + (row & 0xffffu) / Word::kPerWord * 4),
        "r"(__funnelshift_l(0, weight, row * kBits)), "r"(static_cast<unsigned>(valid)));
  }

  __device__ std::uint32_t get(std::uint32_t row) const {
    const auto* words = reinterpret_cast<const std::uint32_t*>(memory_);
    return Word::get(words[row / Word::kPerWord], row % Word::kPerWord);
  }

  // Rows that take no part count nothing. `live`: of the tile.
  __device__ void forget_dead(const std::uint64_t* live) const {
    for (unsigned turn = 0; turn < turns_; ++turn) {
      const std::uint32_t row = row_of(turn);
      if (row >= rows_) return;
      const std::uint64_t bits = live[(first_ + row) / 64] >> ((first_ + row) % 64);
      uint4& v = vector(turn);
      const auto take = [bits](std::uint32_t word, unsigned i) {
        return Word::among(word, static_cast<std::uint32_t>(bits >> (i * Word::kPerWord)));
      };
      v = {take(v.x, 0), take(v.y, 1), take(v.z, 2), take(v.w, 3)};
    }
  }

  // Rows that count more than `most` count nothing. REQUIRES: most < kMost
  __device__ void forget_above(std::uint32_t most) const {
    const auto keep = [most](std::uint32_t word) {
      return word & ~((Word::at_least(word, most + 1) >> (kBits - 1)) * Word::kMost);
    };
    for (unsigned turn = 0; turn < turns_; ++turn) {
      uint4& v = vector(turn);
      v = {keep(v.x), keep(v.y), keep(v.z), keep(v.w)};
    }
  }

  // Returns how many of the thread's own rows count at least `count`. Bit i of `turns` says that
  // the i-th vector is looked at, and afterwards that it has such rows.
  __device__ std::uint32_t at_least(std::uint32_t count, std::uint32_t& turns) const {
    std::uint32_t tallies = 0, found = 0;
    for (std::uint32_t left = turns; left != 0; left &= left - 1) {
      const auto turn = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
      const uint4 v = vector(turn);
      const std::uint32_t x = Word::at_least(v.x, count), y = Word::at_least(v.y, count),
                          z = Word::at_least(v.z, count), w = Word::at_least(v.w, count);
      if ((x | y | z | w) == 0) continue;
      tallies += Word::tally({x, y, z, w});
      found |= 1u << turn;
    }
    turns = found;
    return Word::sum(tallies);
  }

  // Calls visit(row of the strip, count) for those of the i-th vector that count at least so much.
  template <typename Visit>
  __device__ void for_rows(unsigned turn, std::uint32_t count, const Visit& visit) const {
    const uint4 v = vector(turn);
    const std::uint32_t words[kWordsPerVector] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (unsigned w = 0; w < kWordsPerVector; ++w) {
      for (std::uint32_t left = Word::at_least(words[w], count); left != 0; left &= left - 1) {
        const unsigned i = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1) / kBits;
        visit(row_of(turn) + w * Word::kPerWord + i, Word::get(words[w], i));
      }
    }
  }

 private:
  uint4* memory_;
  std::uint32_t address_;  // of the same, in shared memory
  std::uint32_t first_, rows_;
  unsigned turns_;
  std::uint32_t own_;
};

}  // namespace warplite::gpu
