// warp_sequence_join(table, column, query_sql, k [, candidates [, options]]): for every row
// (id, text) of query_sql, the k texts nearest to it, as warp_sequence_search has them.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/query_batch.h"
#include "sql/table_functions/sequences.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kQuerySql, kK, kCandidates, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  const TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kNgram);
  const auto k = static_cast<std::size_t>(call.count(Input::kK));
  std::vector<Value> ids;
  std::vector<std::string> texts;
  each_query(call, Input::kQuerySql, "text", [&](const Cell& id, sqlite3_value* text) {
    if (sqlite3_value_type(text) != SQLITE_TEXT) {
      throw Error(ErrorKind::kInvalid, "warp_sequence_join: query_sql: expected rows (id, text), got " +
                                           describe(cell_of(text)) + " as text");
    }
    texts.emplace_back(cell_of(text).bytes);
    ids.emplace_back(id);
  });
  if (ids.empty()) return nullptr;
  const std::vector<std::string_view> queries(texts.begin(), texts.end());
  return sequence_rows(std::move(ids), run_sequences(call, target, queries, k, Input::kCandidates,
                                                     Input::kOptions));
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
