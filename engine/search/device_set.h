// Everything that a device needs to search a column of a view: with a thousand segments, looking each
// of them up takes longer than a GPU needs to search them all. A set of the segments alone serves views
// that differ in other rows, each with a set that extends it: beside a writer every commit is a view.
// Threads, ownership: as held_sets.h has it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "engine/residency/held_sets.h"
#include "engine/search/search_block.h"

namespace warplite::engine {

class DeviceSet : public HeldSet {
 public:
  // Has the device hold all blocks, beside those of `first` (may be null), which come before them.
  // Null, and an error, when it cannot hold them at once. Throws Error{kInterrupted}.
  static std::shared_ptr<DeviceSet> create(compute::Device& device,
                                           std::shared_ptr<const SearchBlocks> blocks,
                                           std::shared_ptr<DeviceSet> first,
                                           compute::Cancellation* cancellation, Status& status);

  // All of them as the device takes them, or what a selection leaves.
  const std::vector<compute::Block>& all() const { return ready_; }
  void select(const Selection& rows, Workset& out) const;
  // Counts as a use of all that it holds.
  void use();

 private:
  DeviceSet(compute::Device& device, std::shared_ptr<const SearchBlocks> blocks,
            std::shared_ptr<DeviceSet> first);
  Status fill(compute::Cancellation* cancellation);

  std::shared_ptr<DeviceSet> first_;
  std::shared_ptr<const SearchBlocks> blocks_;  // parallel to buffers_
  std::vector<compute::Block> ready_;           // those of first_, then blocks_
};

// A copy of the block's vectors on the device: the cache's, or one for this use only. `in_place`
// (may be null): whether the device reads the host's bytes instead.
Status place_block(compute::Device& device, const SearchBlock& block,
                   std::shared_ptr<const compute::Buffer>& out, bool* in_place = nullptr);

}  // namespace warplite::engine
