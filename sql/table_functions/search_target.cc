#include "sql/table_functions/search_target.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/listing.h"
#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"
#include "engine/filter/filter.h"
#include "engine/residency/device_choice.h"
#include "engine/sparse/sparse_search.h"
#include "sql/functions/rank_fusion.h"
#include "sql/host/json.h"
#include "sql/table_functions/row_filter.h"

namespace warplite::sql {
namespace {

constexpr std::int64_t kMostRefine = 10000;

std::optional<std::int64_t> integer_between(const Json& value, std::int64_t low,
                                            std::int64_t high) {
  const bool fits = value.is_integer() && value.integer() >= low && value.integer() <= high;
  return fits ? std::optional(value.integer()) : std::nullopt;
}

// False: neither a boolean nor 0 or 1.
bool read_flag(const Json& value, bool& flag) {
  const auto number = integer_between(value, 0, 1);
  flag = value.is_boolean() ? value.boolean() : number == 1;
  return value.is_boolean() || number.has_value();
}

// False: no name of an element type.
bool read_type(const Json& value, std::optional<ElementType>& type) {
  if (!value.is_text()) return false;
  for (const ElementInfo& row : kElementTypes) {
    if (value.text() == row.name) type = row.type;
  }
  return type.has_value();
}

// False: no name of a selection.
bool read_select(const Json& value, compute::Select& select) {
  constexpr std::pair<std::string_view, compute::Select> kNames[] = {
      {"auto", compute::Select::kAuto},
      {"default", compute::Select::kDefault},
      {"threshold", compute::Select::kThreshold},
  };
  if (!value.is_text()) return false;
  for (const auto& [name, meaning] : kNames) {
    if (name != value.text()) continue;
    select = meaning;
    return true;
  }
  return false;
}

// False: not a list of weights.
bool read_weights(const Json& value, std::vector<double>& weights) {
  if (!value.is_list()) return false;
  for (const Json& member : value.list()) {
    if (!member.is_number()) return false;
    const Cell number = member.number();
    const double weight = number.kind == CellKind::kInteger ? static_cast<double>(number.integer)
                                                            : number.real;
    if (!is_weight(weight)) return false;
    weights.push_back(weight);
  }
  return !weights.empty();
}

// False: not a list of numbers and texts.
bool read_names(const Json& value, std::vector<Value>& names) {
  if (!value.is_list()) return false;
  for (const Json& member : value.list()) {
    if (!member.is_number() && !member.is_text()) return false;
    names.emplace_back(member.is_text() ? Cell::text(member.text()) : member.number());
  }
  return true;
}

// False: not a list of texts.
bool read_texts(const Json& value, std::vector<std::string>& texts) {
  if (!value.is_list()) return false;
  for (const Json& member : value.list()) {
    if (!member.is_text()) return false;
    texts.emplace_back(member.text());
  }
  return true;
}

// False: no name of a fusion.
bool read_fusion(const Json& value, bool& linear) {
  linear = value.is_text() && value.text() == "linear";
  return linear || (value.is_text() && value.text() == "rrf");
}

// Functions by the options that they take.
enum Takers : unsigned {
  kWork = 1,
  kDocument = 2,
  kSearch = 4,
  kArray = 8,
  kFusion = 16,
  kInteraction = 32,
};
constexpr unsigned kVectors = kSearch | kArray | kFusion | kInteraction;
constexpr unsigned kDevices = kWork | kDocument | kSearch | kArray | kFusion;

struct Option {
  std::string_view key;
  const char* expected;
  unsigned takers;
  bool (*read)(const Json& value, RankingOptions& options);  // false: not what was expected
};

// What may stand in a schema's text takes no filter: that is SQL (row_filter.h).
constexpr std::string_view kFilter = "filter";
constexpr std::int64_t kMostDepth = 1 << 20;
constexpr Option kOptions[] = {
    {"idf", "0, 1, false or true", kDocument | kFusion,
     [](const Json& value, RankingOptions& options) { return read_flag(value, options.idf); }},
    {"device", "a device's name, as \"cpu\"", kDevices,
     [](const Json& value, RankingOptions& options) {
       if (value.is_text()) options.device = value.text();
       return value.is_text();
     }},
    {kFilter, "a text, a SQL expression over the table's columns", kWork | kDocument | kVectors,
     [](const Json& value, RankingOptions& options) {
       if (value.is_text()) options.filter = value.text();
       return value.is_text() && !options.filter.empty();
     }},
    {"nprobe", "an integer from 1 to 1048576", kVectors,
     [](const Json& value, RankingOptions& options) {
       const auto number = integer_between(value, 1, engine::kMostProbes);
       if (number) options.nprobe = static_cast<std::uint32_t>(*number);
       return number.has_value();
     }},
    {"recall", engine::kRecallExpected, kVectors,
     [](const Json& value, RankingOptions& options) {
       if (!value.is_number()) return false;
       const Cell number = value.number();
       const double recall = number.kind == CellKind::kInteger
                                 ? static_cast<double>(number.integer) : number.real;
       if (engine::is_recall(recall)) options.recall = recall;
       return options.recall.has_value();
     }},
    {"refine", "an integer from 0 to 10000", kVectors,
     [](const Json& value, RankingOptions& options) {
       const auto number = integer_between(value, 0, kMostRefine);
       if (number) options.refine = static_cast<std::size_t>(*number);
       return number.has_value();
     }},
    {"exact", "0, 1, false or true", kVectors,
     [](const Json& value, RankingOptions& options) { return read_flag(value, options.exact); }},
    {"select", "\"auto\", \"default\" or \"threshold\"", kSearch | kArray,
     [](const Json& value, RankingOptions& options) { return read_select(value, options.select); }},
    {"type", "a type's name, as \"float32\"", kArray | kInteraction,
     [](const Json& value, RankingOptions& options) { return read_type(value, options.type); }},
    {"also", "a list of names of tables", kArray,
     [](const Json& value, RankingOptions& options) { return read_texts(value, options.also); }},
    {"fusion", "\"rrf\" or \"linear\"", kFusion,
     [](const Json& value, RankingOptions& options) { return read_fusion(value, options.linear); }},
    {"weights", "a list of numbers from 0 to 1000000", kFusion,
     [](const Json& value, RankingOptions& options) {
       return read_weights(value, options.weights);
     }},
    {"depth", "an integer from 1 to 1048576", kFusion,
     [](const Json& value, RankingOptions& options) {
       const auto number = integer_between(value, 1, kMostDepth);
       if (number) options.depth = static_cast<std::size_t>(*number);
       return number.has_value();
     }},
    {"candidates", "an integer from 1 to 1048576", kInteraction,
     [](const Json& value, RankingOptions& options) {
       const auto number = integer_between(value, 1, kMostDepth);
       if (number) options.candidates = static_cast<std::size_t>(*number);
       return number.has_value();
     }},
    {"documents", "a list of numbers and texts", kInteraction,
     [](const Json& value, RankingOptions& options) {
       return read_names(value, options.documents.emplace());
     }},
};

// `expected()`: what messages say.
template <class Expected>
Json parse_options(const Call& call, int parameter, const Expected& expected) {
  if (sqlite3_value_type(call.value(parameter)) != SQLITE_TEXT) call.refuse(parameter, expected());
  try {
    Json json = Json::parse(cell_of(call.value(parameter)).bytes);
    if (json.is_object()) return json;
  } catch (const JsonError& error) {
    call.refuse(parameter, expected(), error.what());
  }
  call.refuse(parameter, expected());
}

RankingOptions read_options(const Call& call, int parameter, Takers taker) {
  RankingOptions options;
  if (call.is_null(parameter)) return options;
  const auto taken = [&](const Option& row) {
    return (row.takers & taker) != 0 && (call.direct_only() || row.key != kFilter);
  };
  const auto expected = [&] {
    return std::string("a JSON object such as ") +
           ((taker & kDevices) != 0 ? "{\"device\":\"cpu\"}" : "{\"exact\":1}") +
           "; it takes the keys " +
           listing(kOptions, taken, [](const Option& row) { return row.key; }, ", ");
  };
  const Json json = parse_options(call, parameter, expected);
  for (const auto& [key, value] : json.object()) {
    const auto option =
        std::find_if(std::begin(kOptions), std::end(kOptions),
                     [&](const Option& row) { return row.key == key && taken(row); });
    if (option == std::end(kOptions)) {
      const bool beside = key == kFilter && !call.direct_only();
      call.refuse(parameter, expected(),
                  "the key \"" + key + "\"" +
                      (beside ? "; write the conditions of one query beside MATCH" : ""));
    }
    if (!option->read(value, options)) {
      call.refuse(parameter, std::string(option->expected) + " for the key " + key);
    }
  }
  // Here, since a table without rows asks no device for anything.
  if (!options.device.empty()) {
    Interrupt interrupt(call.context().db());
    engine::check_device(options.device, &interrupt);
  }
  return options;
}

}  // namespace

SearchTarget search_target(Call& call, int table_parameter, int column_parameter,
                           VectorColumns taken) {
  SearchTarget target{call.table(table_parameter), nullptr};
  target.column = &target.table->definition.vector_column(
      call.text(column_parameter, "the name of a vector column"), call.function(), taken);
  return target;
}

SearchOptions search_options(const Call& call, int parameter) {
  return read_options(call, parameter, kSearch);
}

SearchOptions array_options(const Call& call, int parameter) {
  return read_options(call, parameter, kArray);
}

RankingOptions fusion_options(const Call& call, int parameter) {
  return read_options(call, parameter, kFusion);
}

RankingOptions interaction_options(const Call& call, int parameter) {
  return read_options(call, parameter, kInteraction);
}

DocumentOptions document_options(const Call& call, int parameter) {
  return read_options(call, parameter, kDocument);
}

WorkOptions work_options(const Call& call, int parameter) {
  return read_options(call, parameter, kWork);
}

const index::Index& index_of(const SearchTarget& target) {
  return target.table->collection->index(static_cast<std::size_t>(target.column->slot));
}

engine::SearchRequest search_request(const SearchTarget& target, const std::byte* queries,
                                     std::size_t count, const SearchOptions& options,
                                     compute::Cancellation& cancellation) {
  if (options.nprobe != 0) engine::check_nprobe(index_of(target), target.place().text());
  engine::SearchRequest request;
  request.column = static_cast<std::size_t>(target.column->slot);
  request.distance = target.column->distance;
  request.queries = {queries, count, target.column->dim, target.column->element};
  request.device = options.device;
  request.nprobe = options.nprobe;
  request.recall = options.recall;
  request.refine = options.refine;
  request.exact = options.exact;
  request.select = options.select;
  request.cancellation = &cancellation;
  return request;
}

std::shared_ptr<engine::SearchReport> new_report(const Call& call, const SearchTarget& target,
                                                 engine::SearchRequest& request) {
  auto report = call.context().new_report(target.table->definition, *target.column);
  report->queries = request.queries.rows;
  request.report = report.get();
  return report;
}

namespace {

// A search of the target that begins: what is searched, and the report of it.
class Run {
 public:
  Run(const Call& call, const SearchTarget& target, std::size_t queries, const SearchOptions& options)
      : target_(target),
        options_(options),
        view_(target.table->collection->view()),
        selection_(selected_rows(call, *target.table, *view_, options.filter)),
        interrupt_(call.context().db()),
        report_(call.context().new_report(target.table->definition, *target.column)) {
    report_->queries = queries;
  }

