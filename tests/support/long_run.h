// The heavier variants of tests: more combinations of what every run checks. They are ctest's entries
// NAME_long, with the label `long`.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace warplite::testing {

inline bool long_run() { return std::getenv("WARPLITE_LONG") != nullptr; }

// Whether combination `n` is run: about one in `every` in an ordinary run, every one in a long one. Which,
// is mixed, since what a combination has follows from the divisors of its number.
inline bool due(std::uint64_t n, unsigned every) {
  return long_run() || (n * 0x9e3779b97f4a7c15u >> 32) % every == 0;
}

}  // namespace warplite::testing
