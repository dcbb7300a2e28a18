// Neighbors are what a search for the k best rows of one query returns: rowid, distance or matches,
// rank; a search of several queries returns the same with the query's id in front.
#pragma once

#include <memory>
#include <vector>

#include "compute/ops.h"
#include "core/types.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

// Says what a hit's distance means: itself, or minus the number of matches.
enum class Score { kDistance, kMatches };

struct Neighbors {
  enum : int { kRowId, kDistance, kRank, kCount };
  static constexpr const char* kColumns = "rowid INTEGER, distance REAL, rank INTEGER";

  static std::vector<Order> orders() {
    return {{kRank}, {kDistance, kRowId}, {kDistance, kRank}};
  }
  // `hits`: nearest first.
  static std::unique_ptr<Rows> rows(std::vector<Hit> hits, Score score = Score::kDistance);
};

struct JoinedNeighbors {
  enum : int { kQueryId, kRowId, kDistance, kRank, kCount };
  static constexpr const char* kColumns =
      "query_id, rowid INTEGER, distance REAL, rank INTEGER";

  // `table`: the hits of the query of each id.
  static std::unique_ptr<Rows> rows(std::vector<Value> ids, compute::HitTable table,
                                    Score score = Score::kDistance);
};

}  // namespace warplite::sql