  const engine::View& view() const { return *view_; }
  const engine::Selection& selection() const { return *selection_; }

  engine::SearchRequest dense(const std::byte* queries, std::size_t count) {
    engine::SearchRequest request = search_request(target_, queries, count, options_, interrupt_);
    request.report = report_.get();
    return request;
  }
  engine::SparseRequest sparse() {
    engine::SparseRequest request;
    request.column = static_cast<std::size_t>(target_.column->slot);
    request.device = options_.device;
    request.exact = options_.exact;
    request.cancellation = &interrupt_;
    request.report = report_.get();
    return request;
  }

 private:
  const SearchTarget target_;
  const SearchOptions options_;
  const std::shared_ptr<const engine::View> view_;
  const std::shared_ptr<const engine::Selection> selection_;
  Interrupt interrupt_;
  const std::shared_ptr<engine::SearchReport> report_;
};

std::vector<compute::SparseQuery> sparse_queries(const std::byte* bytes, std::size_t count) {
  std::vector<compute::SparseQuery> queries;
  const char* at = reinterpret_cast<const char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) at = queries.emplace_back(at).end();
  return queries;
}

class VectorRange final : public RangeSearch {
 public:
  VectorRange(const Call& call, const SearchTarget& target, std::vector<std::byte> queries,
              std::size_t count, double radius, const SearchOptions& options)
      : run_(call, target, count, options),
        index_(target.column->kind == ColumnKind::kSparse ? nullptr : &index_of(target)),
        radius_(radius),
        queries_(std::move(queries)),
        query_bytes_(queries_.size() / std::max<std::size_t>(count, 1)) {
    if (index_ == nullptr) sparse_ = sparse_queries(queries_.data(), count);
  }

