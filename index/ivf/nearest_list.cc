#include "index/ivf/nearest_list.h"

#include <algorithm>

namespace warplite::index {
namespace {

// Rows handed to the device at once: enough for a GPU, and little memory for their hits.
constexpr std::size_t kBatch = 32768;

}  // namespace

NearestList::NearestList(compute::Device& device, const float* centroids, std::uint32_t lists,
                         std::uint32_t dim)
    : device_(device), lists_(lists), dim_(dim) {
  const std::size_t size = std::size_t{lists} * dim * sizeof(float);
  device.make_resident({nullptr, reinterpret_cast<const std::byte*>(centroids), size}, &centroids_)
      .raise();
}

void NearestList::find(const float* rows, std::size_t count, compute::Cancellation* cancellation,
                       Nearest* out) const {
  for (std::size_t first = 0; first < count; first += kBatch) {
    compute::AssignWork work;
    work.rows = rows + first * dim_;
    work.count = std::min(kBatch, count - first);
    work.dim = dim_;
    work.lists = lists_;
    work.centroids = centroids_.get();
    work.out = out + first;
    work.cancellation = cancellation;
    device_.assign(work).raise();
  }
}

}  // namespace warplite::index
