// The triggers by which a content table tells its index of changes. They carry no values: each
// inserts a rowid, and the index looks at that row.
// Threads: as the connection. Errors: Error{kHost} with SQLite's own message.
#pragma once

#include <optional>
#include <string>

#include "storage/sqlite_api.h"

namespace warplite::sql {

struct TriggerTarget {
  std::string schema;
  std::string content;        // the content table's name
  std::string content_rowid;  // a name of its rowid
  std::string index;          // the index's name, with which the triggers' names begin
  std::string body_index;     // the name by which they find it
  std::string index_rowid;    // a name of its rowid
};

void create_triggers(sqlite3* db, const TriggerTarget& target);
void drop_triggers(sqlite3* db, const std::string& schema, const std::string& index);

// The name of the table that the index's triggers are on; nothing unless all of them are there.
std::optional<std::string> triggered_table(sqlite3* db, const std::string& schema,
                                           const std::string& index);

}  // namespace warplite::sql
