// warp_document_join(table, column, query_sql, k [, options]): for every row (id, text) of
// query_sql, the k texts that have most words in common with it, as warp_document_search has them.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/texts/documents.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kQuerySql, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kWords);
  const auto k = static_cast<std::size_t>(call.count(Input::kK));
  const DocumentOptions options = document_options(call, Input::kOptions);
  return document_rows(call, std::move(target), read_texts(call, Input::kQuerySql), k, options);
}

}  // namespace

const TableFunction kDocumentJoin{
    .name = "warp_document_join",
    .columns = DocumentColumns::kJoined,
    .column_count = DocumentColumns::kCount + 1,
    .parameters = {{"table"}, {"column"}, {"query_sql"}, {"k"}, {"options", false}},
    .run = run,
    .estimated_rows = 100000,
    .direct_only = true,
};

}  // namespace warplite::sql
