#include "sql/table_functions/query_batch.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "sql/definition/sparse_values.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

// Text after white space and comments.
std::string_view skip_comments(std::string_view text) {
  for (;;) {
    const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
    if (start == text.npos) return {};
    text.remove_prefix(start);
    const bool line = text.starts_with("--");
    if (!line && !text.starts_with("/*")) return text;
    const std::size_t end = line ? text.find('\n') : text.find("*/", 2);
    if (end == text.npos) return {};
    text.remove_prefix(end + (line ? 1 : 2));
  }
}

std::string first_word(std::string_view text) {
  std::string word;
  for (char c : skip_comments(text)) {
    const char lower = static_cast<char>(c | 0x20);
    if (lower < 'a' || lower > 'z') break;
    word += lower;
  }
  return word;
}

// SQLite counts COMMIT, BEGIN, ATTACH and PRAGMA as read-only: the first word decides, too.
// A PRAGMA may act while it is prepared, so that it is refused before.
Statement prepare_queries(const Call& call, int parameter, const std::string& text,
                          const std::string& expected) {
  const std::string word = first_word(text);
  if (word == "pragma") call.refuse(parameter, expected);
  std::string_view rest;
  Statement statement = prepare(call.context().db(), text, &rest);
  while (!rest.empty()) {
    rest = skip_comments(rest);
    if (!rest.starts_with(";")) break;
    rest.remove_prefix(1);
  }
  const bool selects = word == "select" || word == "values" || word == "with";
  if (!selects || !rest.empty() || statement == nullptr ||
      !sqlite3_stmt_readonly(statement.get()) || sqlite3_column_count(statement.get()) != 2 ||
      sqlite3_bind_parameter_count(statement.get()) != 0) {
    call.refuse(parameter, expected);
  }
  return statement;
}

}  // namespace

NestedQuery::NestedQuery(const Call& call, const std::string& where)
    : depth_(call.context().nested_queries) {
  constexpr int kMostNested = 4;
  if (depth_ == kMostNested) {
    throw Error(ErrorKind::kInvalid, std::string(call.function()) + ": " + where +
                                         ": expected at most " + std::to_string(kMostNested) +
                                         " levels of query_sql and of filters");
  }
  ++depth_;
}

void each_query(const Call& call, int parameter, const std::string& query,
                const std::function<void(const Cell& id, sqlite3_value* query)>& take) {
  const std::string expected =
      "one read-only SELECT of two columns, (id, " + query + "), without parameters";
  const std::string text = call.text(parameter, expected.c_str());
  const NestedQuery nested(call, call.parameter(parameter));
  const Statement statement = prepare_queries(call, parameter, text, expected);
  for (std::int64_t row = 1; step(statement.get()); ++row) {
    sqlite3_value* value = sqlite3_column_value(statement.get(), 1);
    if (sqlite3_value_type(value) == SQLITE_NULL) continue;
    try {
      take(column_cell(statement.get(), 0), value);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalid) throw;
      throw Error(ErrorKind::kInvalid,
                  std::string(call.function()) + ": query_sql: row " + std::to_string(row) +
                      ", whose id is " + describe(column_cell(statement.get(), 0)) + ": " +
                      error.what());
    }
  }
}

QueryBatch read_queries(const Call& call, int parameter, const SearchTarget& target) {
  QueryBatch batch;
  each_query(call, parameter, "vector", [&](const Cell& id, sqlite3_value* value) {
    const VectorInput vector = column_vector(value, *target.column, target.place());
    batch.vectors.insert(batch.vectors.end(), vector.data, vector.data + vector.size);
    batch.ids.emplace_back(id);
  });
  return batch;
}

}  // namespace warplite::sql
