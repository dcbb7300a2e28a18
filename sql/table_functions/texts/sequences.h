// These are the rows that searches for sequences return: rowid, distance, matches, certified, rank;
// searches of several queries return the same with the query's id in front.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "sql/table_functions/texts/text_rows.h"

namespace warplite::sql {

struct SequenceColumns {
  enum : int { kRowId, kDistance, kMatches, kCertified, kRank, kCount };
  static constexpr const char* kColumns =
      "rowid INTEGER, distance INTEGER, matches INTEGER, certified INTEGER, rank INTEGER";
  static constexpr const char* kJoined =
      "query_id, rowid INTEGER, distance INTEGER, matches INTEGER, certified INTEGER, rank INTEGER";
};

struct SequenceRequest {
  std::size_t k;
  std::optional<std::size_t> candidates;
  WorkOptions options;
};

// Reads the request from these parameters of a call: `candidates`, a number or NULL; `options`
// of work_options().
SequenceRequest sequence_request(const Call& call, int k, int candidates, int options);

std::unique_ptr<Rows> sequence_rows(const Call& call, TextTarget target, TextQueries queries,
                                    const SequenceRequest& request);

}  // namespace warplite::sql
