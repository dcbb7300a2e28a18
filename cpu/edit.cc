#include "cpu/edit.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "cpu/edit_batch.h"
#include "cpu/edit_kernels.h"
#include "cpu/edit_masks.h"
#include "cpu/edit_results.h"
#include "cpu/edit_tile.h"
#include "cpu/kernels.h"
#include "cpu/worker.h"

namespace warplite::cpu {
namespace {

using compute::EditTile;
using compute::EditWork;

// Columns of a block, 32 lanes each: work is counted in them, and takes some 15 ns apiece.
constexpr std::size_t kCheckedWork = std::size_t{1} << 16;   // between questions whether to go on
constexpr std::size_t kThreadWork = std::size_t{1} << 15;    // for which a thread is woken
constexpr std::size_t kItemWork = std::size_t{1} << 14;
constexpr std::uint32_t kMostItemGroups = 64;

std::size_t blocks_of(std::size_t rows) { return (rows + kEditBlockRows - 1) / kEditBlockRows; }

// A thread's memory, and what it compares at the moment.
class Comparer {
 public:
  Comparer(const EditWork& work, const EditBatches& batches, EditResults& results, ItemLoop& loop,
           unsigned thread)
      : work_(work), batches_(batches), results_(results), loop_(loop), thread_(thread),
        kernels_(active_kernels().edit) {}

  // Groups [first, end) of a tile, in this order or from the last one to the first.
  void compare(const EditTileView& view, std::size_t batch, std::uint32_t first, std::uint32_t end,
               bool backwards) {
    if (batch != loaded_batch_) {
      batch_.load(work_, batches_.queries(batch), loop_, thread_);
      loaded_batch_ = batch;
      loaded_tile_ = nullptr;
    }
    if (&view.tile() != loaded_tile_) {
      masks_.translate(view, batch_.points());
      loaded_tile_ = &view.tile();
    }
    for (std::uint32_t i = first; i < end; ++i) {
      compare_group(view, backwards ? end - 1 - (i - first) : i);
    }
  }

 private:
  // The queries of the batch, but for those that lengths alone rule out.
  void compare_group(const EditTileView& view, std::uint32_t group) {
    const std::size_t shortest = view.shortest(group), longest = view.longest(group);
    bool begun = false;
    for (const EditBatch::Query& query : batch_.queries()) {
      const std::int64_t limit = results_.limit(query.number);
      const std::size_t apart = query.length < shortest  ? shortest - query.length
                                : query.length > longest ? query.length - longest
                                                         : 0;
      if (static_cast<std::int64_t>(apart) > limit) continue;
      if (!begun) {
        if (!begin_group(view, group)) return;
        begun = true;
      }
      compare_query(view, group, query);
      keep(view, group, query);
    }
  }

  // False: no row of the group takes part.
  bool begin_group(const EditTileView& view, std::uint32_t group) {
    const EditTile& tile = view.tile();
    const std::uint16_t* const rows = view.rows(group);
    const std::uint32_t texts = view.texts(group);
    live_ = texts == compute::kEditGroup ? ~0u : (1u << texts) - 1;
    if (tile.live != nullptr) {
      for (std::uint32_t lane = 0; lane < texts; ++lane) {
        const auto lives =
            static_cast<std::uint32_t>(tile.live[rows[lane] / 64] >> (rows[lane] % 64) & 1);
        live_ &= ~((lives ^ 1) << lane);
      }
    }
    if (live_ == 0) return false;
    find_ends(view.lengths(group), view.shortest(group), view.longest(group));
    masks_.begin(view, group);
    return true;
  }

