// Everything that a device needs to search a column of a view, found once and then used by one
// search after the other: with a thousand segments, looking each of them up takes longer than a GPU
// needs to search them all.
// Threads: as the view's connection. Ownership: the cache holds a set until it has to evict
// something or the view goes; a search holds it while it runs.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "engine/residency.h"
#include "engine/search_block.h"

namespace warplite::engine {

class DeviceSet : public Residency::Holder {
 public:
  // Has the device hold all blocks. Null, and an error, when it cannot hold them at once. Throws
  // Error{kInterrupted}.
  static std::shared_ptr<DeviceSet> create(compute::Device& device,
                                           std::shared_ptr<const SearchBlocks> blocks,
                                           compute::Cancellation* cancellation, Status& status);
  ~DeviceSet() override;

  // False when some are read in place: the next search looks for room again.
  bool lasting() const { return lasting_; }
  // All of them as the device takes them, or what a selection leaves.
  const std::vector<compute::Block>& all() const { return ready_; }
  void select(const Selection& rows, Workset& out) const;

 private:
  DeviceSet(compute::Device& device, std::shared_ptr<const SearchBlocks> blocks);
  Status fill(compute::Cancellation* cancellation);

  std::shared_ptr<const SearchBlocks> blocks_;
  std::vector<std::shared_ptr<const compute::Buffer>> buffers_;  // parallel to blocks_
  std::vector<compute::Block> ready_;                            // parallel to blocks_
  bool lasting_ = true;
  const unsigned made_after_;  // forks
};

// A copy of the block's vectors on the device: the cache's, or one for this use only. `in_place`
// (may be null): whether the device reads the host's bytes instead.
Status place_block(compute::Device& device, const SearchBlock& block,
                   std::shared_ptr<const compute::Buffer>& out, bool* in_place = nullptr);

// The sets of one view. It belongs to the view.
class ViewSets {
 public:
  ~ViewSets();

  // Null: there is none, or the cache had to let it go.
  std::shared_ptr<DeviceSet> find(std::size_t column, const compute::Device& device) const;
  void add(std::size_t column, const std::shared_ptr<DeviceSet>& set);

 private:
  struct Known {
    std::size_t column;
    const compute::Device* device;
    std::weak_ptr<DeviceSet> set;
  };
  std::vector<Known> known_;
};

// Made on demand.
ViewSets& sets_of(const View& view);

}  // namespace warplite::engine
