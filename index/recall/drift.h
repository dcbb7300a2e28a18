// Drift: rows come that are unlike those that a model's recall was measured with. They lie farther from the
// centroids of their lists, so that lists hold their neighbours worse and codes tell them apart less well. To see
// that takes a hundredth of the time that it takes to measure recall. Threads: any.
#pragma once

#include "compute/device.h"
#include "core/types.h"
#include "index/trained.h"

namespace warplite::index {

// Says whether many of the rows are such; false where the model does not say how far its own lie.
// Throws Error{kInterrupted}, and what a device reports.
bool drifted(const compute::Devices& devices, const InvertedModel& model, const MatrixView& rows,
             compute::Cancellation* cancellation);

}  // namespace warplite::index