  compute::HitLists answer(std::size_t first, std::size_t end) override {
    compute::HitLists lists = find(first, end);
    for (std::vector<Hit>& hits : lists) {
      engine::erase_vanished(run_.view(), hits);
      interruptible_sort(hits.begin(), hits.end());
    }
    return lists;
  }

 private:
  compute::HitLists find(std::size_t first, std::size_t end) {
    if (index_ == nullptr) {
      engine::SparseRequest request = run_.sparse();
      request.range.high = radius_;
      const auto queries = std::span(sparse_).subspan(first, end - first);
      return engine::sparse_within(run_.view(), run_.selection(), request, queries);
    }
    engine::SearchRequest request = run_.dense(queries_.data() + first * query_bytes_, end - first);
    request.range.high = radius_;
    return engine::within(run_.view(), run_.selection(), *index_, request);
  }

  Run run_;
  const index::Index* const index_;  // null: the column is sparse
  const double radius_;
  const std::vector<std::byte> queries_;
  const std::size_t query_bytes_;  // of dense ones
  std::vector<compute::SparseQuery> sparse_;
};

}  // namespace

compute::HitTable run_nearest(const Call& call, const SearchTarget& target,
                              const std::byte* queries, std::size_t count, std::size_t k,
                              const SearchOptions& options) {
  Run run(call, target, count, options);
  const engine::View& view = run.view();
  if (target.column->kind == ColumnKind::kSparse) {
    return engine::nearest_sparse(view, run.selection(), run.sparse(),
                                  sparse_queries(queries, count), k);
  }
  return engine::nearest(view, run.selection(), index_of(target), run.dense(queries, count), k);
}

std::unique_ptr<RangeSearch> range_search(const Call& call, const SearchTarget& target,
                                          std::vector<std::byte> queries, std::size_t count,
                                          double radius, const SearchOptions& options) {
  return std::make_unique<VectorRange>(call, target, std::move(queries), count, radius, options);
}

}  // namespace warplite::sql
