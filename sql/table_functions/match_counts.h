// What the functions of match counts have in common.
#pragma once

#include <span>
#include <vector>

#include "engine/match/match_count.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

// The k rows that match most of each query. `options`: a parameter; the only key is device.
compute::HitTable run_match_count(const Call& call, const OpenTable& table,
                                  std::span<const engine::RelationalQuery> queries, std::size_t k,
                                  int options);

}  // namespace warplite::sql
