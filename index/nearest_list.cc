#include "index/nearest_list.h"

#include <algorithm>

namespace warplite::index {
namespace {

// Rows handed to the device at once: enough for a GPU, and little memory for their hits.
constexpr std::size_t kBatch = 16384;

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
  compute::Block block;
  block.vectors = centroids_.get();
  block.rows = block.live_rows = lists_;
  compute::Workload work;
  work.blocks = {&block, 1};
  work.cancellation = cancellation;
  for (std::size_t first = 0; first < count; first += kBatch) {
    const std::size_t batch = std::min(kBatch, count - first);
    work.queries = {reinterpret_cast<const std::byte*>(rows + first * dim_), batch, dim_,
                    ElementType::kFloat32};
    compute::HitTable best(batch, 1);
    device_.nearest(work, best).raise();
    for (std::size_t i = 0; i < batch; ++i) {
      const Hit& hit = best.sorted(i).front();
      out[first + i] = {hit.row, hit.distance};
    }
  }
}

}  // namespace warplite::index
