// A random 128-bit name. A stamp is drawn afresh for every block that is
// written and never reused, so (stamp) names immutable content: caches keyed by
// it need no invalidation after rollback, in other processes or copied files.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace warplite {

struct Stamp {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool is_null() const { return high == 0 && low == 0; }
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};

// Draws a stamp (thread-safe; from the operating system's randomness, fork-safe).
Stamp new_stamp();

}  // namespace warplite
