#include "sql/content/triggers.h"

#include <algorithm>
#include <string_view>

#include "sql/definition/argument_lexer.h"
#include "sql/host/statement.h"

namespace warplite::sql {
namespace {

// A TriggerText gives what follows the index's name in a trigger's name, and when the trigger
// fires. {new} and {old} are rowids, {tell} inserts into the index, {changed} says whether what is
// indexed changed.
struct TriggerText {
  const char* suffix;
  const char* event;
  const char* when;
  const char* body;
};
constexpr TriggerText kTexts[kTriggers] = {
    {"_content_insert", "INSERT", "", "{tell} VALUES ({new});"},
    {"_content_update", "UPDATE", " WHEN {changed}",
     "{tell} SELECT {old} WHERE {old} IS NOT {new}; {tell} VALUES ({new});"},
    {"_content_delete", "DELETE", "", "{tell} VALUES ({old});"},
};
constexpr std::size_t kUpdate = 1;

void execute(sqlite3* db, const std::string& sql) {
  const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errmsg(db));
}

std::string value(const char* row, const std::string& column) {
  return std::string(row) + "." + quoted_name(column);
}

// Row values, since there may be more columns than an expression may have levels. What compares
// as equal and is not the same to the index: 1 and 1.0 as TEXT, 0.0 and -0.0 as REAL (which SQL
// cannot tell apart, so that a zero always counts as changed), and texts under the content
// column's own collation.
std::string changed(const TriggerTarget& target) {
  std::string now = "(", before = "(";
  now += value("NEW", target.content_rowid);
  before += value("OLD", target.content_rowid);
  for (const WatchedColumn& column : target.columns) {
    const std::string left = value("NEW", column.name), right = value("OLD", column.name);
    now += ", " + left + " COLLATE BINARY";
    before += ", " + right;
    if (column.kind == WatchedColumn::Kind::kText) {
      now += ", typeof(" + left + ")";
      before += ", typeof(" + right + ")";
    } else if (column.kind == WatchedColumn::Kind::kReal) {
      now += ", " + left + " IS 0";
      before += ", 0";
    }
  }
  return now + ") IS NOT " + before + ")";
}

std::string filled_in(std::string_view text, const TriggerTarget& target) {
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t open = rest.find('{');
    result.append(rest.substr(0, open));
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find('}', open);
    const std::string_view word = rest.substr(open + 1, close - open - 1);
    result += word == "tell" ? "INSERT INTO " + quoted_name(target.body_index) + "(" +
                                   quoted_name(target.index_rowid) + ")"
              : word == "changed" ? changed(target)
              : word == "new"     ? value("NEW", target.content_rowid)
                                  : value("OLD", target.content_rowid);
    rest.remove_prefix(close + 1);
  }
  return result;
}

// Returns the text of a trigger from its name on. The index's name stands alone in the body: with
// the schema's, a file would only open under that name.
std::string text_of(const TriggerText& trigger, const TriggerTarget& target) {
  return quoted_name(target.index + trigger.suffix) + " AFTER " + trigger.event + " ON " +
         quoted_name(target.content) + filled_in(trigger.when, target) + " BEGIN " +
         filled_in(trigger.body, target) + " END";
}

void create(sqlite3* db, const TriggerText& trigger, const TriggerTarget& target) {
  execute(db, "CREATE TRIGGER " + quoted_name(target.schema) + "." + text_of(trigger, target));
}

// Says whether a trigger's text has NEW.column, however it is quoted.
bool names(const std::vector<Token>& text, const std::string& column) {
  const std::string lower = ascii_lower(column);
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i - 2].is_word("new") && text[i - 1].is('.') && ascii_lower(text[i].text) == lower) {
      return true;
    }
  }
  return false;
}

// Says whether two words are the same to SQLite, however they are quoted.
bool same(const Token& left, const Token& right) {
  return (left.kind == Token::Kind::kSymbol) == (right.kind == Token::Kind::kSymbol) &&
         ascii_lower(left.text) == ascii_lower(right.text);
}

