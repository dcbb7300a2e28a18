#include "gpu/rows/row_set.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compute/ivf.h"
#include "core/process/last_few.h"

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

const std::byte* vectors_at(const compute::Block& block) {
  const auto* buffer = static_cast<const CudaBuffer*>(block.vectors);  // null: codes alone
  return buffer == nullptr ? nullptr : buffer->data();
}

}  // namespace

// It says where rows lie and how many there are, and is right for whatever lies there.
struct KeptRowTable {
  struct Key {
    std::uint32_t dim;
    std::size_t stride;
    std::uint64_t filter;  // 0: all rows live
    std::vector<std::pair<const std::byte*, std::uint32_t>> blocks;
    friend bool operator==(const Key&, const Key&) = default;
  };
  Key key;
  RowTable table{};
  std::vector<const std::uint64_t*> live;  // of RowSet
  DeviceBytes memory;
};

RowSet::RowSet(const compute::Workload& work, std::size_t& first, std::uint32_t most)
    : dim_(work.queries.dim), stride_(work.queries.stride()) {
  for (; first < work.blocks.size(); ++first) {
    const compute::Block& block = work.blocks[first];
    if (block.live_rows == 0 || block.rows == 0) continue;
    if (!blocks_.empty() && block.rows > most - std::min(most, rows_)) break;
    add(block);
  }
}

RowSet::RowSet(std::span<const compute::Block> blocks, const MatrixView& queries)
    : dim_(queries.dim), stride_(queries.stride()) {
  for (const compute::Block& block : blocks) {
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

// Everything but where the descriptors lie. REQUIRES: live_ is known.
RowTable RowSet::describe(std::span<RowBlock> out) const {
  RowTable table{};
  table.dim = dim_;
  table.stride = static_cast<std::uint32_t>(stride_);
  table.group_rows = choose_group_rows(blocks_);
  table.aligned = table.stride % 16 == 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const compute::Block& block = *blocks_[i];
    const std::byte* const vectors = vectors_at(block);
    out[i] = {vectors, live_[i], block.rows, first_ordinals_[i], table.groups, 0};
    table.aligned &= reinterpret_cast<std::uintptr_t>(vectors) % 16 == 0;
    table.groups += (block.rows + table.group_rows - 1) / table.group_rows;
  }
  table.block_count = static_cast<std::uint32_t>(blocks_.size());
  table.rows = rows_;
  return table;
}

RowSet::Pieces::Pieces(const std::vector<const compute::Block*>& blocks)
    : descriptors(plan, blocks.size()) {
  bits.reserve(blocks.size());
  for (const compute::Block* block : blocks) {
    bits.emplace_back(plan, live_words(block->live, block->rows));
  }
}

RowTable RowSet::send(const Pieces& pieces, const Arena& device, Lane& lane) {
  const Staging host = lane.outgoing_table(pieces.plan);
  live_.assign(blocks_.size(), nullptr);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i]->live == nullptr) continue;
    std::copy_n(blocks_[i]->live, pieces.bits[i].count(), host[pieces.bits[i]].begin());
    live_[i] = device[pieces.bits[i]];
  }
  RowTable table = describe(host[pieces.descriptors]);
  table.blocks = device[pieces.descriptors];
  host.send(pieces.plan, device, lane.stream(), "sending the table of rows");
  return table;
}

RowTable RowSet::upload(Lane& lane) {
  const Pieces pieces(blocks_);
  return send(pieces, lane.table(pieces.plan), lane);
}

RowTable RowSet::upload_once(const Gpu& gpu, Lane& lane, std::uint64_t filter) {
  KeptRowTable::Key key{dim_, stride_, all_live() ? 0 : filter, {}};
  key.blocks.reserve(blocks_.size());
  for (const compute::Block* block : blocks_) key.blocks.emplace_back(vectors_at(*block), block->rows);
  const bool lasts = all_live() || filter != 0;
  auto& all = gpu.derived().of<LastFew<KeptRowTable>>();
  kept_ = lasts ? all.find(key) : nullptr;
  if (kept_ == nullptr) {
    auto made = std::make_shared<KeptRowTable>();
    const Pieces pieces(blocks_);
    made->memory = DeviceBytes(pieces.plan.size(), lane.pool(), lane.stream());
    made->table = send(pieces, Arena(made->memory.data()), lane);
    // Searches on other streams are to find it there.
    check(cudaStreamSynchronize(lane.stream()), "sending the table of rows");
    made->key = std::move(key);
    made->live = live_;
    kept_ = lasts ? all.add(std::move(made)) : std::shared_ptr<const KeptRowTable>(std::move(made));
  }
  live_ = kept_->live;
  return kept_->table;
}

}  // namespace warplite::gpu
