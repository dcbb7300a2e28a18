// xFilter's arguments as a Plan orders them, turned into what the engine is asked.
// Threads: as the connection. Errors: Error{kInvalid} names the table and the column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/types.h"
#include "engine/filter/filter.h"
#include "sql/definition/definition.h"
#include "sql/plan/plan.h"
#include "sql/table/match_rows.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

// Reads the filters of a plan from `arguments`, which advances past them. A TEXT column compared
// with a number does not filter: SQLite decides, by the other operand's affinity. Nor does a LIKE or
// GLOB whose pattern has more bytes than SQLite takes, which SQLite refuses in its words.
engine::Filter read_filter(sqlite3* db, const Plan& plan, const TableDefinition& table,
                           sqlite3_value**& arguments);

// The whole question of a plan that searches; nothing when no row can match: a NULL query, or
// a bound that no distance satisfies.
std::optional<MatchQuestion> read_question(sqlite3* db, const Plan& plan,
                                           const TableDefinition& table,
                                           sqlite3_value** arguments);

// Reads what MATCH on a column that has searches (ColumnDefinition::searched()) is asked, which a
// NULL leaves empty.
void read_query(sqlite3_value* query, const TableDefinition& table, const ColumnDefinition& column,
                MatchQuestion& question);

// rowid = value, with the affinity of an INTEGER column; nothing when no rowid equals it.
std::optional<RowId> read_rowid(sqlite3_value* value);

}  // namespace warplite::sql
