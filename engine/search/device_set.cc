#include "engine/search/device_set.h"

#include <algorithm>
#include <utility>

#include "engine/residency/common_cancellation.h"

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
    : HeldSet(device), blocks_(std::move(blocks)) {}

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

}  // namespace warplite::engine
