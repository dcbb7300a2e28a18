#include "cpu/edit/scan.h"

#include <algorithm>
#include <vector>

#include "cpu/edit/batch.h"
#include "cpu/edit/threads.h"
#include "cpu/runtime/cpu_buffer.h"

namespace warplite::cpu {
namespace {

using compute::EditTile;
using compute::EditWork;

constexpr std::size_t kItemColumns = std::size_t{1} << 14;  // of blocks, 32 lanes each
constexpr std::uint32_t kMostItemGroups = 64;

// Threads take these items one by one: a batch and some groups of a tile, nearest lengths first.
class Items {
 public:
  Items(const EditWork& work, std::span<const EditTile> tiles, const EditBatches& batches)
      : work_(work), tiles_(tiles), batches_(batches) {
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      std::size_t columns = 0;
      for (const std::uint32_t q : batches.queries(batch)) columns += work.query(q).size() + 1;
      for (const EditTile& tile : tiles) {
        begins_.push_back(items_);
        const std::size_t groups = view_of(tile).groups();
        const bool dead = tile.live != nullptr && tile.live_rows == 0;
        const std::size_t blocks = tile.positions / kEditBlockRows + groups;
        const std::size_t cost = groups == 0 ? 0 : columns * blocks / groups;
        runs_.push_back(static_cast<std::uint32_t>(
            std::clamp<std::size_t>(kItemColumns / (cost + 1), 1, kMostItemGroups)));
        if (dead) continue;
        items_ += 2 * ((groups + runs_.back() - 1) / runs_.back());
        columns_ += columns * blocks;
      }
    }
  }

  std::size_t size() const { return items_; }
  std::size_t columns() const { return columns_; }

  void compare(std::size_t item, EditComparer& comparer) const {
    const auto found = std::upper_bound(begins_.begin(), begins_.end(), item) - 1;
    const auto place = static_cast<std::size_t>(found - begins_.begin());
    const EditTileView view = view_of(tiles_[place % tiles_.size()]);
    const std::span<const std::uint32_t> queries = batches_.queries(place / tiles_.size());
    comparer.load(queries);
    comparer.begin_tile(view);
    const std::uint32_t middle =
        view.first_of(work_.query(queries[queries.size() / 2]).size());
    // The batch goes by turns to the longer and to the shorter texts.
    const std::size_t turn = item - *found, run = runs_[place], far = turn / 2 * run;
    if (turn % 2 == 0) {
      const std::size_t end = std::min<std::size_t>(middle + far + run, view.groups());
      for (std::size_t i = middle + far; i < end; ++i) comparer.compare(view.group(i));
    } else if (far < middle) {
      const std::size_t begin = middle - std::min<std::size_t>(far + run, middle);
      for (std::size_t i = middle - far; i > begin; --i) comparer.compare(view.group(i - 1));
    }
  }

 private:
  static EditTileView view_of(const EditTile& tile) {
    return {tile, CpuBuffer::of(tile.bytes).data()};
  }

  const EditWork& work_;
  const std::span<const EditTile> tiles_;
  const EditBatches& batches_;
  std::vector<std::size_t> begins_;  // by batch, then tile
  std::vector<std::uint32_t> runs_;  // groups of an item
  std::size_t items_ = 0, columns_ = 0;
};

}  // namespace

void scan_texts(const EditWork& work, std::span<const std::uint32_t> queries,
                std::span<const EditTile> tiles, EditResults& results) {
  if (queries.empty() || tiles.empty()) return;
  const EditBatches batches(work, queries);
  const Items items(work, tiles, batches);
  EditThreads threads(work, results);
  threads.run(items.size(), items.columns(), [&](EditComparer& comparer, std::size_t item) {
    items.compare(item, comparer);
  });
  threads.count();
}

}  // namespace warplite::cpu
