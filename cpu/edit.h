// Edit distances on the CPU (compute/edit.h): 32 texts of about one length against a query
// (edit_kernels.h), those of the query's own length first, so that thresholds soon rule out those
// whose lengths differ too much. Threads share out the groups of texts and batches of queries.
#pragma once

#include "compute/edit.h"

namespace warplite::cpu {

// Throw std::bad_alloc, and Error{kInterrupted} when cancelled.
void search_edit_nearest(const compute::EditWork& work, compute::HitTable& best);
void search_edit_within(const compute::EditWork& work, compute::HitLists& out);

}  // namespace warplite::cpu
