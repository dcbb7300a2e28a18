// Searches of vectors through metric indexes (compute/metric.h) on the CPU: the same results as
// search.h, from fewer distances. A query at a time goes through the index of a block; where its
// ball touches too much of it, rows are compared as without it.
// Threads: any. Errors: as Device's operations throw.
#pragma once

#include "compute/device.h"
#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

// REQUIRES: work.metric
void search_metric_nearest(compute::Device& host, const compute::Workload& work,
                           compute::HitTable& best);
void search_metric_within(compute::Device& host, const compute::Workload& work,
                          compute::HitLists& out);

// Counts what searches without an index evaluate.
void count_all(const compute::Workload& work);

}  // namespace warplite::cpu