// Says whether `text` says what `trigger` says: all but the table, its columns, which SQLite has
// follow renames, and the condition, which former versions did not have.
bool is_own(const TriggerText& trigger, const std::string& text, const TriggerTarget& target) {
  constexpr std::size_t kTable = 6;  // CREATE TRIGGER name AFTER event ON table
  const auto is_begin = [](const Token& token) { return token.is_word("begin"); };
  const std::vector<Token> found = tokenize(text);
  const std::vector<Token> own = tokenize("CREATE TRIGGER " + text_of(trigger, target));
  const auto found_body = std::find_if(found.begin(), found.end(), is_begin);
  const auto own_body = std::find_if(own.begin(), own.end(), is_begin);
  const auto found_head = found_body - found.begin();
  const bool has_condition = found_head > static_cast<long>(kTable + 1);
  if (found_head <= static_cast<long>(kTable) || found.end() - found_body != own.end() - own_body ||
      (has_condition && (*trigger.when == '\0' || !found[kTable + 1].is_word("when")))) {
    return false;
  }
  if (!std::equal(found.begin(), found.begin() + kTable, own.begin(), same)) return false;
  for (auto left = found_body, right = own_body; left != found.end(); ++left, ++right) {
    if (!same(*left, *right) && !left[-1].is('.')) return false;
  }
  return true;
}

}  // namespace

const FoundTrigger* FoundTriggers::own() const {
  for (const FoundTrigger& trigger : each) {
    if (trigger.is_own) return &trigger;
  }
  return nullptr;
}

const FoundTrigger* FoundTriggers::other() const {
  for (const FoundTrigger& trigger : each) {
    if (!trigger.name.empty() && (!trigger.is_own || trigger.table != own()->table)) return &trigger;
  }
  return nullptr;
}

bool FoundTriggers::all() const {
  return other() == nullptr &&
         std::all_of(each.begin(), each.end(), [](const auto& trigger) { return trigger.is_own; });
}

FoundTriggers find_triggers(sqlite3* db, const TriggerTarget& target) {
  const Statement query =
      prepare(db, "SELECT name, tbl_name, sql FROM " + quoted_name(target.schema) +
                      ".sqlite_master WHERE type = 'trigger' AND name = ?1 COLLATE NOCASE");
  const auto text = [&](int column) { return column_text(query.get(), column); };
  FoundTriggers found;
  for (std::size_t i = 0; i < kTriggers; ++i) {
    bind_text(query.get(), 1, target.index + kTexts[i].suffix);
    if (step(query.get())) {
      found.each[i] = {text(0), text(1), text(2), is_own(kTexts[i], text(2), target)};
    }
    sqlite3_reset(query.get());
  }
  return found;
}

// A column may have been renamed and renamed back, in other letters.
bool are_as_created(const FoundTriggers& triggers, const TriggerTarget& target) {
  for (std::size_t i = 0; i < kTriggers; ++i) {
    const std::string text = "CREATE TRIGGER " + text_of(kTexts[i], target);
    if (ascii_lower(triggers.each[i].text) != ascii_lower(text)) return false;
  }
  return true;
}

std::string unnamed(const FoundTriggers& triggers, const TriggerTarget& target) {
  if (!triggers.each[kUpdate].is_own) return "";
  const std::vector<Token> update = tokenize(triggers.each[kUpdate].text);
  if (!names(update, target.content_rowid)) return target.content_rowid;
  const bool watching = std::any_of(update.begin(), update.end(),
                                    [](const Token& token) { return token.is_word("when"); });
  if (!watching) return "";
  for (const WatchedColumn& column : target.columns) {
    if (!names(update, column.name)) return column.name;
  }
  return "";
}

void create_triggers(sqlite3* db, const TriggerTarget& target) {
  for (const TriggerText& trigger : kTexts) create(db, trigger, target);
}

// A trigger that names other columns than the index does is not made again: it would look right.
void rename_triggers(sqlite3* db, const FoundTriggers& triggers, const TriggerTarget& target) {
  const bool fit = unnamed(triggers, target).empty();
  drop_triggers(db, target.schema, triggers);
  for (std::size_t i = 0; i < kTriggers; ++i) {
    if (triggers.each[i].is_own && (fit || i != kUpdate)) create(db, kTexts[i], target);
  }
}

void drop_triggers(sqlite3* db, const std::string& schema, const FoundTriggers& triggers) {
  for (const FoundTrigger& trigger : triggers.each) {
    if (!trigger.is_own) continue;
    execute(db, "DROP TRIGGER " + quoted_name(schema) + "." + quoted_name(trigger.name));
  }
}

}  // namespace warplite::sql
