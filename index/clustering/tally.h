// A pass of k-means over stored rows (compute/tally.h), on any device: where they are resident on
// one that adds up rows itself, there; else they are read piece by piece, the device finds their
// lists, and the host adds them up. Threads: as the task. The same bits everywhere.
#pragma once

#include <cstdint>

#include "compute/tally.h"
#include "index/clustering/nearest_list.h"
#include "index/training_task.h"

namespace warplite::index {

class TallyPass {
 public:
  // `centroids`: [lists][dim], alive as long as this.
  TallyPass(const TrainingTask& task, const float* centroids, std::uint32_t lists,
            std::uint32_t dim);

  // Adds rows to `out`. `work` has its blocks, what they hold, and whether rows are normalised.
  // Blocks have their host's bytes, and with `resident` the device's. With a turn nothing is passed
  // on but by the device. Throws Error{kInterrupted}, and what the device reports.
  void add(compute::TallyWork work, bool resident, compute::ListTallies& out) const;

 private:
  bool add_on_device(compute::TallyWork work, compute::ListTallies& out) const;

  const TrainingTask& task_;
  const NearestList lists_;
  const std::uint32_t count_, dim_;
};

}  // namespace warplite::index