  // Which rows each lane has: ends_[block][lane]. Most groups are of texts of one length.
  void find_ends(const std::uint16_t* lengths, std::size_t shortest, std::size_t longest) {
    const std::size_t blocks = blocks_of(longest);
    if (ends_.size() < blocks * kEditBlockSize) ends_.resize(blocks * kEditBlockSize);
    const auto rows_of = [](std::size_t block, std::size_t length) {
      const std::size_t first = block * kEditBlockRows;
      const std::size_t rows = length <= first ? 0 : std::min(length - first, kEditBlockRows);
      return static_cast<std::uint16_t>((1u << rows) - 1);
    };
    for (std::size_t block = 0; block < blocks; ++block) {
      std::uint16_t* const ends = ends_.data() + block * kEditBlockSize;
      const std::uint16_t least = rows_of(block, shortest);
      std::fill_n(ends, kEditLanes, least);
      if (least == rows_of(block, longest)) continue;
      for (std::size_t lane = 0; lane < kEditLanes; ++lane) {
        ends[lane] = rows_of(block, lengths[lane]);
      }
    }
  }

  // Leaves in sums_ by how much each distance exceeds the query's length.
  void compare_query(const EditTileView& view, std::uint32_t group,
                     const EditBatch::Query& query) {
    const std::size_t longest = view.longest(group);
    const std::size_t blocks = blocks_of(longest);
    const bool several = longest > kEditStripeRows;
    state_.assign(2 * blocks * kEditBlockSize, 0);
    for (std::size_t i = 0; i < query.chunks; ++i) {
      const EditBatch::Chunk chunk = batch_.chunk(query.first_chunk + i);
      if (several) begin_carries(chunk.columns.size());
      for (std::size_t block = 0; block < blocks; block += kEditStripeBlocks) {
        advance(block, std::min(blocks - block, kEditStripeBlocks), chunk, several);
      }
    }
    std::fill_n(sums_, kEditLanes, std::int16_t{0});
    kernels_.sum(state_.data(), ends_.data(), blocks, sums_);
  }

  // Above the first stripe every column is one more than the one before.
  void begin_carries(std::size_t columns) {
    carries_.resize(2 * kChunkColumns * kEditBlockSize);
    for (std::size_t i = 0; i < columns; ++i) {
      std::fill_n(carries_.data() + 2 * i * kEditBlockSize, kEditBlockSize, std::uint16_t{1});
      std::fill_n(carries_.data() + (2 * i + 1) * kEditBlockSize, kEditBlockSize, std::uint16_t{0});
    }
  }

  void advance(std::size_t block, std::size_t blocks, const EditBatch::Chunk& chunk,
               bool several) {
    masks_.find(kernels_, block * kEditBlockRows, chunk.distinct);
    EditColumns columns;
    columns.masks = masks_.masks();
    columns.offsets = masks_.offsets();
    columns.numbers = chunk.columns.data();
    columns.count = chunk.columns.size();
    columns.carries = several ? carries_.data() : nullptr;
    kernels_.advance[blocks - 1](columns, state_.data() + 2 * block * kEditBlockSize);
    unchecked_ += blocks * columns.count;
    if (unchecked_ < kCheckedWork) return;
    unchecked_ = 0;
    loop_.check(thread_);
  }

  void keep(const EditTileView& view, std::uint32_t group, const EditBatch::Query& query) {
    const auto length = static_cast<std::int64_t>(query.length);
    const std::int64_t most = results_.limit(query.number) - length;
    constexpr std::int64_t kMost = compute::kLongestEditText;
    if (most < -kMost) return;
    const auto limit = static_cast<std::int16_t>(std::min(most, kMost));
    std::uint32_t lanes = kernels_.at_most(sums_, limit) & live_;
    if (lanes == 0) return;
    const EditTile& tile = view.tile();
    Hit hits[kEditLanes];
    std::size_t found = 0;
    for (; lanes != 0; lanes &= lanes - 1) {
      const int lane = std::countr_zero(lanes);
      const std::uint32_t row = view.rows(group)[lane];
      hits[found++] = {static_cast<double>(length + sums_[lane]), tile.rowids[row], tile.id, row};
    }
    results_.add(query.number, {hits, found});
  }

  const EditWork& work_;
  const EditBatches& batches_;
  EditResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const EditKernels& kernels_;

