#include "sql/match_query.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "sql/argument_lexer.h"
#include "sql/values.h"

namespace warplite::sql {
namespace {

using engine::Comparison;
using engine::Filter;
using engine::Predicate;
using Json = nlohmann::json;

constexpr std::int64_t kMostWeight = 1000000;
constexpr const char* kNumbersExpected =
    "a number, a range [low, high], several of them as [[1,2],[5,9]], or null";
constexpr const char* kTextsExpected = "a text, a list of texts, or null";

std::string shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kShown ? text : "JSON of " + std::to_string(text.size()) + " bytes";
}

// The library's own words without its error number.
std::string reason(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(end == text.npos ? text : text.substr(end + 2));
}

bool is_less(const Cell& a, const Cell& b) {
  const auto value = [](const Cell& cell) {
    return cell.kind == CellKind::kInteger ? static_cast<long double>(cell.integer)
                                           : static_cast<long double>(cell.real);
  };
  return value(a) < value(b);
}

}  // namespace

class QueryParser {
 public:
  explicit QueryParser(const TableDefinition& table) : table_(table) {}

  engine::RelationalQuery parse(const Cell& text);

 private:
  // What one key of the query names.
  struct Column {
    std::string place;  // for messages
    int column;         // of predicates
    PlainType type;
  };

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::kInvalid, table_.table + ": " + problem);
  }
  [[noreturn]] static void expected(const Column& column, const std::string& what,
                                    const Json& came) {
    throw Error(ErrorKind::kInvalid,
                column.place + ": expected " + what + "; got " + shown(came));
  }

  Json parse_json(const Cell& text) const;
  const Column& column(const std::string& name);
  Column find_column(const std::string& name) const;
  engine::RelationalItem item(const Column& column, const Json& value) const;
  static std::uint32_t weight(const Column& column, const Json& value);
  static std::vector<Filter> alternatives(const Column& column, const Json& value);
  static std::vector<Filter> texts(const Column& column, const Json& value);
  static std::vector<Filter> numbers(const Column& column, const Json& value);
  static Filter number_or_range(const Column& column, const Json& value);
  static Filter range(const Column& column, const Json& value);
  static Cell number(const Column& column, const Json& value);

  static Predicate predicate(const Column& column, Comparison op) {
    Predicate result;
    result.column = column.column;
    result.op = op;
    return result;
  }
  static Predicate predicate(const Column& column, Comparison op, const Cell& operand) {
    Predicate result = predicate(column, op);
    result.operands.emplace_back(operand);
    return result;
  }

  const TableDefinition& table_;
  std::unordered_map<std::string, Column> columns_;  // by the name that a query gave
};

engine::RelationalQuery QueryParser::parse(const Cell& text) {
  const Json json = parse_json(text);
  engine::RelationalQuery query;
  std::set<int> columns;
  for (const auto& [name, value] : json.items()) {
    const Column& named = column(name);
    if (!columns.insert(named.column).second) {
      fail("column " + name + " comes twice in a query of match counts");
    }
    query.push_back(item(named, value));
  }
  return query;
}

// The library keeps the last of equal keys; here they are a mistake.
Json QueryParser::parse_json(const Cell& text) const {
  const std::string wanted =
      "match counts need a JSON object of one item or more, such as {\"year\":[2015,2020], "
      "\"city\":\"Oslo\"}; got ";
  if (text.kind != CellKind::kText) fail(wanted + describe(text));
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event != Json::parse_event_t::key) return true;
    if (!keys.back().insert(parsed.get<std::string>()).second) {
      fail("the key " + shown(parsed) + " comes twice in a query of match counts");
    }
    return true;
  };
  try {
    Json json = Json::parse(text.bytes, check);
    if (!json.is_object() || json.empty()) fail(wanted + shown(json));
    return json;
  } catch (const Json::exception& error) {
    fail(wanted + describe(text) + " (" + reason(error) + ")");
  }
}

const QueryParser::Column& QueryParser::column(const std::string& name) {
  const auto known = columns_.find(name);
  if (known != columns_.end()) return known->second;
  return columns_.emplace(name, find_column(name)).first->second;
}

QueryParser::Column QueryParser::find_column(const std::string& name) const {
  const ColumnDefinition* found = table_.find(name);
  if (found == nullptr && ascii_lower(name) == "rowid") {
    return {table_.table + ".rowid", Predicate::kRowId, PlainType::kInteger};
  }
  if (found == nullptr) {
    std::string known = table_.rowid_column < 0 ? "rowid" : "";
    for (const ColumnDefinition& column : table_.columns) {
      if (column.kind == ColumnKind::kVector || column.kind == ColumnKind::kAux) continue;
      known += (known.empty() ? "" : ", ") + column.name;
    }
    fail("there is no column \"" + name + "\" to count matches of; there are " + known);
  }
  const std::string place = table_.table + "." + found->name;
  switch (found->kind) {
    case ColumnKind::kVector:
    case ColumnKind::kAux:
      throw Error(ErrorKind::kInvalid, place + ": match counts need a plain column, this one is " +
                                           (found->kind == ColumnKind::kAux ? "a +column"
                                                                            : "a vector column"));
    case ColumnKind::kRowId: return {place, Predicate::kRowId, PlainType::kInteger};
    default: return {place, found->slot, found->plain};
  }
}

