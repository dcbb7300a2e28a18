// A match-count query as people write it, `{"age":[25,35], "sex":"Male"}`, as the engine counts it.
//
//   column       value                     a row matches when its value is
//   -----------  ------------------------  ------------------------------------------
//   any          null                      NULL
//   numbers      25                        equal
//                [25,35]                   from 25 to 35; null for an end: open
//                [[1,5],[7,9],12,null]     one of these
//   TEXT         "Male"                    equal, byte by byte
//                ["Oslo","Bergen",null]    one of these
//   any          {"value":…,"weight":3}    as above, and counts 3 instead of 1
//
// The rowid, or the name of the INTEGER PRIMARY KEY, is a column of numbers; BOOLEAN columns take
// true and false as well.
// Threads: one at a time.
// Errors: Error{kInvalid} names the table, the column, what was expected and what came.
#pragma once

#include <memory>

#include "core/value.h"
#include "engine/match/match_count.h"
#include "sql/definition/definition.h"

namespace warplite::sql {

class QueryParser;

// Reads the queries of one table.
class MatchQueryReader {
 public:
  // REQUIRES: the table outlives this.
  explicit MatchQueryReader(const TableDefinition& table);
  ~MatchQueryReader();

  // `text`: as it came; anything but TEXT is refused. REQUIRES: not NULL.
  engine::RelationalQuery read(const Cell& text);

 private:
  std::unique_ptr<QueryParser> parser_;
};

}  // namespace warplite::sql
