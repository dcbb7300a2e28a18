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

// Of all statements of the connection that run: one of them is asked about.
Words running_words(sqlite3* db) {
  Words words;
  for (sqlite3_stmt* statement = sqlite3_next_stmt(db, nullptr); statement != nullptr;
       statement = sqlite3_next_stmt(db, statement)) {
    const char* sql = sqlite3_stmt_busy(statement) ? sqlite3_sql(statement) : nullptr;
    if (sql != nullptr) add_words(sql, words);
  }
  return words;
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

Words statement_words(sqlite3* db) {
  Words words = running_words(db);
  add_parts(parts_of_schemas(db), words);
  return words;
}

}  // namespace

void check_unsure_term(sqlite3* db, const TableDefinition& table, const std::string& column) {
  const Words words = statement_words(db);
  // SQLite makes an IN of `a = 1 OR a = 2`.
  if (!words.contains("in") && !words.contains("or")) return;
  throw Error(ErrorKind::kInvalid,
              table.table + "." + column + ": SQLite " + sqlite3_libversion() +
                  " does not tell a search with k what IN or OR leave of the rows, as 3.38 does; leave k "
                  "out, as in ORDER BY distance LIMIT 10, or, where another table is compared, write +" +
                  column);
}

bool needs_whole_order(sqlite3* db) {
  const Words words = statement_words(db);
  static constexpr const char* kCompareNeighbours[] = {"over",   "union", "intersect",
                                                       "except", "group", "distinct"};
  return !words.contains("limit") ||
         std::ranges::any_of(kCompareNeighbours, [&](const char* word) { return words.contains(word); });
}

}  // namespace warplite::sql
