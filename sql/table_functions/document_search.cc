// warp_document_search(table, column, text, k [, options]): the k texts that have most words in
// common with one. With the option {"idf":1} rare words count more; `score` tells how much.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/search_target.h"
#include "sql/table_functions/text_target.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kText, kK, kOptions };
};
struct Output {
  enum : int { kRowId, kMatches, kRank, kScore, kCount };
};

struct Document {
  RowId rowid;
  std::uint32_t matches;
  double score;
};

class Documents : public Rows {
 public:
  explicit Documents(std::vector<Document> documents) : documents_(std::move(documents)) {}

  bool next() override { return ++at_ <= documents_.size(); }
  bool rewind() override {
    at_ = 0;
    return true;
  }
  void column(sqlite3_context* context, int column) const override {
    const Document& document = documents_[at_ - 1];
    switch (column) {
      case Output::kRowId: return sqlite3_result_int64(context, document.rowid);
      case Output::kMatches: return sqlite3_result_int64(context, document.matches);
      case Output::kRank: return sqlite3_result_int64(context, static_cast<sqlite3_int64>(at_));
      case Output::kScore: return sqlite3_result_double(context, document.score);
      default: return;
    }
  }

 private:
  const std::vector<Document> documents_;
  std::size_t at_ = 0;  // one more than the row's number
};

std::unique_ptr<Rows> run(Call& call) {
  const TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kWords);
  if (call.is_null(Input::kText)) return nullptr;
  const std::string text = query_text(call, Input::kText);
  const std::string_view query = text;
  const auto k = static_cast<std::size_t>(call.count(Input::kK));
  const DocumentOptions options = document_options(call, Input::kOptions);
  Interrupt interrupt(call.context().db());
  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  engine::TextRequest request = target.request(options.device, interrupt);
  request.by_rarity = options.idf;
  compute::HitTable hits =
      engine::most_common(*view, engine::Selection(*view, {}), request, {&query, 1}, k);
  std::vector<Document> documents;
  for (const Hit& hit : hits.sorted(0)) {
    const auto texts = view->part(hit.block).plain(request.column);
    documents.push_back(
        {hit.rowid, index::common_keywords(request.index, texts->text(hit.row), query),
         options.idf ? -hit.distance / engine::kWeightUnit : -hit.distance});
  }
  return std::make_unique<Documents>(std::move(documents));
}

}  // namespace

const TableFunction kDocumentSearch{
    .name = "warp_document_search",
    .columns = "rowid INTEGER, matches INTEGER, rank INTEGER, score REAL",
    .column_count = Output::kCount,
    .parameters = {{"table"}, {"column"}, {"text"}, {"k"}, {"options", false}},
    .run = run,
    .orders = {{Output::kRank}},
};

}  // namespace warplite::sql
