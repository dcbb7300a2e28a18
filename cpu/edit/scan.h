// Edit distances of queries to all texts of tiles but for those that lengths rule out: 32 texts of
// about one length against a query (edit_kernels.h), those of the query's own length first, so that
// thresholds soon rule out those whose lengths differ too much. Threads share out the groups of
// texts and batches of queries.
#pragma once

#include <cstdint>
#include <span>

#include "compute/edit.h"
#include "cpu/edit/results.h"

namespace warplite::cpu {

// Scans some queries and tiles of a work. Throws std::bad_alloc, and Error{kInterrupted} when
// cancelled.
void scan_texts(const compute::EditWork& work, std::span<const std::uint32_t> queries,
                std::span<const compute::EditTile> tiles, EditResults& results);

}  // namespace warplite::cpu
