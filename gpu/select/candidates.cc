#include "gpu/select/candidates.h"

#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

// Hits that are worth a thread of their own.
constexpr std::size_t kHitsPerThread = 16 << 10;

}  // namespace

void take_candidates(const RowSet& rows, const FoundCandidates& from, std::size_t first,
                     compute::HitTable& best, std::vector<std::uint32_t>& lost) {
  for (std::size_t i = 0; i < from.queries; ++i) {
    if (from.found[i] > from.room) lost.push_back(static_cast<std::uint32_t>(first + i));
  }
  in_parallel(from.queries, from.queries * from.room / kHitsPerThread, [&](std::size_t i) {
    if (from.found[i] > from.room) return;
    TopK& nearest = best.row(first + i);
    for (std::uint32_t c = 0; c < from.found[i]; ++c) {
      nearest.push(rows.hit(from.candidates[i * from.room + c]));
    }
  });
}

}  // namespace warplite::gpu
