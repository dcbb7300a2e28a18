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
  // `centroids`: [lists][dim], alive as long as this. `resident`: these are on the device already,
  // so that nothing is copied; null: they are not.
  NearestList(compute::Device& device, const float* centroids, std::uint32_t lists,
              std::uint32_t dim, const compute::Buffer* resident = nullptr);
  // Many rows are divided among these; the first has few.
  NearestList(const compute::Devices& devices, const float* centroids, std::uint32_t lists,
              std::uint32_t dim);

  const compute::Buffer* centroids() const { return centroids_; }  // on the first device

  // Finds the nearest list of each of `count` rows in model space. Throws Error{kInterrupted}, and
  // compute::DeviceError for what a device reports.
  void find(const float* rows, std::size_t count, compute::Cancellation* cancellation,
            Nearest* out) const;

 private:
  using Copy = std::shared_ptr<const compute::Buffer>;

  Copy copy_to(compute::Device& device) const;
  std::size_t sharing(std::size_t rows) const;

  compute::Devices devices_;
  const float* on_host_;
  std::uint32_t lists_, dim_;
  const compute::Buffer* centroids_;
  Copy own_;  // null: somebody else's are used
};

}  // namespace warplite::index
