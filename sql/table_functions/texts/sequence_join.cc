// warp_sequence_join(table, column, query_sql, k [, candidates [, options]]): for every row
// (id, text) of query_sql, the k texts nearest to it, as warp_sequence_search has them.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/texts/sequences.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kQuerySql, kK, kCandidates, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kNgram);
  const SequenceRequest request =
      sequence_request(call, Input::kK, Input::kCandidates, Input::kOptions);
  return sequence_rows(call, std::move(target), read_texts(call, Input::kQuerySql), request);
}

}  // namespace

const TableFunction kSequenceJoin{
    .name = "warp_sequence_join",
    .columns = SequenceColumns::kJoined,
    .column_count = SequenceColumns::kCount + 1,
    .parameters = {{"table"}, {"column"}, {"query_sql"}, {"k"}, {"candidates", false},
                   {"options", false}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql
