// A whole search on the CPU: cuts the blocks into spans, shares them out to threads,
// chooses between scanning and the nominating product, merges what was found.
#pragma once

#include "compute/ops.h"

namespace warplite::cpu {

// These throw std::bad_alloc, and Error{kInterrupted} when cancelled.
void search_nearest(const compute::Workload& work, compute::HitTable& best);
void search_within(const compute::Workload& work, compute::HitLists& out);

// Returns as many of some queries as are together answered at the greatest rate: with some more, places of
// a panel would be multiplied in vain.
std::size_t best_batch(std::size_t queries);

}  // namespace warplite::cpu
