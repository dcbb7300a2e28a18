// Blocks whose vectors devices alone have, as host memory has no room for the column: which device is to have which
// part of a view, and how they get there, some at a time.
// Threads: as the view. Ownership: borrows view and request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/device.h"
#include "engine/search/multi_device.h"
#include "engine/search/search.h"
#include "engine/search/search_block.h"
#include "engine/table/view.h"

namespace warplite::engine {

class HandedBlocks {
 public:
  // `parts`: sealed ones, ascending. Null: the devices have no room for all of them in memory of their own, or there is
  // none.
  static std::unique_ptr<HandedBlocks> plan(const View& view, const SearchRequest& request,
                                            std::span<const std::uint32_t> parts,
                                            std::span<compute::Device* const> devices);

  // Parts that are to be read from the file, since their devices have no copy.
  const std::vector<std::uint32_t>& lacking() const { return lacking_; }
  // The device that is to have the part; null: it is no such part.
  compute::Device* device_of(std::uint32_t part) const { return devices_[part]; }
  // False when the part has no row to search. Throws NotTaken. REQUIRES: device_of(part); parts are loaded in ascending
  // order.
  bool load(std::uint32_t part, SearchBlock& out);

 private:
  HandedBlocks(const View& view, const SearchRequest& request)
      : view_(view), request_(request), devices_(view.parts()) {}
  void read_some(std::uint32_t first);

  const View& view_;
  const SearchRequest& request_;
  std::vector<compute::Device*> devices_;  // by part
  std::vector<std::uint32_t> lacking_;
  std::uint32_t read_ = 0;  // those before it were read ahead
};

// Each device searches the blocks that it was handed, and the first one the others.
SharePlan share_handed(std::span<compute::Device* const> devices,
                       std::span<const SearchBlock* const> blocks);

}  // namespace warplite::engine
