// Parts of one search, each on its device: the first on the caller's thread, the others on their
// own. Threads: any.
#pragma once

#include <cstddef>
#include <functional>

#include "compute/ops.h"
#include "core/error.h"

namespace warplite::engine {

// Queries that keep more than one device busy.
inline constexpr std::size_t kManyQueries = 1024;

// Calls body(0) … body(n − 1) with what they are to ask whether the search is given up, and returns
// the first error, that of 0 first, with its number in `failed`. All have ended then. n may be 0.
using PartOfSearch = std::function<Status(std::size_t, compute::Cancellation*)>;
Status run_together(std::size_t n, compute::Cancellation* cancellation, const PartOfSearch& body,
                    std::size_t& failed);

}  // namespace warplite::engine
