// The list of a vector: that of the nearest centroid, canonical l2, ties to the lower list.
// compute/ivf.h. Exact on every device.
// Threads: find() may run concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compute/device.h"

namespace warplite::index {

using Nearest = compute::Assigned;

class NearestList {
 public:
  // `centroids`: [lists][dim], alive as long as this. `resident`: these are on the device already, so that nothing is
  // copied; null: they are not.
  NearestList(compute::Device& device, const float* centroids, std::uint32_t lists,
              std::uint32_t dim, const compute::Buffer* resident = nullptr);

  const compute::Buffer* centroids() const { return centroids_; }  // on the device

  // Finds the nearest list of each of `count` rows in model space. Throws Error{kInterrupted}, and
  // what the device reports.
  void find(const float* rows, std::size_t count, compute::Cancellation* cancellation,
            Nearest* out) const;

 private:
  compute::Device& device_;
  std::uint32_t lists_, dim_;
  const compute::Buffer* centroids_;
  std::shared_ptr<const compute::Buffer> own_;  // null: somebody else's are used
};

}  // namespace warplite::index
