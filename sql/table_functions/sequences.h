// What searches for sequences return: rowid, distance, matches, certified, rank; and of several
// queries: the same with the query's id in front.
#pragma once

#include <memory>
#include <vector>

#include "engine/sequences.h"
#include "sql/table_functions/table_function.h"
#include "sql/table_functions/text_target.h"

namespace warplite::sql {

struct SequenceColumns {
  enum : int { kRowId, kDistance, kMatches, kCertified, kRank, kCount };
  static constexpr const char* kColumns =
      "rowid INTEGER, distance INTEGER, matches INTEGER, certified INTEGER, rank INTEGER";
  static constexpr const char* kJoined =
      "query_id, rowid INTEGER, distance INTEGER, matches INTEGER, certified INTEGER, rank INTEGER";
};

// `ids`: of each answer's query; empty: without.
std::unique_ptr<Rows> sequence_rows(std::vector<Value> ids, std::vector<engine::Sequences> answers);

// `candidates`: a parameter, a number or NULL; `options`: another, the only key is device.
std::vector<engine::Sequences> run_sequences(const Call& call, const TextTarget& target,
                                             std::span<const std::string_view> queries,
                                             std::size_t k, int candidates, int options);

}  // namespace warplite::sql
