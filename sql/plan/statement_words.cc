#include "sql/plan/statement_words.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

constexpr const char* kUnionAll = "union all";

// Of a statement, with the views and triggers that belong to it.
struct Words {
  std::set<std::string> all;  // in lower case, with what is quoted; UNION ALL is one, which is not UNION
  bool limit = false;         // of the whole, or of a SELECT with a MATCH
  std::size_t limits = 0;     // of any kind
  std::uint64_t rows = 0;     // that the last of them admits, with its OFFSET; 0: it does not say in numbers

  bool contains(const std::string& word) const { return all.contains(word); }
};

// What follows a number without a blank is a word to SQLite, as in ?1UNION.
std::string word_of(const Token& token) {
  std::string word = ascii_lower(token.text);
  if (token.kind == Token::Kind::kNumber) word.erase(0, word.find_first_not_of("0123456789."));
  return word;
}

// Reads what comes behind a LIMIT: `10`, `10 OFFSET 20` or `20, 10`.
class LimitReader {
 public:
  explicit LimitReader(Words& words) : words_(words) {}

  void take(const Token& token) {
    if (token.is_word("limit")) {
      reads_ = true;
      ++words_.limits;
      words_.rows = 0;
    } else if (reads_ && token.kind == Token::Kind::kNumber) {
      constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
      std::uint64_t number = 0;
      const char* const end = token.text.data() + token.text.size();
      const auto [at, error] = std::from_chars(token.text.data(), end, number);
      reads_ = error == std::errc() && at == end && number < kMost;
      words_.rows = reads_ ? words_.rows + number : 0;
    } else if (reads_ && !token.is(',') && !token.is_word("offset")) {
      reads_ = false;
      if (is_value(token)) words_.rows = 0;
    }
  }

 private:
  // A parameter, or a part of an expression.
  static bool is_value(const Token& token) {
    return token.kind == Token::Kind::kSymbol && !token.is(')') && !token.is(';');
  }

  Words& words_;
  bool reads_ = false;
};

void add_words(std::string_view sql, Words& words) {
  std::string last;
  LimitReader limit(words);
  std::vector<bool> matches{false};  // within each parenthesis that is open
  for (const Token& token : tokenize(sql)) {
    std::string word = word_of(token);
    limit.take(token);
    if (last == "union") words.all.insert(word == "all" ? kUnionAll : last);
    if (word != "union") words.all.insert(word);
    if (token.is('(')) matches.push_back(false);
    if (token.is(')') && matches.size() > 1) matches.pop_back();
    if (token.is_word("match")) matches.back() = true;
    if (token.is_word("limit") && (matches.size() == 1 || matches.back())) words.limit = true;
    if (last == "limit" && token.text.starts_with('-')) words.limit = false;  // -1: there is none
    last = std::move(word);
  }
}

// One of them is asked about.
std::vector<sqlite3_stmt*> running_statements(sqlite3* db) {
  std::vector<sqlite3_stmt*> running;
  for (sqlite3_stmt* statement = sqlite3_next_stmt(db, nullptr); statement != nullptr;
       statement = sqlite3_next_stmt(db, statement)) {
    if (sqlite3_stmt_busy(statement)) running.push_back(statement);
  }
  return running;
}

// A view or a trigger: what it is made by is part of a statement that has the view's name, or that writes.
struct Part {
  std::string name, sql;
  bool trigger = false;
};

// That may have to do with a table of this schema: others are not read, which may be locked.
std::vector<Part> parts_of_schemas(sqlite3* db, const std::string& schema) {
  std::vector<Part> parts;
  for (const std::string& one : std::set<std::string>{schema, "temp"}) {
    const Statement rows = prepare(db, "SELECT type, tbl_name, sql FROM " + quoted_name(one) +
                                           ".sqlite_master WHERE type IN ('view', 'trigger')");
    while (step(rows.get())) {
      parts.push_back({ascii_lower(column_text(rows.get(), 1)), column_text(rows.get(), 2),
                       column_text(rows.get(), 0) == "trigger"});
    }
  }
  return parts;
}

