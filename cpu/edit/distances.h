// Distances of queries to the texts of a group, one group after another.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/edit/batch.h"
#include "cpu/edit/group.h"
#include "cpu/edit/kernels.h"
#include "cpu/edit/masks.h"
#include "cpu/edit/tile.h"

namespace warplite::cpu {

// Calls follow: (load translate+ (begin compare*)*)*
class EditDistances {
 public:
  // Asks `loop` whether to go on.
  EditDistances(ItemLoop& loop, unsigned thread);

  void load(const compute::EditWork& work, std::span<const std::uint32_t> queries);
  // A text whose characters are symbols.
  void load(std::span<const std::uint32_t> symbols);
  // Groups to come have the symbols of this tile.
  void translate(const EditTileView& view);

  std::span<const EditBatch::Query> queries() const { return batch_.queries(); }
  // Takes the texts of this group from now on.
  void begin(const EditGroup& group, std::uint32_t width);
  // Returns by how much distances exceed the query's length, by place; anything where there is no
  // text. The result is valid until the next call.
  const std::int16_t* compare(const EditBatch::Query& query);

 private:
  void translate(std::vector<std::uint32_t> symbols);
  void find_ends(const EditGroup& group);
  void begin_carries(std::size_t columns);
  void advance(std::size_t block, std::size_t blocks, const EditBatch::Chunk& chunk, bool several);

  ItemLoop& loop_;
  const unsigned thread_;
  const EditKernels& kernels_;
  EditBatch batch_;
  EditMasks masks_;
  std::size_t longest_ = 0;  // of the group
  std::vector<std::uint16_t> ends_, state_, carries_;
  std::int16_t sums_[kEditLanes];
  std::size_t unchecked_ = 0;
};

}  // namespace warplite::cpu
