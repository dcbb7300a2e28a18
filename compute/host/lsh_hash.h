// The integer arithmetic of locality-sensitive hashing: MurmurHash3_x86_32, after its published
// definition (A. Appleby), by which long signatures become one of few buckets
// (papers/genie-2018 §IV-A2), and whole numbers from doubles. Part of what stored indexes mean: the
// same bits on every machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace warplite::compute {

// The numbers that words are multiplied by, and what a step adds.
inline constexpr std::uint32_t kMurmurFirst = 0xcc9e2d51, kMurmurSecond = 0x1b873593;
inline constexpr std::uint32_t kMurmurSum = 0xe6546b64;

constexpr std::uint32_t murmur3_add(std::uint32_t state, std::uint32_t word) {
  state ^= std::rotl(word * kMurmurFirst, 15) * kMurmurSecond;
  return std::rotl(state, 13) * 5 + kMurmurSum;
}

constexpr std::uint32_t murmur3_finish(std::uint32_t state, std::uint32_t bytes) {
  state ^= bytes;
  state ^= state >> 16;
  state *= 0x85ebca6b;
  state ^= state >> 13;
  state *= 0xc2b2ae35;
  return state ^ state >> 16;
}

constexpr std::uint32_t murmur3(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
  std::uint32_t state = seed;
  const std::size_t words = bytes.size() / 4;
  const auto word_at = [&](std::size_t first, std::size_t count) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < count; ++i) word |= std::uint32_t{bytes[first + i]} << (8 * i);
    return word;
  };
  for (std::size_t i = 0; i < words; ++i) state = murmur3_add(state, word_at(4 * i, 4));
  if (bytes.size() % 4 != 0) {
    // The remaining bytes are mixed, but the state is not stirred again: 13 bits back, and no sum.
    std::uint32_t word = word_at(4 * words, bytes.size() % 4) * kMurmurFirst;
    state ^= std::rotl(word, 15) * kMurmurSecond;
  }
  return murmur3_finish(state, static_cast<std::uint32_t>(bytes.size()));
}

// 0 … buckets − 1, as likely as each other.
constexpr std::uint32_t bucket_of(std::uint32_t hash, std::uint32_t buckets) {
  return static_cast<std::uint32_t>(std::uint64_t{hash} * buckets >> 32);
}

// Added to a double below 2⁵¹ in magnitude, it leaves the nearest whole number in the low bits of
// the sum, ties going to the even one. A grid that is shifted at random has the same cells whether
// they are found by rounding or, as papers have it, by rounding down; but this is one addition,
// alike on every machine. Numbers that are larger yet find cells that are wider.
inline constexpr double kToWhole = 0x1.8p52;

}  // namespace warplite::compute
