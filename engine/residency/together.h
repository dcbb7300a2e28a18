// Parts of one search, each on its device: the first on the caller's thread, the others on their
// own. Threads: any.
#pragma once

#include <cstddef>
#include <functional>

#include "compute/ops.h"
#include "core/error.h"

namespace warplite::engine {

// Fewer queries than these are not worth a device of their own. Measured on two H100: 512 queries over
// 8M × 128 rows 3.9 → 2.6 ms; through lists of 10M × 96 rows 2,048 6.4 → 5.1 ms, and 1,024 as long as before.
inline constexpr std::size_t kLeastExact = 256, kLeastOfLists = 1024;

// How many devices share so many queries, when each holds all that is searched and takes `least` at least; the
// part-th of `parts` takes those from first_query(part) to first_query(part + 1).
std::size_t devices_sharing(std::size_t queries, std::size_t devices, std::size_t least);
inline std::size_t first_query(std::size_t part, std::size_t parts, std::size_t queries) {
  return queries * part / parts;
}

// Calls body(0) … body(n − 1) with what they are to ask whether the search is given up, and returns
// the first error, that of 0 first, with its number in `failed`. All have ended then. n may be 0.
using PartOfSearch = std::function<Status(std::size_t, compute::Cancellation*)>;
Status run_together(std::size_t n, compute::Cancellation* cancellation, const PartOfSearch& body,
                    std::size_t& failed);

}  // namespace warplite::engine
