#include "compute/reference.h"

#include "tests/reference/reference.h"

namespace warplite::compute {
namespace {

template <typename Visit>
void for_each_hit(const Workload& work, std::span<const HostBlock> blocks, Visit visit) {
  const std::size_t stride = work.queries.stride();
  for (std::size_t query = 0; query < work.queries.rows; ++query) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const Block& block = blocks[b].block;
      const bool all = work.own.empty() || work.own[query].live == nullptr;
      const std::uint64_t* const own = all ? nullptr : work.own[query].live[b];
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        if (block.live != nullptr && !((block.live[row / 64] >> (row % 64)) & 1)) continue;
        if (own != nullptr && !((own[row / 64] >> (row % 64)) & 1)) continue;
        const double distance =
            canonical_distance(work.distance, work.queries.type, work.queries.dim,
                               work.queries.row(query), blocks[b].vectors + row * stride);
        const Hit hit{distance, block.rowids[row], block.id, row};
        if (work.admits(hit, query)) visit(query, hit);
      }
    }
  }
}

}  // namespace

void reference_nearest(const Workload& work, std::span<const HostBlock> blocks, HitTable& best) {
  for_each_hit(work, blocks, [&](std::size_t query, const Hit& hit) { best.row(query).push(hit); });
}

void reference_within(const Workload& work, std::span<const HostBlock> blocks, HitLists& out) {
  for_each_hit(work, blocks, [&](std::size_t query, const Hit& hit) { out[query].push_back(hit); });
}

}  // namespace warplite::compute
