#include "sql/table_functions/hybrid/fts5_source.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/topk.h"
#include "engine/filter/content_hits.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/values.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
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

  bool takes_part(RowId rowid) const { return selected(rowid).has_value(); }
  // Looks for the row in the view only if it ranks well enough.
  void add(RowId rowid, double rank) {
    if (!(rank <= best_.threshold())) return;
    const std::optional<engine::Location> at = selected(rowid);
    if (!at || !engine::is_there(view_, *at)) return;
    best_.push({rank, rowid, at->part, at->row});
  }
  std::vector<Hit> sorted() { return best_.list(); }

 private:
  std::optional<engine::Location> selected(RowId rowid) const {
    const std::optional<engine::Location> at = view_.find(rowid);
    return at && rows_.part(at->part).test(at->row) ? at : std::nullopt;
  }

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

constexpr char kTakesPart[] = "warp_takes_part";

// FTS5 takes a microsecond to rank a row, which a filter may leave out: then its rank is not asked for, and a BLOB
// stands in its place, which no rank is.
Statement prepare_matches(sqlite3* db, const QualifiedName& table, std::string_view query, bool filtered) {
  const std::string rank =
      filtered ? "CASE WHEN " + std::string(kTakesPart) + "(rowid) THEN rank ELSE x'' END" : "rank";
  Statement statement = prepare(db, "SELECT rowid, " + rank + " FROM " + quoted_name(table.schema) +
                                        "." + quoted_name(table.table) + "(?1)");
  bind_text(statement.get(), 1, query);
  return statement;
}

void takes_part(sqlite3_context* context, int, sqlite3_value** arguments) {
  guarded(context, [&] {
    const auto* asked = static_cast<const Context*>(sqlite3_user_data(context))->takes_part;
    if (asked == nullptr) {
      throw Error(ErrorKind::kInvalid, std::string(kTakesPart) + ": serves warp_hybrid_search alone");
    }
    sqlite3_result_int(context, (*asked)(sqlite3_value_int64(arguments[0])) ? 1 : 0);
  });
}

// Has the function answer while it lives.
class Asking {
 public:
  Asking(Context& context, std::function<bool(RowId)> test)
      : context_(context), before_(context.takes_part), test_(std::move(test)) {
    context_.takes_part = &test_;
  }
  ~Asking() { context_.takes_part = before_; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  Context& context_;
  const std::function<bool(RowId)>* const before_;
  const std::function<bool(RowId)> test_;
};

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

std::vector<Hit> fts5_matches(Context& context, const QualifiedName& table, std::string_view query,
                              const engine::View& view, const engine::Selection& rows,
                              std::size_t depth) {
  Matches matches(view, rows, depth);
  const Asking asking(context, [&](RowId rowid) { return matches.takes_part(rowid); });
  try {
    const Statement statement = prepare_matches(context.db(), table, query, !rows.everything());
    while (step(statement.get())) {
      if (sqlite3_column_type(statement.get(), 1) == SQLITE_BLOB && !rows.everything()) continue;
      matches.add(sqlite3_column_int64(statement.get(), 0), read_rank(statement.get()));
    }
  } catch (const Error& error) {
    throw Error(error.kind(), error.host_code(), table.table + ": " + error.what());
  }
  return matches.sorted();
}

int register_fts5_source(sqlite3* db, Context* context) {
  return create_function<takes_part>(db, kTakesPart, 1, SQLITE_DIRECTONLY, context);
}

}  // namespace warplite::sql
