// Plan to idxStr and back.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/host/statement.h"
#include "sql/plan/plan.h"

namespace warplite::sql {
namespace {

using engine::Comparison;

constexpr std::string_view kMatchCount = "match_count(scan)";
constexpr std::string_view kOverloaded = " overloaded";

struct OperatorText {
  Comparison op;
  std::string_view text;
};
// If one operator's text begins another's, the longer one comes first.
constexpr OperatorText kOperators[] = {
    {Comparison::kNotEqual, "<>"},          {Comparison::kLessEqual, "<="},
    {Comparison::kLess, "<"},               {Comparison::kGreaterEqual, ">="},
    {Comparison::kGreater, ">"},            {Comparison::kEqual, "="},
    {Comparison::kIsNotNull, " IS NOT NULL"}, {Comparison::kIsNot, " IS NOT"},
    {Comparison::kIsNull, " IS NULL"},      {Comparison::kIs, " IS"},
    {Comparison::kIn, " IN"},               {Comparison::kLike, " LIKE"},
    {Comparison::kGlob, " GLOB"},
};

struct CollationText {
  Collation collation;
  std::string_view text;
};
constexpr CollationText kCollations[] = {{Collation::kNoCase, " COLLATE NOCASE"},
                                         {Collation::kRTrim, " COLLATE RTRIM"}};

std::string_view operator_text(Comparison op) {
  for (const OperatorText& row : kOperators) {
    if (row.op == op) return row.text;
  }
  return {};
}

bool is_identifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  });
}

// A bare `rowid` means the rowid itself; a column of that name is quoted.
std::string name_text(const TableDefinition& table, int column) {
  if (column == engine::Predicate::kRowId) return "rowid";
  const std::string& name = table.columns[static_cast<std::size_t>(column)].name;
  return is_identifier(name) && ascii_lower(name) != "rowid" ? name : quoted_name(name);
}

class Reader {
 public:
  Reader(std::string_view text, const TableDefinition& table) : text_(text), table_(table) {}

  bool accept(std::string_view prefix) {
    if (!text_.starts_with(prefix)) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }
  void need(bool ok) const {
    if (!ok) throw Error(ErrorKind::kInvalid, table_.table + ": cannot read the plan");
  }

  int column() {
    if (text_.starts_with('"')) return named(quoted());
    const auto end = std::find_if(text_.begin(), text_.end(),
                                  [](char c) { return !is_identifier(std::string_view(&c, 1)) &&
                                                      !(c >= '0' && c <= '9'); });
    const std::string name(text_.begin(), end);
    text_.remove_prefix(name.size());
    return name == "rowid" ? engine::Predicate::kRowId : named(name);
  }

  Comparison comparison() {
    for (const OperatorText& row : kOperators) {
      if (accept(row.text)) return row.op;
    }
    need(false);
    return Comparison::kEqual;
  }

  Plan::Term term() {
    Plan::Term term;
    term.column = column();
    term.op = comparison();
    for (const CollationText& row : kCollations) {
      if (accept(row.text)) term.collation = row.collation;
    }
    term.overloaded = accept(kOverloaded);
    return term;
  }

  std::string rest() { return std::string(std::exchange(text_, {})); }
  void skip_to(char c) { text_.remove_prefix(std::min(text_.find(c), text_.size())); }
  bool at_end() const { return text_.empty(); }

 private:
  std::string quoted() {
    std::string name;
    for (text_.remove_prefix(1); !text_.empty(); text_.remove_prefix(1)) {
      if (text_[0] == '"') {
        text_.remove_prefix(1);
        if (!text_.starts_with('"')) return name;
      }
      name += text_[0];
    }
    return name;
  }

  int named(const std::string& name) const {
    const ColumnDefinition* found = table_.find(name);
    need(found != nullptr);
    return static_cast<int>(found - table_.columns.data());
  }

  std::string_view text_;
  const TableDefinition& table_;
};

}  // namespace

std::string Plan::text(const TableDefinition& table) const {
  if (access == Access::kRowId) return "rowid=";
  if (access == Access::kRefused) return "refused: " + refusal;
  if (access == Access::kKey) return "key(" + name_text(table, column) + ")";
  std::string result = "scan";
  if (searches()) {
    const ColumnDefinition& searched = table.columns[static_cast<std::size_t>(column)];
    result = (access == Access::kKnn ? "knn(" : "range(") + name_text(table, column) + ' ' +
             searched.index_name() + ')';
  }
  if (access == Access::kCount) result = kMatchCount;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    result += (i == 0 ? " filter(" : ",") + name_text(table, filters[i].column);
    result += operator_text(filters[i].op);
    for (const CollationText& row : kCollations) {
      if (row.collation == filters[i].collation) result += row.text;
    }
    if (filters[i].overloaded) result += kOverloaded;
  }
  if (!filters.empty()) result += ')';
  for (Comparison bound : bounds) result.append(" distance").append(operator_text(bound));
  for (Comparison bound : match_bounds) result.append(" matches").append(operator_text(bound));
  if (k) result += " k";
  if (nprobe) result += " nprobe";
  if (recall) result += " recall";
  if (limit) result += " limit";
  if (offset) result += " offset";
  if (ordered) result += " ordered";
  if (!unsure.empty()) result += " unsure: " + unsure;
  return result;
}

Plan Plan::parse(std::string_view text, const TableDefinition& table) {
  Plan plan;
  Reader reader(text, table);
  if (reader.accept("rowid=")) {
    plan.access = Access::kRowId;
  } else if (reader.accept("refused: ")) {
    plan.access = Access::kRefused;
    plan.refusal = reader.rest();
  } else if (reader.accept("key(")) {
    plan.access = Access::kKey;
    plan.column = reader.column();
    reader.need(reader.accept(")"));
  } else if (reader.accept(kMatchCount)) {
    plan.access = Access::kCount;
  } else if (!reader.accept("scan")) {
    plan.access = reader.accept("range(") ? Access::kRange : Access::kKnn;
    reader.need(plan.access == Access::kRange || reader.accept("knn("));
    plan.column = reader.column();
    reader.skip_to(')');
    reader.need(plan.column >= 0 && reader.accept(")"));
  }
  if (reader.accept(" filter(")) {
    do plan.filters.push_back(reader.term());
    while (reader.accept(","));
    reader.need(reader.accept(")"));
  }
  while (reader.accept(" distance")) plan.bounds.push_back(reader.comparison());
  while (reader.accept(" matches")) plan.match_bounds.push_back(reader.comparison());
  plan.k = reader.accept(" k");
  plan.nprobe = reader.accept(" nprobe");
  plan.recall = reader.accept(" recall");
  plan.limit = reader.accept(" limit");
  plan.offset = reader.accept(" offset");
  plan.ordered = reader.accept(" ordered");
  if (reader.accept(" unsure: ")) plan.unsure = reader.rest();
  reader.need(reader.at_end());
  return plan;
}

}  // namespace warplite::sql
