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

// What the schema has under the name of one of an index's triggers.
struct FoundTrigger {
  std::string name;  // empty: there is none
  std::string table;
  std::string text;   // as SQLite keeps it
  bool is_own = false;  // whether it says what create_triggers() has it say, under names of today
};

struct FoundTriggers {
  std::array<FoundTrigger, kTriggers> each;

  // The first of the index's own, or null.
  const FoundTrigger* own() const;
  // The first that is somebody else's, or not on the table that the others are on, or null.
  const FoundTrigger* other() const;
  bool all() const;  // are the index's own, and on one table
};

// Whatever the content table and its columns are.
FoundTriggers find_triggers(sqlite3* db, const TriggerTarget& target);
// Says whether they are what create_triggers() makes.
bool are_as_created(const FoundTriggers& triggers, const TriggerTarget& target);
// The first name of the target's that the triggers lack, since SQLite has them follow a column
// that is renamed, or empty. Triggers of a former version name the rowid alone.
std::string unnamed(const FoundTriggers& triggers, const TriggerTarget& target);

void create_triggers(sqlite3* db, const TriggerTarget& target);
// The index's own get the target's names.
void rename_triggers(sqlite3* db, const FoundTriggers& triggers, const TriggerTarget& target);
// The index's own. Others of such a name stay.
void drop_triggers(sqlite3* db, const std::string& schema, const FoundTriggers& triggers);

}  // namespace warplite::sql
