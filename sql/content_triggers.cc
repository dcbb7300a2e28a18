#include "sql/content_triggers.h"

#include <string_view>

#include "sql/statement.h"

namespace warplite::sql {
namespace {

// What follows the index's name in a trigger's name, and when it fires. {new} and {old} are rowids,
// {tell} inserts into the index.
struct TriggerText {
  const char* suffix;
  const char* event;
  const char* body;
};
constexpr TriggerText kTriggers[] = {
    {"_content_insert", "INSERT", "{tell} VALUES ({new});"},
    {"_content_update", "UPDATE",
     "{tell} SELECT {old} WHERE {old} IS NOT {new}; {tell} VALUES ({new});"},
    {"_content_delete", "DELETE", "{tell} VALUES ({old});"},
};

void execute(sqlite3* db, const std::string& sql) {
  const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errmsg(db));
}

std::string body_of(const TriggerText& trigger, const TriggerTarget& target) {
  const std::string rowid = "." + quoted_name(target.content_rowid);
  std::string body;
  for (std::string_view rest = trigger.body; !rest.empty();) {
    const std::size_t open = rest.find('{');
    body.append(rest.substr(0, open));
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find('}', open);
    const std::string_view word = rest.substr(open + 1, close - open - 1);
    body += word == "tell" ? "INSERT INTO " + quoted_name(target.body_index) + "(" +
                                 quoted_name(target.index_rowid) + ")"
            : word == "new" ? "NEW" + rowid
                            : "OLD" + rowid;
    rest.remove_prefix(close + 1);
  }
  return body;
}

}  // namespace

// The table's name stands alone: with the schema's, a file would only open under that name.
void create_triggers(sqlite3* db, const TriggerTarget& target) {
  for (const TriggerText& trigger : kTriggers) {
    execute(db, "CREATE TRIGGER " + quoted_name(target.schema) + "." +
                    quoted_name(target.index + trigger.suffix) + " AFTER " + trigger.event +
                    " ON " + quoted_name(target.content) + " BEGIN " +
                    body_of(trigger, target) + " END");
  }
}

void drop_triggers(sqlite3* db, const std::string& schema, const std::string& index) {
  for (const TriggerText& trigger : kTriggers) {
    execute(db, "DROP TRIGGER IF EXISTS " + quoted_name(schema) + "." +
                    quoted_name(index + trigger.suffix));
  }
}

std::optional<std::string> triggered_table(sqlite3* db, const std::string& schema,
                                           const std::string& index) {
  const Statement query = prepare(db, "SELECT tbl_name FROM " + quoted_name(schema) +
                                          ".sqlite_schema WHERE type = 'trigger' AND name = ?1");
  std::string table;
  for (const TriggerText& trigger : kTriggers) {
    bind_text(query.get(), 1, index + trigger.suffix);
    if (!step(query.get())) return std::nullopt;
    table = reinterpret_cast<const char*>(sqlite3_column_text(query.get(), 0));
    sqlite3_reset(query.get());
  }
  return table;
}

}  // namespace warplite::sql
