#include "sql/definition/match_query.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/process/interruption.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/values.h"
#include "sql/host/json.h"

namespace warplite::sql {
namespace {

using engine::Comparison;
using engine::Filter;
using engine::Predicate;

constexpr std::int64_t kMostWeight = 1000000;
constexpr const char* kNumbersExpected =
    "a number, a range [low, high], several of them as [[1,2],[5,9]], or null";
constexpr const char* kTextsExpected = "a text, a list of texts, or null";

std::string shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  const std::string_view text = value.source();
  return text.size() <= kShown ? std::string(text)
                               : "JSON of " + std::to_string(text.size()) + " bytes";
}

// Of two numbers.
bool is_less(const Cell& a, const Cell& b) {
  const bool integer = a.kind == CellKind::kInteger;
  if (a.kind == b.kind) return integer ? a.integer < b.integer : a.real < b.real;
  return integer ? compare_exactly(b.real, a.integer) > 0 : compare_exactly(a.real, b.integer) < 0;
}

}  // namespace

class QueryParser {
 public:
  explicit QueryParser(const TableDefinition& table) : table_(table) {}

  engine::RelationalQuery parse(const Cell& text);

 private:
  // A Column is what one key of the query names.
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
  static void add_number(const Column& column, const Json& value, engine::NumberRanges& ranges);
  static void add_range(const Column& column, const Json& value, engine::NumberRanges& ranges);
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
  for (const auto& [name, value] : json.object()) {
    const Column& named = column(name);
    if (!columns.insert(named.column).second) {
      fail("column " + name + " comes twice in a query of match counts");
    }
    query.push_back(item(named, value));
  }
  return query;
}

Json QueryParser::parse_json(const Cell& text) const {
  const std::string wanted =
      "match counts need a JSON object of one item or more, such as {\"year\":[2015,2020], "
      "\"city\":\"Oslo\"}; got ";
  if (text.kind != CellKind::kText) fail(wanted + describe(text));
  try {
    Json json = Json::parse(text.bytes);
    if (!json.is_object() || json.object().empty()) fail(wanted + shown(json));
    return json;
  } catch (const JsonError& error) {
    fail(wanted + describe(text) + " (" + error.what() + ")");
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
      if (column.is_vector() || column.kind == ColumnKind::kAux) continue;
      known += (known.empty() ? "" : ", ") + column.name;
    }
    fail("there is no column \"" + name + "\" to count matches of; there are " + known);
  }
  const std::string place = table_.table + "." + found->name;
  switch (found->kind) {
    case ColumnKind::kVector:
    case ColumnKind::kSparse:
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
  const Json* given = value.find("value");
  const bool known = std::ranges::all_of(value.object(), [](const Json::Member& member) {
    return member.key == "value" || member.key == "weight";
  });
  if (given == nullptr || given->is_object() || !known) {
    expected(column, "a value, or one with its weight as {\"value\":…, \"weight\":3}", value);
  }
  item.any_of = alternatives(column, *given);
  if (const Json* given_weight = value.find("weight")) item.weight = weight(column, *given_weight);
  return item;
}

std::uint32_t QueryParser::weight(const Column& column, const Json& value) {
  if (value.is_integer() && value.integer() >= 1 && value.integer() <= kMostWeight) {
    return static_cast<std::uint32_t>(value.integer());
  }
  expected(column, "as weight an integer from 1 to " + std::to_string(kMostWeight), value);
}

std::vector<Filter> QueryParser::alternatives(const Column& column, const Json& value) {
  if (value.is_null()) return {{predicate(column, Comparison::kIsNull)}};
  return column.type == PlainType::kText ? texts(column, value) : numbers(column, value);
}

std::vector<Filter> QueryParser::texts(const Column& column, const Json& value) {
  if (value.is_text()) {
    return {{predicate(column, Comparison::kEqual, Cell::text(value.text()))}};
  }
  if (!value.is_list() || value.list().empty()) expected(column, kTextsExpected, value);
  bool null = false;
  Predicate wanted = predicate(column, Comparison::kIn);
  SparsePoll poll;
  for (const Json& one : value.list()) {
    poll();
    if (!one.is_text() && !one.is_null()) expected(column, kTextsExpected, value);
    null = null || one.is_null();
    if (one.is_null()) continue;
    wanted.operands.emplace_back(Cell::text(one.text()));
  }
  std::vector<Filter> any_of;
  if (!wanted.operands.empty()) any_of.push_back({std::move(wanted)});
  if (null) any_of.push_back({predicate(column, Comparison::kIsNull)});
  return any_of;
}

// A list with a list in it is one of alternatives; any other is a range.
std::vector<Filter> QueryParser::numbers(const Column& column, const Json& value) {
  const bool several = value.is_list() && std::ranges::any_of(value.list(), &Json::is_list);
  auto ranges = std::make_shared<engine::NumberRanges>(column.type);
  bool null = false;
  if (!several) {
    add_number(column, value, *ranges);
  } else {
    SparsePoll poll;
    for (const Json& one : value.list()) {
      poll();
      null = null || one.is_null();
      if (!one.is_null()) add_number(column, one, *ranges);
    }
  }
  ranges->merge();
  Predicate within = predicate(column, Comparison::kWithin);
  within.ranges = std::move(ranges);
  std::vector<Filter> any_of{{std::move(within)}};
  if (null) any_of.push_back({predicate(column, Comparison::kIsNull)});
  return any_of;
}

void QueryParser::add_number(const Column& column, const Json& value,
                             engine::NumberRanges& ranges) {
  if (value.is_list()) return add_range(column, value, ranges);
  const Cell equal = number(column, value);
  ranges.add(equal, equal);
}

void QueryParser::add_range(const Column& column, const Json& value,
                            engine::NumberRanges& ranges) {
  const Json::List& ends = value.list();
  if (ends.size() != 2) {
    expected(column, std::string(kNumbersExpected) + " (a range has two ends)", value);
  }
  const Cell low = ends[0].is_null() ? Cell::null() : number(column, ends[0]);
  const Cell high = ends[1].is_null() ? Cell::null() : number(column, ends[1]);
  if (!low.is_null() && !high.is_null() && is_less(high, low)) {
    expected(column, "a range with its lower end first", value);
  }
  ranges.add(low, high);
}

Cell QueryParser::number(const Column& column, const Json& value) {
  if (value.is_boolean() && column.type == PlainType::kBoolean) {
    return Cell::of(std::int64_t{value.boolean()});
  }
  if (!value.is_number()) expected(column, kNumbersExpected, value);
  return value.number();
}

MatchQueryReader::MatchQueryReader(const TableDefinition& table)
    : parser_(std::make_unique<QueryParser>(table)) {}

MatchQueryReader::~MatchQueryReader() = default;

engine::RelationalQuery MatchQueryReader::read(const Cell& text) { return parser_->parse(text); }

}  // namespace warplite::sql
