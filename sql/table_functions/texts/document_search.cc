// warp_document_search(table, column, text, k [, options]): the k texts that have most words in
// common with one. With the option {"idf":1} rare words count more; `score` tells how much.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/texts/documents.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kText, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kWords);
  if (call.is_null(Input::kText)) return nullptr;
  const auto k = static_cast<std::size_t>(call.count(Input::kK));
  const DocumentOptions options = document_options(call, Input::kOptions);
  return document_rows(call, std::move(target), one_text(call, Input::kText), k, options);
}

}  // namespace

const TableFunction kDocumentSearch{
    .name = "warp_document_search",
    .columns = DocumentColumns::kColumns,
    .column_count = DocumentColumns::kCount,
    .parameters = {{"table"}, {"column"}, {"text"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{DocumentColumns::kRank}},
};

}  // namespace warplite::sql
