#include "cpu/edit/distances.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/edit/kernels.h"

namespace warplite::cpu {
namespace {

// Columns of a block between questions whether to go on; one takes some 15 ns.
constexpr std::size_t kCheckedWork = std::size_t{1} << 16;

std::size_t blocks_of(std::size_t rows) { return (rows + kEditBlockRows - 1) / kEditBlockRows; }

// The first rows of a block as bits, by how many of them a text has.
constexpr auto kFirstRows = [] {
  std::array<std::uint16_t, kEditBlockRows + 1> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::uint16_t>((1u << i) - 1);
  }
  return rows;
}();

}  // namespace

EditDistances::EditDistances(ItemLoop& loop, unsigned thread)
    : loop_(loop), thread_(thread), kernels_(edit_kernels()) {}

void EditDistances::load(const compute::EditWork& work, std::span<const std::uint32_t> queries) {
  batch_.load(work, queries, loop_, thread_);
}

void EditDistances::load(std::span<const std::uint32_t> symbols) {
  batch_.load(symbols, loop_, thread_);
  translate({batch_.points().begin(), batch_.points().end()});
}

void EditDistances::translate(const EditTileView& view) {
  std::vector<std::uint32_t> symbols;
  symbols.reserve(batch_.points().size());
  for (const std::uint32_t point : batch_.points()) symbols.push_back(view.symbol(point));
  translate(std::move(symbols));
}

void EditDistances::translate(std::vector<std::uint32_t> symbols) {
  const bool alone = batch_.queries().size() == 1 && batch_.queries()[0].chunks == 1;
  masks_.translate(std::move(symbols), alone);
}

void EditDistances::begin(const EditGroup& group, std::uint32_t width) {
  longest_ = group.longest;
  find_ends(group);
  masks_.begin(group, width);
}

// Finds which rows each lane has: ends_[block][lane]. Groups of a tile are mostly of texts of one
// length.
void EditDistances::find_ends(const EditGroup& group) {
  const std::size_t blocks = blocks_of(longest_);
  if (ends_.size() < blocks * kEditBlockSize) ends_.resize(blocks * kEditBlockSize);
  const auto rows_of = [](std::size_t first, std::size_t length) {
    return kFirstRows[std::min(std::max(length, first) - first, kEditBlockRows)];
  };
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = block * kEditBlockRows;
    std::uint16_t* const ends = ends_.data() + block * kEditBlockSize;
    const std::uint16_t least = rows_of(first, group.shortest);
    if (least == rows_of(first, longest_)) {
      std::fill_n(ends, kEditLanes, least);
      continue;
    }
    for (std::size_t lane = 0; lane < kEditLanes; ++lane) {
      ends[lane] = rows_of(first, group.lengths[lane]);
    }
  }
}

const std::int16_t* EditDistances::compare(const EditBatch::Query& query) {
  const std::size_t blocks = blocks_of(longest_);
  const bool several = longest_ > kEditStripeRows;
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
  return sums_;
}

// Sets the carries above the first stripe, where every column is one more than the one before.
void EditDistances::begin_carries(std::size_t columns) {
  carries_.resize(2 * kChunkColumns * kEditBlockSize);
  for (std::size_t i = 0; i < columns; ++i) {
    std::fill_n(carries_.data() + 2 * i * kEditBlockSize, kEditBlockSize, std::uint16_t{1});
    std::fill_n(carries_.data() + (2 * i + 1) * kEditBlockSize, kEditBlockSize, std::uint16_t{0});
  }
}

void EditDistances::advance(std::size_t block, std::size_t blocks, const EditBatch::Chunk& chunk,
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

}  // namespace warplite::cpu