engine::RelationalItem QueryParser::item(const Column& column, const Json& value) const {
  engine::RelationalItem item;
  if (!value.is_object()) {
    item.any_of = alternatives(column, value);
    return item;
  }
  const auto given = value.find("value");
  const bool known = std::all_of(value.items().begin(), value.items().end(), [](const auto& entry) {
    return entry.key() == "value" || entry.key() == "weight";
  });
  if (given == value.end() || given->is_object() || !known) {
    expected(column, "a value, or one with its weight as {\"value\":…, \"weight\":3}", value);
  }
  item.any_of = alternatives(column, *given);
  if (value.contains("weight")) item.weight = weight(column, value["weight"]);
  return item;
}

std::uint32_t QueryParser::weight(const Column& column, const Json& value) {
  if (value.is_number_unsigned()) {
    const std::uint64_t weight = value.get<std::uint64_t>();
    if (weight >= 1 && weight <= kMostWeight) return static_cast<std::uint32_t>(weight);
  }
  expected(column, "as weight an integer from 1 to " + std::to_string(kMostWeight), value);
}

std::vector<Filter> QueryParser::alternatives(const Column& column, const Json& value) {
  if (value.is_null()) return {{predicate(column, Comparison::kIsNull)}};
  return column.type == PlainType::kText ? texts(column, value) : numbers(column, value);
}

std::vector<Filter> QueryParser::texts(const Column& column, const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return {{predicate(column, Comparison::kEqual, Cell::text(text))}};
  }
  if (!value.is_array() || value.empty()) expected(column, kTextsExpected, value);
  bool null = false;
  Predicate wanted = predicate(column, Comparison::kIn);
  for (const Json& one : value) {
    if (!one.is_string() && !one.is_null()) expected(column, kTextsExpected, value);
    null = null || one.is_null();
    if (one.is_null()) continue;
    wanted.operands.emplace_back(Cell::text(one.get_ref<const std::string&>()));
  }
  std::vector<Filter> any_of;
  if (!wanted.operands.empty()) any_of.push_back({std::move(wanted)});
  if (null) any_of.push_back({predicate(column, Comparison::kIsNull)});
  return any_of;
}

// A list with a list in it is one of alternatives; any other is a range.
std::vector<Filter> QueryParser::numbers(const Column& column, const Json& value) {
  const auto is_list = [](const Json& one) { return one.is_array(); };
  const bool several = value.is_array() && std::any_of(value.begin(), value.end(), is_list);
  if (!several) return {number_or_range(column, value)};
  std::vector<Filter> any_of;
  for (const Json& one : value) {
    any_of.push_back(one.is_null() ? Filter{predicate(column, Comparison::kIsNull)}
                                   : number_or_range(column, one));
  }
  return any_of;
}

Filter QueryParser::number_or_range(const Column& column, const Json& value) {
  if (value.is_array()) return range(column, value);
  return {predicate(column, Comparison::kEqual, number(column, value))};
}

Filter QueryParser::range(const Column& column, const Json& value) {
  if (value.size() != 2) {
    expected(column, std::string(kNumbersExpected) + " (a range has two ends)", value);
  }
  Filter filter;
  if (!value[0].is_null()) {
    filter.push_back(predicate(column, Comparison::kGreaterEqual, number(column, value[0])));
  }
  if (!value[1].is_null()) {
    filter.push_back(predicate(column, Comparison::kLessEqual, number(column, value[1])));
  }
  if (filter.size() == 2 && is_less(filter[1].operands[0].cell(), filter[0].operands[0].cell())) {
    expected(column, "a range with its lower end first", value);
  }
  if (filter.empty()) filter.push_back(predicate(column, Comparison::kIsNotNull));
  return filter;
}

Cell QueryParser::number(const Column& column, const Json& value) {
  if (value.is_boolean() && column.type == PlainType::kBoolean) {
    return Cell::of(std::int64_t{value.get<bool>()});
  }
  if (!value.is_number()) expected(column, kNumbersExpected, value);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(
                                                       std::numeric_limits<std::int64_t>::max()));
  return fits ? Cell::of(value.get<std::int64_t>()) : Cell::of(value.get<double>());
}

MatchQueryReader::MatchQueryReader(const TableDefinition& table)
    : parser_(std::make_unique<QueryParser>(table)) {}

MatchQueryReader::~MatchQueryReader() = default;

engine::RelationalQuery MatchQueryReader::read(const Cell& text) { return parser_->parse(text); }

}  // namespace warplite::sql