  EditBatch batch_;
  std::size_t loaded_batch_ = ~std::size_t{0};
  const EditTile* loaded_tile_ = nullptr;
  EditMasks masks_;
  std::uint32_t live_ = 0;            // lanes of the group that take part
  std::vector<std::uint16_t> ends_, state_, carries_;
  std::int16_t sums_[kEditLanes];
  std::size_t unchecked_ = 0;
};

// What threads take one by one: a batch and some groups of a tile, nearest lengths first.
class Items {
 public:
  Items(const EditWork& work, const EditBatches& batches) : work_(work), batches_(batches) {
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      std::size_t columns = 0;
      for (const std::uint32_t q : batches.queries(batch)) columns += work.query(q).size() + 1;
      for (const EditTile& tile : work.tiles) {
        const EditTileView view(tile, static_cast<const CpuBuffer*>(tile.bytes)->data());
        begins_.push_back(items_);
        const std::size_t groups = view.groups();
        const bool dead = tile.live != nullptr && tile.live_rows == 0;
        const std::size_t blocks = tile.positions / kEditBlockRows + groups;
        const std::size_t cost = groups == 0 ? 0 : columns * blocks / groups;
        runs_.push_back(static_cast<std::uint32_t>(
            std::clamp<std::size_t>(kItemWork / (cost + 1), 1, kMostItemGroups)));
        if (dead) continue;
        items_ += 2 * ((groups + runs_.back() - 1) / runs_.back());
        work_units_ += columns * blocks;
      }
    }
  }

  std::size_t size() const { return items_; }
  std::size_t work_units() const { return work_units_; }

  void compare(std::size_t item, Comparer& comparer) const {
    const auto found = std::upper_bound(begins_.begin(), begins_.end(), item) - 1;
    const auto place = static_cast<std::size_t>(found - begins_.begin());
    const EditTile& tile = work_.tiles[place % work_.tiles.size()];
    const std::size_t batch = place / work_.tiles.size();
    const EditTileView view(tile, static_cast<const CpuBuffer*>(tile.bytes)->data());
    const std::span<const std::uint32_t> queries = batches_.queries(batch);
    const std::uint32_t middle =
        view.first_of(work_.query(queries[queries.size() / 2]).size());
    // By turns to the longer and to the shorter ones.
    const std::size_t turn = item - *found, far = turn / 2 * runs_[place];
    if (turn % 2 == 0) {
      if (far >= view.groups() - middle) return;
      const auto first = static_cast<std::uint32_t>(middle + far);
      comparer.compare(view, batch, first, std::min(first + runs_[place], view.groups()), false);
    } else {
      if (far >= middle) return;
      const auto end = static_cast<std::uint32_t>(middle - far);
      comparer.compare(view, batch, end - std::min(runs_[place], end), end, true);
    }
  }

 private:
  const EditWork& work_;
  const EditBatches& batches_;
  std::vector<std::size_t> begins_;  // by batch, then tile
  std::vector<std::uint32_t> runs_;  // groups of an item
  std::size_t items_ = 0, work_units_ = 0;
};

void search(const EditWork& work, EditResults& results) {
  const EditBatches batches(work);
  const Items items(work, batches);
  const auto threads = static_cast<unsigned>(std::min<std::size_t>(
      compute::thread_count(), items.work_units() / kThreadWork + 1));
  ItemLoop loop(work.cancellation);
  std::vector<std::unique_ptr<Comparer>> comparers(threads);
  loop.run(threads, items.size(), [&](unsigned thread, std::size_t item) {
    std::unique_ptr<Comparer>& comparer = comparers[thread];
    if (!comparer) comparer = std::make_unique<Comparer>(work, batches, results, loop, thread);
    items.compare(item, *comparer);
  });
}

}  // namespace

void search_edit_nearest(const EditWork& work, compute::HitTable& best) {
  if (best.k() == 0 || work.queries() == 0 || work.tiles.empty()) return;
  EditResults results(work, best);
  search(work, results);
}

void search_edit_within(const EditWork& work, compute::HitLists& out) {
  if (work.queries() == 0 || work.tiles.empty()) return;
  EditResults results(work, out);
  search(work, results);
}

}  // namespace warplite::cpu
