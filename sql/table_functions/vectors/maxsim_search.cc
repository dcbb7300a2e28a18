// warp_maxsim_search(table, column, group_column, queries, k [, options]): the k documents most similar
// to a query of several vectors, by late interaction (engine/search/max_similarity.h). A document is
// the rows of one value of the group column.
#include <algorithm>
#include <string>
#include <utility>

#include "core/listing.h"
#include "engine/search/max_similarity.h"
#include "sql/table_functions/functions.h"
#include "sql/table_functions/query_array.h"
#include "sql/table_functions/row_filter.h"
#include "sql/table_functions/search_target.h"

namespace warplite::sql {
namespace {

struct Output {
  enum : int { kDocument, kScore, kRank, kCount };
};
struct Input {
  enum : int { kTable, kColumn, kGroup, kQueries, kK, kOptions };
};

class DocumentList final : public Rows {
 public:
  explicit DocumentList(std::vector<engine::ScoredDocument> documents)
      : documents_(std::move(documents)) {}

  bool next() override { return ++rank_ <= documents_.size(); }
  bool rewind() override {
    rank_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const engine::ScoredDocument& document = documents_[rank_ - 1];
    switch (column) {
      case Output::kDocument: return result_cell(context, document.document.cell());
      case Output::kScore: return sqlite3_result_double(context, document.score);
      case Output::kRank:
        return sqlite3_result_int64(context, static_cast<sqlite3_int64>(rank_));
    }
  }

 private:
  std::vector<engine::ScoredDocument> documents_;
  std::size_t rank_ = 0;  // from 1
};

bool names_documents(const ColumnDefinition& column) {
  return column.kind == ColumnKind::kPlain || column.kind == ColumnKind::kPartition;
}

const ColumnDefinition& group_column(const Call& call, const TableDefinition& table) {
  const std::string name = call.text(Input::kGroup, "the name of a plain column");
  const ColumnDefinition* const column = table.find(name);
  if (column != nullptr && names_documents(*column)) return *column;
  const std::string known =
      listing(table.columns, names_documents,
              [](const ColumnDefinition& one) -> std::string_view { return one.name; }, ", ");
  call.refuse(Input::kGroup, "the name of a plain column of " + table.table + ", which says what "
                             "document a row is of: " + (known.empty() ? "it has none" : known));
}

// Checks that they are of the column's type.
void check_names(const Call& call, const std::vector<Value>& names, const ColumnDefinition& group) {
  const bool texts = group.plain == PlainType::kText;
  for (const Value& name : names) {
    if ((name.kind() == CellKind::kText) == texts) continue;
    call.refuse(Input::kOptions, std::string(texts ? "texts" : "numbers") +
                                     " for the key documents, as " + group.name + " has",
                describe(name.cell()));
  }
}

std::unique_ptr<Rows> run(Call& call) {
  const SearchTarget target = search_target(call, Input::kTable, Input::kColumn);
  const ColumnDefinition& group = group_column(call, target.table->definition);
  RankingOptions options = interaction_options(call, Input::kOptions);
  if (options.documents) check_names(call, *options.documents, group);
  engine::DocumentRequest request;
  request.k = static_cast<std::size_t>(call.count(Input::kK));
  if (call.is_null(Input::kQueries)) return nullptr;
  const QueryArray queries = read_query_list(call, Input::kQueries, target, options.type);
  request.column = static_cast<std::size_t>(group.slot);
  request.candidates = options.candidates;
  request.documents = std::move(options.documents);

  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  const auto selection = selected_rows(call, *target.table, *view, options.filter);
  Interrupt interrupt(call.context().db());
  engine::SearchRequest search =
      search_request(target, queries.vectors, queries.count, options, interrupt);
  const std::shared_ptr<engine::SearchReport> report = new_report(call, target, search);
  return std::make_unique<DocumentList>(
      engine::most_similar(*view, *selection, index_of(target), search, request));
}

}  // namespace

const TableFunction kMaxsimSearch{
    .name = "warp_maxsim_search",
    .columns = "document, score REAL, rank INTEGER",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"group_column"}, {"queries"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{Output::kRank}},
    .direct_only = true,
};

}  // namespace warplite::sql
