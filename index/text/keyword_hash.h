// Keywords of texts. Most are the characters themselves, packed, so that different ones never meet.
// What does not fit is hashed and has the uppermost bit set: a query with such a keyword may count
// a row too high, once in 2⁶³ pairs of keywords, never too low. Whoever needs exact counts looks
// whether a query has any, and if so counts its best rows again, from their texts: when none of
// them changes, no other row can be better.
#pragma once

#include <cstdint>

#include "compute/match.h"

namespace warplite::index {

inline constexpr compute::Keyword kHashed = compute::Keyword{1} << 63;

constexpr bool is_hashed(compute::Keyword keyword) { return (keyword & kHashed) != 0; }

// A hash of numbers, one after another. Part of what stored indexes mean.
class KeywordHash {
 public:
  constexpr void add(std::uint64_t number) {
    state_ = mix(state_ ^ mix(number + 0x9e3779b97f4a7c15u));
  }
  constexpr compute::Keyword keyword() const { return state_ | kHashed; }

 private:
  // A bijection in which every bit of the result depends on every bit of the number.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
  }

  std::uint64_t state_ = 0x2545f4914f6cdd1du;
};

}  // namespace warplite::index
