#include "sql/table_functions/hybrid/fts5_source.h"

#include <algorithm>
#include <cmath>

#include "core/topk.h"
#include "engine/filter/content_hits.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/values.h"
#include "sql/host/older_hosts.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

// The module of "CREATE VIRTUAL TABLE name USING module(…)", which is how SQLite keeps it.
bool is_of_fts5(const std::string& sql) {
  const std::vector<Token> words = tokenize(sql);
  if (words.size() < 3 || !words[0].is_word("create") || !words[1].is_word("virtual")) return false;
  const auto module = std::find_if(words.begin() + 3, words.end(),  // a table's name has quotes
                                   [](const Token& word) { return word.is_word("using"); });
  return module != words.end() && ascii_lower(module[1].text) == "fts5";
}

class Matches {
 public:
  Matches(const engine::View& view, const engine::Selection& rows, std::size_t depth)
      : view_(view), rows_(rows), best_(depth) {}

  // Looks for the row in the view only if it ranks well enough.
  void add(RowId rowid, double rank) {
    if (!(rank <= best_.threshold())) return;
    const std::optional<engine::Location> at = view_.find(rowid);
    if (!at || !rows_.part(at->part).test(at->row) || !engine::is_there(view_, *at)) return;
    best_.push({rank, rowid, at->part, at->row});
  }
  std::vector<Hit> sorted() { return best_.list(); }

 private:
  const engine::View& view_;
  const engine::Selection& rows_;
  TopK best_;
};

// Its bound keeps differences of ranks finite.
double read_rank(sqlite3_stmt* statement) {
  constexpr double kMost = 1e300;
  const double rank = sqlite3_column_double(statement, 1);
  const int type = sqlite3_column_type(statement, 1);
  if ((type == SQLITE_FLOAT || type == SQLITE_INTEGER) && std::fabs(rank) <= kMost) return rank;
  throw Error(ErrorKind::kInvalid,
              "expected a rank that is a finite number, got " +
                  describe(column_cell(statement, 1)) + " for the rowid " +
                  std::to_string(sqlite3_column_int64(statement, 0)));
}

Statement prepare_matches(sqlite3* db, const QualifiedName& table, std::string_view query) {
  Statement statement =
      prepare(db, "SELECT rowid, rank FROM " + quoted_name(table.schema) + "." +
                      quoted_name(table.table) + "(?1)");
  bind_text(statement.get(), 1, query);
  return statement;
}

}  // namespace

Fts5Name find_fts5(sqlite3* db, const std::string& name) {
  Fts5Name found{NamedTable::kNone, parse_name(name)};
  const std::optional<std::string> schema = locate(db, found.name);
  if (!schema || !has_schema(db, *schema)) return found;
  found.name.schema = *schema;
  const Statement query = prepare(db, "SELECT sql FROM " + quoted_name(*schema) +
                                          ".sqlite_master WHERE name = ?1 COLLATE NOCASE AND "
                                          "type IN ('table', 'view')");
  bind_text(query.get(), 1, found.name.table);
  if (!step(query.get())) return found;
  found.kind = is_of_fts5(column_text(query.get(), 0)) ? NamedTable::kFts5 : NamedTable::kOther;
  return found;
}

std::vector<Hit> fts5_matches(sqlite3* db, const QualifiedName& table, std::string_view query,
                              const engine::View& view, const engine::Selection& rows,
                              std::size_t depth) {
  Matches matches(view, rows, depth);
  try {
    const Statement statement = prepare_matches(db, table, query);
    while (step(statement.get())) {
      matches.add(sqlite3_column_int64(statement.get(), 0), read_rank(statement.get()));
    }
  } catch (const Error& error) {
    throw Error(error.kind(), error.host_code(), table.table + ": " + error.what());
  }
  return matches.sorted();
}

}  // namespace warplite::sql
