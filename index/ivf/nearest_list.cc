#include "index/ivf/nearest_list.h"

#include <algorithm>
#include <thread>

#include "compute/parallel.h"
#include "index/ivf/training_task.h"

namespace warplite::index {
namespace {

// Rows handed to the device at once: enough for a GPU, and little memory for their hits.
constexpr std::size_t kBatch = 32768;
// So many batches are on their way to a GPU at once: one is copied while another is multiplied.
constexpr std::size_t kOnTheirWay = 4;

}  // namespace

NearestList::NearestList(compute::Device& device, const float* centroids, std::uint32_t lists,
                         std::uint32_t dim, const compute::Buffer* resident)
    : device_(device), lists_(lists), dim_(dim), centroids_(resident) {
  if (resident != nullptr) return;
  const std::size_t size = std::size_t{lists} * dim * sizeof(float);
  device.make_resident({nullptr, reinterpret_cast<const std::byte*>(centroids), size}, &own_)
      .raise();
  centroids_ = own_.get();
}

void NearestList::find(const float* rows, std::size_t count, compute::Cancellation* cancellation,
                       Nearest* out) const {
  const std::size_t batches = (count + kBatch - 1) / kBatch;
  const std::size_t threads = device_.own_memory() ? kOnTheirWay : 1;
  const std::thread::id caller = std::this_thread::get_id();
  compute::in_parallel(batches, 1, threads, [&](std::size_t begin, std::size_t end) {
    HelperCancellation helper;
    for (std::size_t batch = begin; batch < end; ++batch) {
      const std::size_t first = batch * kBatch;
      compute::AssignWork work;
      work.rows = rows + first * dim_;
      work.count = std::min(kBatch, count - first);
      work.dim = dim_;
      work.lists = lists_;
      work.centroids = centroids_;
      work.out = out + first;
      work.cancellation = std::this_thread::get_id() == caller ? cancellation : &helper;
      device_.assign(work).raise();
    }
  });
}

}  // namespace warplite::index
