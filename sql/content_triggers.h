// The triggers by which a content table tells its index of changes. They carry no values: each
// inserts a rowid, and the index looks at that row. The one for updates names the columns that are
// indexed: changes of others are none of the index's, and SQLite refuses to drop a column that a
// trigger names.
// Threads: as the connection. Errors: Error{kHost} with SQLite's own message.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "storage/sqlite_api.h"

namespace warplite::sql {

// A column whose changes matter.
struct WatchedColumn {
  enum class Kind { kAny, kReal, kText };  // as the index stores it
  std::string name;
  Kind kind = Kind::kAny;
};

struct TriggerTarget {
  std::string schema;
  std::string content;        // the content table's name
  std::string content_rowid;  // a name of its rowid
  std::string index;          // the index's name, with which the triggers' names begin
  std::string body_index;     // the name by which they find it
  std::string index_rowid;    // a name of its rowid
  std::vector<WatchedColumn> columns;
};

inline constexpr std::size_t kTriggers = 3;

// The triggers of an index that the schema has.
struct FoundTriggers {
  std::string table;                         // that they are on
  std::array<std::string, kTriggers> texts;  // as SQLite keeps them; empty: not there

  bool any() const;
  bool all() const;
};

FoundTriggers find_triggers(sqlite3* db, const std::string& schema, const std::string& index);
// Whether they are what create_triggers() makes.
bool are_as_created(const FoundTriggers& triggers, const TriggerTarget& target);
// The first name of the target's that the triggers lack, since SQLite has them follow a column
// that is renamed, or empty. Triggers of a former version name the rowid alone.
std::string unnamed(const FoundTriggers& triggers, const TriggerTarget& target);

void create_triggers(sqlite3* db, const TriggerTarget& target);
// Those that are there get the target's names.
void rename_triggers(sqlite3* db, const FoundTriggers& triggers, const std::string& old_index,
                     const TriggerTarget& target);
void drop_triggers(sqlite3* db, const std::string& schema, const std::string& index);

}  // namespace warplite::sql
