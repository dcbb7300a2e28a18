// warp_document_search(table, column, text, k [, options]): the k texts that have most words in
// common with one.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/neighbors.h"
#include "sql/table_functions/search_target.h"
#include "sql/table_functions/text_target.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kText, kK, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  const TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kWords);
  if (call.is_null(Input::kText)) return nullptr;
  const std::string text = query_text(call, Input::kText);
  const std::string_view query = text;
  const auto k = static_cast<std::size_t>(call.count(Input::kK));
  const std::string device = device_option(call, Input::kOptions);
  Interrupt interrupt(call.context().db());
  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  compute::HitTable hits =
      engine::most_common(*view, engine::Selection(*view, {}), target.request(device, interrupt),
                          {&query, 1}, k);
  return Neighbors::rows(hits.sorted(0), Score::kMatches);
}

}  // namespace

const TableFunction kDocumentSearch{
    .name = "warp_document_search",
    .columns = "rowid INTEGER, matches INTEGER, rank INTEGER",
    .column_count = Neighbors::kCount,
    .parameters = {{"table"}, {"column"}, {"text"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{Neighbors::kRank}},
};

}  // namespace warplite::sql
