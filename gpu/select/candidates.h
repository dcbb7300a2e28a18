// Carries what kernels found into a HitTable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/ops.h"
#include "gpu/rows/row_set.h"

namespace warplite::gpu {

// These lie in memory that the host reads: query q of `queries` has found[q] candidates from
// candidates[q · room] on; if they are more than `room`, not all of them are there and the query is
// lost.
struct FoundCandidates {
  const Candidate* candidates;
  const std::uint32_t* found;
  std::size_t queries;
  std::uint32_t room;
};

// Adds them to best.row(first) and so on; queries that are lost go to `lost`. Many are taken by
// several threads.
void take_candidates(const RowSet& rows, const FoundCandidates& from, std::size_t first,
                     compute::HitTable& best, std::vector<std::uint32_t>& lost);

}  // namespace warplite::gpu
