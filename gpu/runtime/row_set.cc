#include "gpu/runtime/row_set.h"

#include <algorithm>
#include <string>

#include "compute/ivf.h"

namespace warplite::gpu {
namespace {

// Rows per group, so that pick() can compare all groups if that is possible at all.
std::uint32_t choose_group_rows(const std::vector<const compute::Block*>& blocks) {
  for (std::uint32_t rows = 64;; rows *= 2) {
    std::uint64_t groups = 0;
    for (const compute::Block* block : blocks) groups += (block->rows + rows - 1) / rows;
    if (groups <= kMostGroups || groups == blocks.size()) return rows;
  }
}

}  // namespace

RowSet::RowSet(const compute::Workload& work, std::size_t& first) : work_(work) {
  for (; first < work.blocks.size(); ++first) {
    const compute::Block& block = work.blocks[first];
    if (block.live_rows == 0 || block.rows == 0) continue;
    if (!blocks_.empty() && block.rows > kMostRows - std::min(kMostRows, rows_)) break;
    add(block);
  }
}

RowSet::RowSet(const compute::Workload& work) : work_(work) {
  for (const compute::Block& block : work.blocks) {
    if (block.rows >= compute::kNoOrdinal - rows_) {
      throw Error(ErrorKind::kUnsupported,
                  "more than " + std::to_string(compute::kNoOrdinal) + " rows in one index");
    }
    add(block);
  }
}

void RowSet::add(const compute::Block& block) {
  blocks_.push_back(&block);
  first_ordinals_.push_back(rows_);
  rows_ += block.rows;
  live_rows_ += block.live == nullptr ? block.rows : block.live_rows;
  const auto* buffer = static_cast<const CudaBuffer*>(block.vectors);
  mapped_ |= buffer != nullptr && buffer->mapped();
}

RowTable RowSet::upload(Lane& lane) {
  Plan plan;
  const Slot<RowBlock> descriptors(plan, blocks_.size());
  std::vector<Slot<std::uint64_t>> bits;
  for (const compute::Block* block : blocks_) {
    bits.emplace_back(plan, live_words(block->live, block->rows));
  }
  const Arena device = lane.table(plan);
  const Staging host = lane.outgoing_table(plan);

  RowTable table{};
  table.dim = work_.queries.dim;
  table.stride = static_cast<std::uint32_t>(work_.queries.stride());
  table.group_rows = choose_group_rows(blocks_);
  table.aligned = table.stride % 16 == 0;
  const std::span<RowBlock> out = host[descriptors];
  live_.assign(blocks_.size(), nullptr);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const compute::Block& block = *blocks_[i];
    const auto* buffer = static_cast<const CudaBuffer*>(block.vectors);  // null: codes alone
    const std::byte* vectors = buffer == nullptr ? nullptr : buffer->data();
    if (block.live != nullptr) {
      std::copy_n(block.live, bits[i].count(), host[bits[i]].begin());
      live_[i] = device[bits[i]];
    }
    out[i] = {vectors, live_[i], block.rows, first_ordinals_[i], table.groups, 0};
    table.aligned &= reinterpret_cast<std::uintptr_t>(vectors) % 16 == 0;
    table.groups += (block.rows + table.group_rows - 1) / table.group_rows;
  }
  table.blocks = device[descriptors];
  table.block_count = static_cast<std::uint32_t>(blocks_.size());
  table.rows = rows_;
  host.send(plan, device, lane.stream(), "sending the table of rows");
  return table;
}

}  // namespace warplite::gpu
