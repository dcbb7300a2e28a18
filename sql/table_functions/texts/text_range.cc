#include "sql/table_functions/texts/text_range.h"

#include <algorithm>

#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"
#include "engine/text/edit_search.h"
#include "sql/table_functions/row_filter.h"

namespace warplite::sql {
namespace {

class TextRange final : public RangeSearch {
 public:
  TextRange(const Call& call, const TextTarget& target, std::vector<std::string> queries,
            double radius, const WorkOptions& options)
      : table_(target.table),
        view_(table_->collection->view()),
        selection_(*view_, row_filter(call, *table_, options.filter)),
        interrupt_(call.context().db()),
        report_(call.context().new_report(table_->definition, *target.column)),
        device_(options.device),
        queries_(std::move(queries)) {
    const index::TextIndex& text = target.column->text;
    request_.column = {static_cast<std::size_t>(target.column->slot), text.ngram.fold,
                       text.ngram.normalization};
    request_.device = device_;
    request_.cancellation = &interrupt_;
    request_.range.high = radius;
    request_.metric = text.metric;
    report_->queries = queries_.size();
    request_.report = report_.get();
  }

  compute::HitLists answer(std::size_t first, std::size_t end) override {
    std::vector<CodePoints> points(end - first);
    for (std::size_t i = first; i < end; ++i) request_.column.read(queries_[i], points[i - first]);
    compute::HitLists lists = engine::texts_within(*view_, selection_, request_, points);
    for (std::vector<Hit>& hits : lists) {
      engine::erase_vanished(*view_, hits);
      interruptible_sort(hits.begin(), hits.end());
    }
    return lists;
  }

 private:
  const std::shared_ptr<OpenTable> table_;
  const std::shared_ptr<const engine::View> view_;
  const engine::Selection selection_;
  Interrupt interrupt_;
  const std::shared_ptr<engine::SearchReport> report_;
  const std::string device_;
  const std::vector<std::string> queries_;
  engine::EditRequest request_;
};

}  // namespace

std::optional<TextTarget> edit_target(Call& call, int table_parameter, int column_parameter) {
  TextTarget target{call.table(table_parameter), nullptr};
  target.column = target.table->definition.find(
      call.text(column_parameter, "the name of a vector column, or of a TEXT column"));
  if (target.column == nullptr || target.column->is_vector()) return std::nullopt;
  if (target.column->text.by_edits()) return target;
  throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": " + target.table->definition.table + "." +
                                       target.column->name +
                                       " is neither a vector column nor a TEXT column with distance=edit or index=ngram");
}

std::unique_ptr<RangeSearch> text_range_search(const Call& call, const TextTarget& target,
                                               std::vector<std::string> queries, double radius,
                                               const WorkOptions& options) {
  return std::make_unique<TextRange>(call, target, std::move(queries), radius, options);
}

}  // namespace warplite::sql
