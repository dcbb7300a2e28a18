// Lists of tiles on a GPU, kept for the next batch that searches the same rows: to list the tiles of ten
// million rows, and to send them, takes longer than multiplying them.
// Threads: any. Ownership: a GPU keeps the last few lists. They hold no half-precision copies: with the
// first of those that goes, a list is of no use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "compute/device.h"
#include "core/types.h"
#include "gpu/batch/nominate.h"
#include "gpu/batch/shadow.h"
#include "gpu/runtime/cuda_raii.h"

namespace warplite::gpu {

struct TileList {
  DeviceBytes memory;  // of RowTiles
  std::uint32_t count = 0;
};

class TileLists {
 public:
  // Blocks of which all rows live, in their order.
  struct Key {
    std::vector<std::pair<const compute::Buffer*, std::uint32_t>> blocks;  // and their rows
    TileShape shape;
    ElementType type;
    std::uint32_t dim;
    friend bool operator==(const Key&, const Key&) = default;
  };
  using Shadows = std::vector<std::shared_ptr<const Shadow>>;  // of the blocks

  // Sets `shadows` to what the tiles lie in. Null: there is no such list.
  std::shared_ptr<const TileList> find(const Key& key, Shadows& shadows);
  // REQUIRES: the list is complete.
  void add(Key key, const Shadows& shadows, std::shared_ptr<const TileList> list);

 private:
  static constexpr std::size_t kMostLists = 8;
  struct Known {
    Key key;
    std::vector<std::weak_ptr<const Shadow>> shadows;
    std::shared_ptr<const TileList> list;
  };

  std::mutex mutex_;
  std::vector<Known> known_;  // that was used last comes last
};

}  // namespace warplite::gpu
