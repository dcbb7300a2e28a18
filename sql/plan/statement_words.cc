#include "sql/plan/statement_words.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

using Words = std::set<std::string>;  // in lower case, with what is quoted

constexpr const char* kUnionAll = "union all";

// UNION ALL counts as one word, which is not UNION.
void add_words(std::string_view sql, Words& words) {
  std::string last;
  for (const Token& token : tokenize(sql)) {
    std::string word = ascii_lower(token.text);
    if (last == "union") words.insert(word == "all" ? kUnionAll : last);
    if (word != "union") words.insert(word);
    last = std::move(word);
  }
}

// Statements of the connection that run: one of them is asked about.
std::vector<sqlite3_stmt*> running_statements(sqlite3* db) {
  std::vector<sqlite3_stmt*> running;
  for (sqlite3_stmt* statement = sqlite3_next_stmt(db, nullptr); statement != nullptr;
       statement = sqlite3_next_stmt(db, statement)) {
    if (sqlite3_stmt_busy(statement)) running.push_back(statement);
  }
  return running;
}

// A view or a trigger: what it is made by is part of a statement that has its `name`.
struct Part {
  std::string name, sql;
  bool trigger = false;
};

std::vector<Part> parts_of_schemas(sqlite3* db) {
  std::vector<Part> parts;
  const Statement schemas = prepare(db, "PRAGMA database_list");
  while (step(schemas.get())) {
    const Statement rows =
        prepare(db, "SELECT type, tbl_name, sql FROM " + quoted_name(column_text(schemas.get(), 1)) +
                        ".sqlite_master WHERE type IN ('view', 'trigger')");
    while (step(rows.get())) {
      parts.push_back({ascii_lower(column_text(rows.get(), 1)), column_text(rows.get(), 2),
                       column_text(rows.get(), 0) == "trigger"});
    }
  }
  return parts;
}

// Adds the words of views and triggers, and of those that these name, and so on.
void add_parts(std::vector<Part> parts, Words& words) {
  const auto is_part = [&](const Part& part) {
    const bool writes = words.contains("insert") || words.contains("update") ||
                        words.contains("delete") || words.contains("replace");
    return words.contains(part.name) && (writes || !part.trigger);
  };
  for (bool grew = true; grew;) {
    grew = false;
    for (Part& part : parts) {
      if (part.sql.empty() || !is_part(part)) continue;
      add_words(std::exchange(part.sql, {}), words);
      grew = true;
    }
  }
}

Words statement_words(sqlite3* db, const std::vector<sqlite3_stmt*>& statements) {
  Words words;
  for (sqlite3_stmt* statement : statements) {
    if (const char* sql = sqlite3_sql(statement); sql != nullptr) add_words(sql, words);
  }
  add_parts(parts_of_schemas(db), words);
  return words;
}

bool compares_neighbours(const Words& words) {
  static constexpr const char* kCompare[] = {"over", "union", "intersect", "except", "group", "distinct"};
  return std::ranges::any_of(kCompare, [&](const char* word) { return words.contains(word); });
}

}  // namespace

void check_unsure_term(sqlite3* db, const TableDefinition& table, const std::string& column) {
  const Words words = statement_words(db, running_statements(db));
  // SQLite makes an IN of `a = 1 OR a = 2`.
  if (!words.contains("in") && !words.contains("or")) return;
  throw Error(ErrorKind::kInvalid,
              table.table + "." + column + ": SQLite " + sqlite3_libversion() +
                  " does not tell a search with k what IN or OR leave of the rows, as 3.38 does; leave k "
                  "out, as in ORDER BY distance LIMIT 10, or, where another table is compared, write +" +
                  column);
}

// A view that has changed since has the statement planned again. To read schemas takes as long as a short
// search.
bool needs_whole_order(sqlite3* db, SearchMemo& memo) try {
  const std::vector<sqlite3_stmt*> running = running_statements(db);
  if (running.size() == 1 && memo.ordered == running[0]) return memo.whole_order;
  const Words words = statement_words(db, running);
  memo.ordered = running.size() == 1 ? running[0] : nullptr;
  memo.whole_order = !words.contains("limit") || compares_neighbours(words);
  return memo.whole_order;
} catch (const Error&) {
  return true;  // schemas cannot be read: an authorizer forbids it, or one is locked
}

}  // namespace warplite::sql
