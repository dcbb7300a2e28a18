// All rows of a vector column as passes of k-means go over them (compute/tally.h): held by devices
// that have room for them, each with those that follow another's; else read some parts at a time.
// Devices assign their rows all at once. Then they add them up by turns, so that sums are taken in
// the order of rows, and are the same bits however many devices there are: who comes first goes on
// to further lists while the next one adds to those before.
// Threads: as the view's connection; each device but the first has a thread of its own in a pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/device.h"
#include "engine/search/device_set.h"
#include "engine/search/search_block.h"
#include "engine/table/view.h"
#include "index/training_task.h"

namespace warplite::engine {

// Parts that are in memory at once, where rows are read.
inline constexpr std::size_t kPartsAtOnce = 16;

class PassedRows {
 public:
  // `compared`: bytes that devices compare in a pass. Throws Error{kInterrupted}.
  PassedRows(const View& view, std::size_t column, compute::Devices devices, double compared,
             compute::Cancellation* cancellation);

  // Adds all rows to `out`, by lists of these centroids. `work` says what the rows are. Throws
  // Error{kInterrupted}, and compute::DeviceError.
  void add_up(const index::TrainingTask& task, std::span<const float> centroids,
              const compute::TallyWork& work, compute::ListTallies& out) const;

 private:
  // The parts that each of the first devices gets: up to ends[i], from where those of the one
  // before end. Empty: they have no room for all.
  std::vector<std::size_t> divide(const compute::Devices& devices, double compared) const;
  // Null: the devices hold them; else the one that does not.
  compute::Device* hold(const compute::Devices& devices, const std::vector<std::size_t>& ends,
                        compute::Cancellation* cancellation);
  void load(std::size_t first, std::size_t end, SearchBlocks& out) const;
  void add_held(const index::TrainingTask& task, std::span<const float> centroids,
                const compute::TallyWork& work, compute::ListTallies& out) const;
  void add_read(const index::TrainingTask& task, std::span<const float> centroids,
                const compute::TallyWork& work, compute::ListTallies& out) const;

  const View& view_;
  const std::size_t column_;
  std::vector<std::shared_ptr<DeviceSet>> sets_;  // empty: rows are read
};

// Divides things of so many bytes, in their order, among those that have so much room, so that the
// one that gets most gets as little as can be. As divide() above returns it.
std::vector<std::size_t> divide_in_order(std::span<const std::size_t> bytes,
                                         std::span<const std::size_t> room);

}  // namespace warplite::engine
