#include "engine/search/handed_blocks.h"

#include <algorithm>

#include "engine/residency/common_cancellation.h"
#include "engine/residency/residency.h"
#include "engine/table/block_reader.h"

namespace warplite::engine {

std::unique_ptr<HandedBlocks> HandedBlocks::plan(const View& view, const SearchRequest& request,
                                                 std::span<const std::uint32_t> parts,
                                                 std::span<compute::Device* const> devices) {
  SearchBlocks blocks;  // without vectors
  std::vector<const SearchBlock*> wanted;
  blocks.reserve(parts.size());
  for (const std::uint32_t i : parts) {
    SearchBlock& block = blocks.emplace_back();
    block.block.id = i;
    block.vectors.key = view.part(i).vector_key(request.column);
    if (!block.cached()) return nullptr;
    const MatrixView& shape = request.queries;
    block.vectors.data = {nullptr, view.part(i).rows(), shape.dim, shape.type};
    wanted.push_back(&block);
  }
  const SharePlan shares = plan_shares(devices, wanted);
  if (parts.empty() || !shares.in_memory) return nullptr;
  std::unique_ptr<HandedBlocks> plan(new HandedBlocks(view, request));
  for (const Share& share : shares.shares) {
    for (const SearchBlock* block : share.blocks) plan->devices_[block->block.id] = share.device;
    for (const SearchBlock* block : share.missing) plan->lacking_.push_back(block->block.id);
  }
  std::sort(plan->lacking_.begin(), plan->lacking_.end());
  return plan;
}

bool HandedBlocks::load(std::uint32_t part, SearchBlock& out) {
  ask(request_.cancellation);
  if (part >= read_ && std::binary_search(lacking_.begin(), lacking_.end(), part)) read_some(part);
  return hand_over_block(*devices_[part], view_, request_.column, part, request_.queries, out);
}

// As many as take a part of the host's memory, of which others need some, too.
void HandedBlocks::read_some(std::uint32_t first) {
  constexpr std::size_t kShare = 4;
  std::size_t room = Residency::instance().limit() / kShare;
  std::vector<const Part*> parts;
  for (auto next = std::lower_bound(lacking_.begin(), lacking_.end(), first);
       next != lacking_.end(); ++next) {
    const std::size_t bytes = view_.part(*next).vector_bytes(request_.column);
    if (!parts.empty() && bytes > room) break;
    room -= std::min(room, bytes);
    parts.push_back(&view_.part(*next));
    read_ = *next + 1;
  }
  read_ahead(std::move(parts), Part::Ahead::kVectors, request_.column);
}

SharePlan share_handed(std::span<compute::Device* const> devices,
                       std::span<const SearchBlock* const> blocks) {
  SharePlan plan;
  for (compute::Device* device : devices) plan.shares.push_back({.device = device});
  for (const SearchBlock* block : blocks) {
    const auto share = std::find_if(plan.shares.begin(), plan.shares.end(), [&](const Share& one) {
      return one.device == block->handed_to;
    });
    (share != plan.shares.end() ? *share : plan.shares.front()).blocks.push_back(block);
  }
  const auto spare = [](const Share& share) { return share.blocks.empty(); };
  plan.shares.erase(std::remove_if(plan.shares.begin() + 1, plan.shares.end(), spare), plan.shares.end());
  if (plan.shares.size() > 1 && spare(plan.shares.front())) plan.shares.erase(plan.shares.begin());
  return plan;
}

}  // namespace warplite::engine
