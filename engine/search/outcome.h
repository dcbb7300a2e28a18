// Outcome collects what a search finds, whichever operation it is: filled by devices, at once,
// block by block, or in shares of which each is filled on a thread of its own and then merged.
// Threads: as any value.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "compute/device.h"

namespace warplite::engine {

class Outcome {
 public:
  virtual ~Outcome() = default;

  // Adds what the device finds. After an error the contents are unspecified.
  virtual Status add(compute::Device& device, const compute::Workload& work) = 0;
  virtual void clear() = 0;
  // Has each hit changed, which may get another block and row.
  virtual void for_each(const std::function<void(Hit&)>& change) = 0;

  // An empty one for some of the queries.
  virtual std::unique_ptr<Outcome> share(std::size_t queries) const = 0;
  // The same for those from `first` on, which may lie within this; it is merged all the same. Slices that do not
  // overlap may be filled at once.
  virtual std::unique_ptr<Outcome> slice(std::size_t first, std::size_t queries) {
    (void)first;
    return share(queries);
  }
  // Adds what share() has found for the queries from `first` on.
  virtual void merge(Outcome& share, std::size_t first) = 0;
};

}  // namespace warplite::engine
