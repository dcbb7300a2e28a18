// The `warp` virtual-table module: one WarpTable a connected table, one WarpCursor a scan.
// Methods are spread by what they do: the table's life and transactions in warp_table.cc,
// reading in warp_cursor.cc, writing and commands in warp_update.cc, MATCH as a function in
// match_function.cc.
// Threads: as the connection. Errors: translated in sql/host/guard.h, with the message in zErrMsg.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sql/definition/values.h"
#include "sql/plan/plan.h"
#include "sql/table/context.h"
#include "sql/table/match_rows.h"
#include "storage/sqlite_api.h"

namespace warplite::sql {

class WarpCursor;

// Cells of the row that xUpdate is storing, and what they borrow from; kept between calls so that
// an INSERT allocates nothing.
struct RowBuffer {
  std::vector<Cell> vectors, plains, aux;
  std::vector<VectorInput> inputs;  // per declared column; of vectors
  std::vector<Value> kept;          // of the old row, by declared column
};

struct WarpTable : sqlite3_vtab {
  WarpTable(Context* shared, std::shared_ptr<OpenTable> table);
  // SQLite collects the message of every method but xDestroy.
  ~WarpTable() { sqlite3_free(zErrMsg); }
  WarpTable(const WarpTable&) = delete;
  WarpTable& operator=(const WarpTable&) = delete;

  const TableDefinition& definition() const { return open->definition; }
  // Null where sqlite-vec wrote the table, which then has no rows to read or write here.
  engine::Collection* rows() const { return open->collection.get(); }
  // Throw Error{kUnsupported} that says how to convert such a table.
  void check_own() const;
  engine::Collection& collection() const;

  Context* context;
  std::shared_ptr<OpenTable> open;
  Interrupt interrupt;
  RowBuffer row;
  SearchMemo memo;
  // The cursor that gave a vector last, and its column: match() is called right after.
  const WarpCursor* last_reader = nullptr;
  int last_column = -1;
};

// Registers the module warp. `context` is freed with it, also when this fails.
int register_warp_module(sqlite3* db, std::unique_ptr<Context> context);
// Registers the same under the name vec0 (DESIGN §1.5). REQUIRES: `context` is that of warp.
int register_vec0_module(sqlite3* db, Context* context);

int warp_open(sqlite3_vtab* vtab, sqlite3_vtab_cursor** cursor);
int warp_close(sqlite3_vtab_cursor* cursor);
int warp_filter(sqlite3_vtab_cursor* cursor, int access, const char* plan, int argc,
                sqlite3_value** argv);
int warp_next(sqlite3_vtab_cursor* cursor);
int warp_eof(sqlite3_vtab_cursor* cursor);
int warp_column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int column);
int warp_rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* rowid);
int warp_update(sqlite3_vtab* vtab, int argc, sqlite3_value** argv, sqlite3_int64* rowid);

}  // namespace warplite::sql
