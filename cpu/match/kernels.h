// The inner loops of match counting, a part of the table of kernels of each SIMD target.
// Threads: the functions keep no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplite::cpu {

// Rows are padded to this many, so that no loop has an end to care for.
constexpr std::size_t kMatchPadding = 512;

// Scans of counters of one width. `n` is a multiple of kMatchPadding.
template <class Count>
struct CountScans {
  // Returns how many are at least `floor`.
  std::size_t (*at_least)(const Count* counts, std::size_t n, Count floor) = nullptr;
  // Writes their places in ascending order, and returns how many there are.
  std::size_t (*collect)(const Count* counts, std::size_t n, Count floor,
                         std::uint32_t* places) = nullptr;
};

struct MatchKernels {
  // Counts in how many of `n` bitmaps each row is: counts[0 … 8·stride). Row r is bit r / stride of
  // byte r % stride, so that sums of bits become bytes by a few shifts. REQUIRES: n ≤ 255; stride
  // is a multiple of 64.
  void (*sum_bitmaps)(const std::uint8_t* const* bitmaps, std::size_t n, std::size_t stride,
                      std::uint8_t* counts) = nullptr;

  CountScans<std::uint8_t> bytes;
  CountScans<std::uint16_t> shorts;
  CountScans<std::uint32_t> words;

  const CountScans<std::uint8_t>& scans(std::uint8_t) const { return bytes; }
  const CountScans<std::uint16_t>& scans(std::uint16_t) const { return shorts; }
  const CountScans<std::uint32_t>& scans(std::uint32_t) const { return words; }
};

// The table of the SIMD target in use. Valid for the life of the process.
const MatchKernels& match_kernels();

}  // namespace warplite::cpu
