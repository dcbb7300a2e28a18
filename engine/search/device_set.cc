#include "engine/search/device_set.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/process/process.h"
#include "engine/residency/common_cancellation.h"

namespace warplite::engine {
namespace {

// Copies of rows that are not sealed: one on a device for all connections that call them by one name, as
// long as one of them holds it.
class NamedCopies {
 public:
  // Lives as long as the process.
  static NamedCopies& instance() {
    static NamedCopies* const copies = new NamedCopies;
    return *copies;
  }

  Status get(compute::Device& device, const SearchBlock& block,
             std::shared_ptr<const compute::Buffer>& out) {
    const std::shared_ptr<Copy> copy = find(device, block.block.name);
    const std::lock_guard lock(copy->mutex);  // who comes second waits for what the first makes
    out = copy->buffer.lock();
    if (out != nullptr && out->size() == block.bytes()) return {};
    const Part::Vectors& vectors = block.vectors;
    Status status = device.make_resident({vectors.owner, vectors.data.data, block.bytes()}, &out);
    if (status.ok()) copy->buffer = out;
    return status;
  }

 private:
  struct Copy {
    Copy(const compute::Device& of, const CacheKey& called) : device(&of), name(called) {}

    const compute::Device* const device;
    const CacheKey name;
    const unsigned made_after = forks();  // the driver's work is no use to another process
    std::mutex mutex;
    std::weak_ptr<const compute::Buffer> buffer;
  };

  NamedCopies() { lock_across_forks(mutex_); }

  std::shared_ptr<Copy> find(const compute::Device& device, const CacheKey& name) {
    const std::lock_guard lock(mutex_);
    std::erase_if(copies_, [](const std::shared_ptr<Copy>& copy) {
      return copy.use_count() == 1 && copy->buffer.expired();
    });
    for (const std::shared_ptr<Copy>& copy : copies_) {
      const bool ours = copy->made_after == forks();
      if (ours && copy->device == &device && copy->name == name) return copy;
    }
    return copies_.emplace_back(std::make_shared<Copy>(device, name));
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Copy>> copies_;
};

}  // namespace

Status place_block(compute::Device& device, const SearchBlock& block,
                   std::shared_ptr<const compute::Buffer>& out, bool* in_place) {
  const Part::Vectors& vectors = block.vectors;
  if (block.handed != nullptr) {
    WARP_CHECK(block.handed_to == &device);
    if (in_place != nullptr) *in_place = false;
    out = block.handed;
    return {};
  }
  if (block.cached()) {
    return Residency::instance().buffer(device, vectors.key, vectors.resident, &out, in_place);
  }
  if (in_place != nullptr) *in_place = false;
  if (device.own_memory() && !block.block.name.is_null()) {
    return NamedCopies::instance().get(device, block, out);
  }
  return device.make_resident({vectors.owner, vectors.data.data, block.bytes()}, &out);
}

DeviceSet::DeviceSet(compute::Device& device, std::shared_ptr<const SearchBlocks> blocks,
                     std::shared_ptr<DeviceSet> first)
    : HeldSet(device), first_(std::move(first)), blocks_(std::move(blocks)) {}

std::shared_ptr<DeviceSet> DeviceSet::create(compute::Device& device,
                                             std::shared_ptr<const SearchBlocks> blocks,
                                             std::shared_ptr<DeviceSet> first,
                                             compute::Cancellation* cancellation,
                                             Status& status) {
  const std::shared_ptr<DeviceSet> set(
      new DeviceSet(device, std::move(blocks), std::move(first)));
  status = set->fill(cancellation);
  return status.ok() ? set : nullptr;
}

Status DeviceSet::fill(compute::Cancellation* cancellation) {
  if (first_ != nullptr) {
    ready_ = first_->ready_;
    lasting_ = first_->lasting_;
  }
  buffers_.reserve(blocks_->size());
  ready_.reserve(ready_.size() + blocks_->size());
  for (const SearchBlock& block : *blocks_) {
    ask(cancellation);
    std::shared_ptr<const compute::Buffer> buffer;
    bool in_place = false;
    if (Status status = place_block(device(), block, buffer, &in_place); !status.ok()) {
      return status;
    }
    if (in_place) lasting_ = false;
    ready_.push_back(block.block);
    ready_.back().vectors = buffer.get();
    buffers_.push_back(std::move(buffer));
    if (block.cached()) add(block.vectors.key);
  }
  return {};
}

void DeviceSet::use() {
  if (first_ != nullptr) first_->use();
  Residency::instance().use(*this);
}

void DeviceSet::select(const Selection& rows, Workset& out) const {
  if (first_ != nullptr) first_->select(rows, out);
  for (std::size_t i = 0; i < blocks_->size(); ++i) out.add((*blocks_)[i], rows, buffers_[i].get());
}

}  // namespace warplite::engine
