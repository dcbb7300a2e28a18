#include "sql/table_functions/search_target.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/filter.h"

namespace warplite::sql {
namespace {

engine::SearchRequest request_for(const SearchTarget& target, const std::byte* queries,
                                  std::size_t count, Interrupt& interrupt) {
  engine::SearchRequest request;
  request.column = static_cast<std::size_t>(target.column->slot);
  request.distance = target.column->distance;
  request.queries = {queries, count, target.column->dim, target.column->element};
  request.cancellation = &interrupt;
  return request;
}

const index::Index& index_of(const SearchTarget& target) {
  return target.table->collection->index(static_cast<std::size_t>(target.column->slot));
}

}  // namespace

SearchTarget search_target(Call& call, int table_parameter, int column_parameter) {
  SearchTarget target{call.table(table_parameter), nullptr};
  const TableDefinition& definition = target.table->definition;
  const std::string name = call.text(column_parameter, "the name of a vector column");
  target.column = definition.find(name);
  if (target.column != nullptr && target.column->kind == ColumnKind::kVector) return target;
  std::string known;
  for (const ColumnDefinition& column : definition.columns) {
    if (column.kind == ColumnKind::kVector) known += (known.empty() ? "" : ", ") + column.name;
  }
  throw Error(ErrorKind::kInvalid,
              std::string(call.function()) + ": " + definition.table + "." + name + " is " +
                  (target.column == nullptr ? "no column" : "not a vector column") +
                  "; vector columns of " + definition.table + ": " +
                  (known.empty() ? "none" : known));
}

SearchOptions search_options(const Call& call, int parameter) {
  constexpr const char* kExpected = "a JSON object with the key device, e.g. {\"device\":\"cpu\"}";
  SearchOptions options;
  if (call.is_null(parameter)) return options;
  using Json = nlohmann::json;
  const Json json = Json::parse(call.text(parameter, kExpected), nullptr, false);
  if (!json.is_object()) call.refuse(parameter, kExpected);
  for (const auto& [key, value] : json.items()) {
    if (key != "device" || !value.is_string()) call.refuse(parameter, kExpected);
    options.device = value.get<std::string>();
  }
  return options;
}

compute::HitTable run_nearest(const Call& call, const SearchTarget& target,
                              const std::byte* queries, std::size_t count, std::size_t k,
                              const SearchOptions& options) {
  Interrupt interrupt(call.context().db());
  engine::SearchRequest request = request_for(target, queries, count, interrupt);
  request.device = options.device;
  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  const engine::Selection all(*view, {});
  const std::size_t most = static_cast<std::size_t>(view->live_rows());
  return engine::nearest(*view, all, index_of(target), request, std::min(k, most));
}

compute::HitLists run_within(const Call& call, const SearchTarget& target,
                             const std::byte* queries, std::size_t count, double radius) {
  Interrupt interrupt(call.context().db());
  engine::SearchRequest request = request_for(target, queries, count, interrupt);
  request.range.high = radius;
  const std::shared_ptr<const engine::View> view = target.table->collection->view();
  const engine::Selection all(*view, {});
  compute::HitLists lists = engine::within(*view, all, index_of(target), request);
  for (std::vector<Hit>& hits : lists) std::sort(hits.begin(), hits.end());
  return lists;
}

}  // namespace warplite::sql
