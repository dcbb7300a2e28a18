// Lists of hits become one: by their ranks or by their scores.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/types.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {

inline constexpr std::size_t kMostLists = 8;

struct FusedRow {
  RowId rowid = 0;
  double score = 0;
  std::array<std::uint32_t, kMostLists> ranks{};  // in each list, from 1; 0: it is not in it
};

// The k rows of the highest scores, ties by rowid. `lists`: at most kMostLists, each in its order,
// with finite distances. A row's score is the sum, over the lists that it is in, of the list's
// weight times 1 / (60 + rank) or, with options.linear, (worst − distance) / (worst − best), where
// worst and best are the distances of the list's last and first row; 1 when they are the same.
// REQUIRES: options.weights is empty or has one for each list.
std::vector<FusedRow> fuse(const std::vector<std::vector<Hit>>& lists,
                           const RankingOptions& options, std::size_t k);

}  // namespace warplite::sql