// Adds the words of views and triggers, and of those that these name, and so on. Which triggers run is
// not to be seen: a foreign key may lead to them.
void add_parts(std::vector<Part> parts, Words& words) {
  const auto is_part = [&](const Part& part) {
    if (!part.trigger) return words.contains(part.name);
    return words.contains("insert") || words.contains("update") || words.contains("delete") ||
           words.contains("replace");
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

// Of those that run and may search the table.
std::vector<Words> words_of(sqlite3* db, const std::vector<sqlite3_stmt*>& running,
                            const TableDefinition& table) {
  const std::vector<Part> parts = parts_of_schemas(db, table.schema);
  std::vector<Words> statements;
  for (sqlite3_stmt* statement : running) {
    Words words;
    if (const char* sql = sqlite3_sql(statement); sql != nullptr) add_words(sql, words);
    add_parts(parts, words);
    if (words.contains(ascii_lower(table.table))) statements.push_back(std::move(words));
  }
  return statements;
}

// Of the statement's only LIMIT; 0: it has none, or more, or does not say in numbers.
std::uint64_t limit_of(sqlite3_stmt* statement) {
  Words words;
  if (const char* sql = sqlite3_sql(statement); sql != nullptr) add_words(sql, words);
  return words.limits == 1 ? words.rows : 0;
}

bool compares_neighbours(const Words& words) {
  static constexpr const char* kCompare[] = {"over", "union", "intersect", "except", "group", "distinct"};
  return std::ranges::any_of(kCompare, [&](const char* word) { return words.contains(word); });
}

bool may_want_whole_order(sqlite3* db, const std::vector<sqlite3_stmt*>& running,
                          const TableDefinition& table) {
  try {
    const std::vector<Words> statements = words_of(db, running, table);
    return statements.empty() || std::ranges::any_of(statements, [](const Words& words) {
             return !words.limit || compares_neighbours(words);
           });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted) throw;
    return true;  // a schema cannot be read: an authorizer forbids it
  }
}

}  // namespace

void check_unsure_term(sqlite3* db, const TableDefinition& table, const std::string& column) {
  // SQLite makes an IN of `a = 1 OR a = 2`.
  const std::vector<Words> statements = words_of(db, running_statements(db), table);
  if (std::ranges::none_of(statements, [](const Words& words) {
        return words.contains("in") || words.contains("or");
      })) {
    return;
  }
  throw Error(ErrorKind::kInvalid,
              table.table + "." + column + ": SQLite " + sqlite3_libversion() +
                  " does not tell a search with k what IN or OR leave of the rows, as 3.38 does; leave k "
                  "out, as in ORDER BY distance LIMIT 10, or, where another table is compared, write +" +
                  column);
}

// A view that has changed since has the statement planned again. To read schemas takes as long as a short
// search.
StatementReads reads_of_statement(sqlite3* db, const TableDefinition& table, bool ordered,
                                  SearchMemo& memo) {
  const std::vector<sqlite3_stmt*> running = running_statements(db);
  const bool known = running.size() == 1 && memo.statement_read == running[0];
  if (!known) {
    memo.statement_read = nullptr;  // until it is known what that one says
    memo.reads = {};
    if (running.size() == 1) {
      memo.reads.rows = limit_of(running[0]);
      const char* const sql = sqlite3_sql(running[0]);
      memo.reads.text = std::hash<std::string_view>()(sql == nullptr ? "" : sql);
    }
  }
  if (ordered && !memo.reads.whole_order) {
    memo.reads.whole_order = may_want_whole_order(db, running, table);
  }
  memo.statement_read = running.size() == 1 ? running[0] : nullptr;
  return memo.reads;
}

}  // namespace warplite::sql
