#include "storage/codec/checksum.h"

#include <cstring>

namespace warplite::storage {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd
constexpr std::uint64_t kMultiplier = 0xd6e8feb86659fd93;

// Absorbs a word. A bijection of either argument when the other is fixed, so that a change
// in one word is never lost; the shift lets the high bits change what comes next.
constexpr std::uint64_t absorb(std::uint64_t lane, std::uint64_t word) {
  lane = (lane ^ word) * kMultiplier;
  return lane ^ lane >> 32;
}

// A bijection in which every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= kMultiplier;
  x ^= x >> 32;
  x *= kMultiplier;
  x ^= x >> 32;
  return x;
}

}  // namespace

Checksum::Checksum(std::uint64_t seed) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = seed + (i + 1) * kGolden;
}

void Checksum::update(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  // Lanes in locals: the compiler cannot know that `at` does not point into *this.
  std::array<std::uint64_t, 8> lanes = lanes_;
  for (; left >= kStripe; left -= kStripe, at += kStripe) {
    std::uint64_t words[8];
    std::memcpy(words, at, kStripe);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) lanes[i] = absorb(lanes[i], words[i]);
  }
  lanes_ = lanes;
  if (left == 0) return;
  std::byte last[kStripe] = {};
  std::memcpy(last, at, left);
  stripe(last);
}

void Checksum::stripe(const std::byte* at) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    std::uint64_t word;
    std::memcpy(&word, at + i * 8, 8);
    lanes_[i] = absorb(lanes_[i], word);
  }
}

std::uint64_t Checksum::finish() const {
  std::uint64_t hash = mix(length_ + kGolden);
  for (std::uint64_t lane : lanes_) hash = mix(hash ^ lane) + kGolden;
  return hash;
}

}  // namespace warplite::storage
