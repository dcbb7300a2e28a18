// Inverted files on the CPU (compute/ivf.h). The probed lists come from the exact search over the
// centroids. Many queries are shared out to the threads; of few, the lists are.
#pragma once

#include "compute/ivf.h"

namespace warplite::cpu {

// Throws std::bad_alloc, and Error{kInterrupted} when cancelled.
void search_ivf_nearest(const compute::IvfWork& work, compute::HitTable& best);

}  // namespace warplite::cpu
