// The obvious scalar version of every operation of devices: the oracle that all are compared with.
// Threads: functions of their arguments.
#pragma once

#include "compute/codes.h"
#include "compute/edit.h"
#include "compute/ivf.h"
#include "compute/match.h"
#include "compute/ops.h"
#include "compute/tally.h"

namespace warplite::compute {

// A block in host memory, for the reference operations: `vectors` is ignored.
struct HostBlock {
  Block block;
  const std::byte* vectors;
};

void reference_nearest(const Workload& work, std::span<const HostBlock> blocks, HitTable& best);
void reference_within(const Workload& work, std::span<const HostBlock> blocks, HitLists& out);

// A run's bytes and the model's buffers in host memory, in the order of the work's own.
struct IvfHostModel {
  const float* centroids = nullptr;
  const float* codebooks = nullptr;   // null without
  const std::byte* coarse = nullptr;  // the same
};
struct IvfHostRun {
  const std::byte* bytes;
  std::span<const std::byte* const> vectors;  // per block
};
void reference_ivf_nearest(const IvfWork& work, const IvfHostModel& model,
                           std::span<const IvfHostRun> runs, HitTable& best);

// Adds the rows of the blocks' host bytes. `centroids`: [lists][dim], in place of the work's.
void reference_tally(const TallyWork& work, const float* centroids, ListTallies& out);

// This has a counter for every row. `tiles`: the bytes of the work's tiles in host memory.
void reference_match(const MatchWork& work, std::span<const std::byte* const> tiles,
                     HitTable& best);

// `columns`: [tiles][columns], host memory.
void reference_match_codes(const CodeWork& work, std::span<const std::uint16_t* const> columns,
                           HitTable& best);

// `tiles`: the bytes of the work's tiles in host memory.
void reference_edit_nearest(const EditWork& work, std::span<const std::byte* const> tiles,
                            HitTable& best);
void reference_edit_within(const EditWork& work, std::span<const std::byte* const> tiles,
                           HitLists& out);

}  // namespace warplite::compute
