// Match counting on the CPU (compute/match.h): a counter for each row of a strip of a tile, in as
// few bytes as the query's bound allows, so that a strip's counters stay in the first-level cache.
// Long lists are added as bitmaps, the others row by row. Threads share out the tiles, and the
// queries of each.
#pragma once

#include "compute/match.h"

namespace warplite::cpu {

// Throws std::bad_alloc, and Error{kInterrupted} when cancelled.
void search_match(const compute::MatchWork& work, compute::HitTable& best);

}  // namespace warplite::cpu
