// The nearest centroid of each row (compute/ivf.h), on the CPU. A float32 product bounds every
// distance from below; where all but the least bound exceed the canonical distance of the centroid
// that it belongs to, that one is the nearest. The few rows for which this proves nothing are
// searched as any others.
#pragma once

#include "compute/ivf.h"

namespace warplite::cpu {

// Throws std::bad_alloc, and Error{kInterrupted} when cancelled.
void assign_nearest(const compute::AssignWork& work);

}  // namespace warplite::cpu
