#include "engine/device_set.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/process.h"
#include "engine/common_cancellation.h"

namespace warplite::engine {

Status place_block(compute::Device& device, const SearchBlock& block,
                   std::shared_ptr<const compute::Buffer>& out, bool* in_place) {
  const Part::Vectors& vectors = block.vectors;
  if (block.cached()) {
    return Residency::instance().buffer(device, vectors.key, vectors.resident, &out, in_place);
  }
  if (in_place != nullptr) *in_place = false;
  return device.make_resident({vectors.owner, vectors.data.data, block.bytes()}, &out);
}

DeviceSet::DeviceSet(compute::Device& device, std::shared_ptr<const SearchBlocks> blocks)
    : Holder(device), blocks_(std::move(blocks)), made_after_(forks()) {}

// In a forked child the driver that made the buffers does not work.
DeviceSet::~DeviceSet() {
  if (made_after_ == forks() || !device().own_memory()) return;
  static_cast<void>(new (std::nothrow) auto(std::move(buffers_)));
}

std::shared_ptr<DeviceSet> DeviceSet::create(compute::Device& device,
                                             std::shared_ptr<const SearchBlocks> blocks,
                                             compute::Cancellation* cancellation,
                                             Status& status) {
  const std::shared_ptr<DeviceSet> set(new DeviceSet(device, std::move(blocks)));
  status = set->fill(cancellation);
  return status.ok() ? set : nullptr;
}

Status DeviceSet::fill(compute::Cancellation* cancellation) {
  buffers_.reserve(blocks_->size());
  ready_.reserve(blocks_->size());
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

void DeviceSet::select(const Selection& rows, Workset& out) const {
  for (std::size_t i = 0; i < blocks_->size(); ++i) out.add((*blocks_)[i], rows, buffers_[i].get());
}

ViewSets::~ViewSets() {
  for (const Known& known : known_) {
    if (const auto set = known.set.lock()) Residency::instance().release(*set);
  }
}

std::shared_ptr<DeviceSet> ViewSets::find(std::size_t column, const compute::Device& device) const {
  for (const Known& known : known_) {
    if (known.column == column && known.device == &device) return known.set.lock();
  }
  return nullptr;
}

void ViewSets::add(std::size_t column, const std::shared_ptr<DeviceSet>& set) {
  std::erase_if(known_, [&](const Known& known) {
    return known.set.expired() || (known.column == column && known.device == &set->device());
  });
  known_.push_back({column, &set->device(), set});
  Residency::instance().keep(set);
}

ViewSets& sets_of(const View& view) {
  std::shared_ptr<void>& memo = view.memo(View::Memo::kVectors);
  if (memo == nullptr) memo = std::make_shared<ViewSets>();
  return *static_cast<ViewSets*>(memo.get());
}

}  // namespace warplite::engine
