#include "sql/table_functions/joint_search.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/filter/filter.h"
#include "sql/table/context.h"
#include "sql/table_functions/row_filter.h"

namespace warplite::sql {
namespace {

using Views = std::vector<std::shared_ptr<const engine::View>>;

// The last view that was made of views, the first of which keeps it: devices know it again, and
// what they made of it.
class JointView {
 public:
  std::shared_ptr<const engine::View> of(const Views& views) {
    const std::lock_guard lock(mutex_);
    const auto same = [](const std::weak_ptr<const engine::View>& before,
                         const std::shared_ptr<const engine::View>& now) {
      return before.lock() == now;
    };
    // The first is who keeps this.
    if (joint_ == nullptr ||
        !std::equal(others_.begin(), others_.end(), views.begin() + 1, views.end(), same)) {
      joint_ = std::make_shared<const engine::View>(views);
      others_.assign(views.begin() + 1, views.end());
    }
    return joint_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const engine::View>> others_;
  std::shared_ptr<const engine::View> joint_;
};

bool same_column(const ColumnDefinition& a, const ColumnDefinition& b) {
  return a.kind == b.kind && a.element == b.element && a.dim == b.dim && a.distance == b.distance;
}

// Says whether all are compared row by row, in one place of their layouts, and have their own rows.
bool is_joint(const std::vector<SearchTarget>& targets, const Views& views,
              const engine::SearchRequest& request) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const engine::View& view = *views[i];
    if (static_cast<std::size_t>(targets[i].column->slot) != request.column) return false;
    if (view.content() != nullptr || view.layout().codes_only) return false;
    if (!engine::is_exact(view, index_of(targets[i]), request)) return false;
  }
  return true;
}

compute::HitTable nearest_in_each(const Call& call, const std::vector<SearchTarget>& targets,
                                  const std::byte* queries, std::size_t count, std::size_t k,
                                  const SearchOptions& options) {
  compute::HitTable best(count, k);
  for (const SearchTarget& target : targets) {
    best.merge(run_nearest(call, target, queries, count, k, options));
  }
  return best;
}

}  // namespace

std::vector<SearchTarget> search_targets(Call& call, int table_parameter, int column_parameter,
                                         const std::vector<std::string>& also) {
  std::vector<SearchTarget> targets = {
      search_target(call, table_parameter, column_parameter, VectorColumns::kAll)};
  const std::string column = targets[0].column->name;
  for (const std::string& name : also) {
    std::shared_ptr<OpenTable> table = call.context().find(name);
    const ColumnDefinition& other =
        table->definition.vector_column(column, call.function(), VectorColumns::kAll);
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": options: " + name + why);
    };
    if (!same_column(other, *targets[0].column)) {
      refuse("." + column + " has another type or distance than " + targets[0].place().text());
    }
    if (std::any_of(targets.begin(), targets.end(),
                    [&](const SearchTarget& target) { return target.table == table; })) {
      refuse(" comes twice");
    }
    targets.push_back({std::move(table), &other});
  }
  return targets;
}

compute::HitTable run_nearest_of_all(const Call& call, const std::vector<SearchTarget>& targets,
                                     const std::byte* queries, std::size_t count, std::size_t k,
                                     const SearchOptions& options) {
  const SearchTarget& first = targets.front();
  if (targets.size() == 1) return run_nearest(call, first, queries, count, k, options);
  if (first.column->kind == ColumnKind::kSparse) {
    return nearest_in_each(call, targets, queries, count, k, options);
  }
  Interrupt interrupt(call.context().db());
  engine::SearchRequest request = search_request(first, queries, count, options, interrupt);
  Views views;
  for (const SearchTarget& target : targets) views.push_back(target.table->collection->view());
  if (!is_joint(targets, views, request)) {
    return nearest_in_each(call, targets, queries, count, k, options);
  }
  const auto report = new_report(call, first, request);
  const auto joint = views[0]->derived().of<JointView>().of(views);
  if (options.filter.empty()) {
    return engine::nearest(*joint, *engine::all_rows(*joint), index_of(first), request, k);
  }
  std::vector<std::shared_ptr<const engine::Selection>> selections;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    selections.push_back(selected_rows(call, *targets[i].table, *views[i], options.filter));
  }
  return engine::nearest(*joint, engine::Selection(selections), index_of(first), request, k);
}

}  // namespace warplite::sql
