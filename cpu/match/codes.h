// Match counting over columns of codes on the CPU (compute/codes.h): strips of rows, whose counters
// stay in the first-level cache. Threads share out the tiles, and the queries of each.
#pragma once

#include "compute/codes.h"

namespace warplite::cpu {

// Throws std::bad_alloc, and Error{kInterrupted} when cancelled.
void search_codes(const compute::CodeWork& work, compute::HitTable& best);

}  // namespace warplite::cpu
