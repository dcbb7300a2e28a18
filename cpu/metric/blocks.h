// Decides which blocks of a workload are searched through a metric index: the index is made when it
// is worth it, and kept with the block's buffer.
// Threads: any; an index is made by one thread, while others do without.
#pragma once

#include <memory>
#include <vector>

#include "compute/device.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {

struct MetricBlock {
  const compute::Block* block;
  std::shared_ptr<const compute::VectorMetric> metric;
};

struct MetricBlocks {
  std::vector<MetricBlock> indexed;
  std::vector<compute::Block> plain;
};

// REQUIRES: work.metric. Throws Error{kInterrupted}.
MetricBlocks metric_blocks(compute::Device& host, const compute::Workload& work);

}  // namespace warplite::cpu
