// Large batches of queries: their hits are put in order some queries at a time, which is worth
// sharing among threads, and still in the caches when SQLite asks for the rows.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "compute/ops.h"

namespace warplite::sql {

// Calls take(i, hits), nearest first, for `count` queries from `first` on: on several threads, where
// that is worth it.
void each_sorted(compute::HitTable& table, std::size_t first, std::size_t count,
                 const std::function<void(std::size_t query, std::span<const Hit> hits)>& take);

// Makes table.sorted(i) quick for each i from `first` to before what it returns, which is more than
// `first` unless that is the number of queries.
std::size_t sort_ahead(compute::HitTable& table, std::size_t first);

}  // namespace warplite::sql
