// warp_sequence_search(table, column, text, k [, candidates [, options]]): the k texts nearest to
// one under edit distance, by way of the n-grams they have in common. Without candidates the answer
// is exact; with them so many rows are compared, and `certified` tells whether that was enough.
#include "sql/table_functions/functions.h"
#include "sql/table_functions/texts/sequences.h"

namespace warplite::sql {
namespace {

struct Input {
  enum : int { kTable, kColumn, kText, kK, kCandidates, kOptions };
};

std::unique_ptr<Rows> run(Call& call) {
  TextTarget target =
      text_target(call, Input::kTable, Input::kColumn, index::TextIndex::Kind::kNgram);
  if (call.is_null(Input::kText)) return nullptr;
  const SequenceRequest request =
      sequence_request(call, Input::kK, Input::kCandidates, Input::kOptions);
  return sequence_rows(call, std::move(target), one_text(call, Input::kText), request);
}

}  // namespace

const TableFunction kSequenceSearch{
    .name = "warp_sequence_search",
    .columns = SequenceColumns::kColumns,
    .column_count = SequenceColumns::kCount,
    .parameters = {{"table"}, {"column"}, {"text"}, {"k"}, {"candidates", false},
                   {"options", false}},
    .run = run,
    .orders = {{SequenceColumns::kRank},
               {SequenceColumns::kDistance, SequenceColumns::kRowId},
               {SequenceColumns::kDistance, SequenceColumns::kRank}},
};

}  // namespace warplite::sql
