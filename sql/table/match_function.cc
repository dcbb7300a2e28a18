// `column MATCH query` is match(query, column). The virtual table answers it where it can: then
// the function is not called, or, as SQLite honours `omit` for few constraints only, it is called
// to check a row that the search found. Anywhere else it cannot know which rows are nearest.
#include "sql/table/match_function.h"

#include <string>

#include "core/error.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
#include "sql/table/warp_cursor.h"
#include "sql/table/warp_table.h"

namespace warplite::sql {
namespace {

void unusable(sqlite3_context* context, int, sqlite3_value**) {
  result_message(context, "unable to use function MATCH in the requested context");
}

// REQUIRES: the column of argv[1] was read last, from the row that is asked about.
void answer(sqlite3_context* context, sqlite3_value** argv) {
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL || sqlite3_value_type(argv[1]) == SQLITE_NULL) {
    return;  // NULL MATCH …: neither true nor false, and the row of an outer join
  }
  const auto* table = static_cast<const WarpTable*>(sqlite3_user_data(context));
  const WarpCursor* cursor = table->last_reader;
  if (cursor != nullptr && cursor->found(table->last_column, argv[0])) {
    sqlite3_result_int(context, 1);
    return;
  }
  const TableDefinition& definition = table->definition();
  const auto at = static_cast<std::size_t>(table->last_column);
  const std::string place = at < definition.columns.size()
                                ? definition.table + "." + definition.columns[at].name
                                : definition.table;
  throw Error(
      ErrorKind::kInvalid,
      "MATCH on " + place +
      " cannot be answered here: it must be joined to the rest of WHERE by AND, outside OR and "
      "NOT (each branch of an OR may have its own MATCH and k, and comparisons with literals; with other values, "
      "write a UNION of the branches), and not on the side of a LEFT, "
      "RIGHT or FULL JOIN that may be missing; then it belongs in the ON clause");
}

void match(sqlite3_context* context, int, sqlite3_value** argv) {
  guarded(context, [&] { answer(context, argv); });
}

}  // namespace

int register_match_function(sqlite3* db) {
  return create_function<unusable>(db, "match", 2, SQLITE_INNOCUOUS, nullptr);
}

int find_match_function(sqlite3_vtab* vtab, int argc, const char* name,
                        void (**function)(sqlite3_context*, int, sqlite3_value**), void** data) {
  if (argc != 2 || sqlite3_stricmp(name, "match") != 0) return 0;
  *function = entry<match>();
  *data = static_cast<WarpTable*>(vtab);
  return 1;
}

}  // namespace warplite::sql
