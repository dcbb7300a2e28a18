// DocumentColumns are what searches for documents return: rowid, matches, rank, score; searches of
// several queries return the same with the query's id in front.
#pragma once

#include <cstddef>
#include <memory>

#include "sql/table_functions/search_target.h"
#include "sql/table_functions/texts/text_rows.h"

namespace warplite::sql {

struct DocumentColumns {
  enum : int { kRowId, kMatches, kRank, kScore, kCount };
  static constexpr const char* kColumns =
      "rowid INTEGER, matches INTEGER, rank INTEGER, score REAL";
  static constexpr const char* kJoined =
      "query_id, rowid INTEGER, matches INTEGER, rank INTEGER, score REAL";
};

std::unique_ptr<Rows> document_rows(const Call& call, TextTarget target, TextQueries queries,
                                    std::size_t k, const DocumentOptions& options);

}  // namespace warplite::sql
