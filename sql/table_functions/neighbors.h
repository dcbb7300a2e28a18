// What a search for the k nearest of one query returns: rowid, distance, rank.
#pragma once

#include <memory>
#include <vector>

#include "core/types.h"
#include "sql/table_functions/table_function.h"

namespace warplite::sql {

struct Neighbors {
  enum : int { kRowId, kDistance, kRank, kCount };
  static constexpr const char* kColumns = "rowid INTEGER, distance REAL, rank INTEGER";

  static std::vector<Order> orders() {
    return {{kRank}, {kDistance, kRowId}, {kDistance, kRank}};
  }
  // `hits`: nearest first.
  static std::unique_ptr<Rows> rows(std::vector<Hit> hits);
};

}  // namespace warplite::sql
