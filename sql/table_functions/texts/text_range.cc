#include "sql/table_functions/texts/text_range.h"

#include <algorithm>

#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"
#include "engine/text/edit_search.h"
#include "sql/table_functions/row_filter.h"

namespace warplite::sql {

std::optional<TextTarget> edit_target(Call& call, int table_parameter, int column_parameter) {
  TextTarget target{call.table(table_parameter), nullptr};
  target.column = target.table->definition.find(
      call.text(column_parameter, "the name of a vector column, or of a TEXT column"));
  if (target.column == nullptr || !target.column->text.by_edits()) return std::nullopt;
  return target;
}

compute::HitLists run_texts_within(const Call& call, const TextTarget& target,
                                   const std::vector<std::string>& queries, double radius,
                                   const WorkOptions& options) {
  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  const engine::Selection selection(*view, row_filter(call, *target.table, options.filter));
  Interrupt interrupt(call.context().db());
  const index::TextIndex& text = target.column->text;
  engine::EditRequest request;
  request.column = {static_cast<std::size_t>(target.column->slot), text.ngram.fold,
                    text.ngram.normalization};
  request.device = options.device;
  request.cancellation = &interrupt;
  request.range.high = radius;
  request.metric = text.metric;
  const std::shared_ptr<engine::SearchReport> report =
      call.context().new_report(target.table->definition, *target.column);
  report->queries = queries.size();
  request.report = report.get();
  std::vector<CodePoints> points(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) request.column.read(queries[i], points[i]);
  compute::HitLists lists = engine::texts_within(*view, selection, request, points);
  for (std::vector<Hit>& hits : lists) {
    engine::erase_vanished(*view, hits);
    interruptible_sort(hits.begin(), hits.end());
  }
  return lists;
}

}  // namespace warplite::sql
