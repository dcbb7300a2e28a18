// Asks for memory ahead of its use.
// Inlined by force, and a function that calls it and does nothing else must be so, too: a call to one that
// only prefetches looks useless to GCC, which drops it (seen with GCC 12 and 13).
#pragma once

#include <cstddef>
#include <cstdint>

#include <hwy/base.h>

namespace warplite::cpu {

// Every line of memory from `from` to `end`, into the second-level cache.
HWY_INLINE void ask_for_lines(const void* from, const void* end) {
  constexpr std::uintptr_t kLine = 64;
  const auto last = reinterpret_cast<std::uintptr_t>(end);
  for (auto at = reinterpret_cast<std::uintptr_t>(from) & ~(kLine - 1); at < last; at += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
  }
}

}  // namespace warplite::cpu
