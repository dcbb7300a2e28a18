// Which lists a query probes: compute/ivf.h, and of RaBitQ codes compute/rabitq.h.
// Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/ivf.h"

namespace warplite::cpu {

struct Probe {
  float a;  // what the list adds to scores: (float)D of ivf.h, D of rabitq.h
  std::uint32_t list;
};

// The nprobe lists nearest to each query, nearest first. Throws Error{kInterrupted}.
std::vector<std::vector<Probe>> choose_lists(const compute::IvfWork& work);

}  // namespace warplite::cpu
