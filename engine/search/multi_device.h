// One search on one or several devices, when the first is too small for all blocks: which block goes where,
// and the merge of what they find.
// Threads: plan_shares() from any thread. search_shares() runs the first share on the caller's
// thread and each other one on its own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compute/device.h"
#include "engine/search/outcome.h"
#include "engine/search/search_block.h"

namespace warplite::engine {

struct Share {
  compute::Device* device = nullptr;
  std::vector<const SearchBlock*> blocks = {};
  std::size_t bytes = 0;                     // of the blocks
  std::vector<const SearchBlock*> missing = {};  // what the device has no copy of
  std::size_t missing_bytes = 0;

  // Says whether to copy what is missing costs little beside what is there.
  bool ready() const;
  // Copies what is missing in the background.
  void request() const;
};

struct SharePlan {
  std::vector<Share> shares;  // not empty
  bool fits = true;  // false: the devices have no room for the blocks, nor can they read in place
  bool in_memory = true;  // the devices have room for the blocks in memory
};

// REQUIRES: devices is not empty; the blocks outlive the plan.
SharePlan plan_shares(std::span<compute::Device* const> devices,
                      std::span<const SearchBlock* const> blocks);

// Copies what is missing and searches the selected rows. `work` has everything but its blocks.
// `failed`: set to the device whose error is returned.
Status search_shares(const SharePlan& plan, const Selection& rows, const compute::Workload& work,
                     Outcome& outcome, compute::Device*& failed);

}  // namespace warplite::engine
