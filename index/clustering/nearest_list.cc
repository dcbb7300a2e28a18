#include "index/clustering/nearest_list.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "compute/host/parallel.h"
#include "index/training_task.h"

namespace warplite::index {
namespace {

// Rows handed to the device at once: enough for a GPU, and little memory for their hits.
constexpr std::size_t kBatch = 32768;
// So many batches are on their way to a GPU at once: one is copied while another is multiplied.
constexpr std::size_t kOnTheirWay = 4;

}  // namespace

NearestList::NearestList(compute::Device& device, const float* centroids, std::uint32_t lists,
                         std::uint32_t dim, const compute::Buffer* resident)
    : devices_(device), on_host_(centroids), lists_(lists), dim_(dim), centroids_(resident) {
  if (resident != nullptr) return;
  own_ = copy_to(device);
  centroids_ = own_.get();
}

NearestList::NearestList(const compute::Devices& devices, const float* centroids,
                         std::uint32_t lists, std::uint32_t dim)
    : NearestList(*devices.front(), centroids, lists, dim) {
  devices_ = devices;
}

NearestList::Copy NearestList::copy_to(compute::Device& device) const {
  const std::size_t size = std::size_t{lists_} * dim_ * sizeof(float);
  Copy copy;
  const Status status = device.make_resident(
      {nullptr, reinterpret_cast<const std::byte*>(on_host_), size}, &copy);
  if (!status.ok()) throw compute::DeviceError(device, status);
  return copy;
}

// How many devices share these rows. To send a batch takes as long as to compare it with many
// centroids, and devices get theirs side by side.
std::size_t NearestList::sharing(std::size_t rows) const {
  const std::size_t least =
      std::max(kBatch, devices_.front()->worthwhile_bytes() / (dim_ * sizeof(float)));
  if (compute::thread_count() == 1) return 1;  // they would get theirs one after the other
  return std::clamp<std::size_t>(rows / least, 1, devices_.size());
}

void NearestList::find(const float* rows, std::size_t count, compute::Cancellation* cancellation,
                       Nearest* out) const {
  const std::size_t devices = sharing(count);
  std::vector<Copy> copies(devices);  // of those that were not asked yet
  compute::in_parallel(devices - 1, 1, devices - 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin + 1; i <= end; ++i) copies[i] = copy_to(*devices_[i]);
  });
  const std::size_t threads = devices_.front()->own_memory() ? devices * kOnTheirWay : 1;
  // Each of several devices has as many on their way.
  const std::size_t each = (count + threads - 1) / threads;
  const std::size_t size = devices == 1 ? kBatch : std::min(kBatch, each);
  const std::size_t batches = (count + size - 1) / size;
  const std::thread::id caller = std::this_thread::get_id();
  // Other threads may do all that follows, and those do not ask.
  if (cancellation != nullptr && cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
  compute::in_parallel(batches, 1, threads, [&](std::size_t begin, std::size_t end) {
    HelperCancellation helper;
    for (std::size_t batch = begin; batch < end; ++batch) {
      const std::size_t first = batch * size, to = batch % devices;
      compute::AssignWork work;
      work.rows = rows + first * dim_;
      work.count = std::min(size, count - first);
      work.dim = dim_;
      work.lists = lists_;
      work.centroids = to == 0 ? centroids_ : copies[to].get();
      work.out = out + first;
      work.cancellation = std::this_thread::get_id() == caller ? cancellation : &helper;
      const Status status = devices_[to]->assign(work);
      if (!status.ok()) throw compute::DeviceError(*devices_[to], status);
    }
  });
}

}  // namespace warplite::index
