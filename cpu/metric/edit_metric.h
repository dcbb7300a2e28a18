// Edit distances on the CPU through the metric indexes of tiles (compute/edit_metric.h): the results
// of edit_scan.h, from fewer distances.
// Threads: any. Errors: as Device's operations throw.
#pragma once

#include "compute/device.h"
#include "cpu/edit/results.h"

namespace warplite::cpu {

// REQUIRES: work.metric. `k`: 0 for all within the range. `host` builds indexes.
void search_edit_metric(compute::Device& host, const compute::EditWork& work, std::size_t k,
                        EditResults& results);

}  // namespace warplite::cpu
