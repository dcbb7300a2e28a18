#include "sql/table/host_pattern.h"

namespace warplite::sql {
namespace {

void bind(sqlite3_stmt* statement, int parameter, const Cell& cell) {
  int code = SQLITE_OK;
  switch (cell.kind) {
    case CellKind::kNull: code = sqlite3_bind_null(statement, parameter); break;
    case CellKind::kInteger: code = sqlite3_bind_int64(statement, parameter, cell.integer); break;
    case CellKind::kReal: code = sqlite3_bind_double(statement, parameter, cell.real); break;
    case CellKind::kText: return bind_text(statement, parameter, cell.bytes);
    case CellKind::kBlob:
      code = sqlite3_bind_blob64(statement, parameter, cell.bytes.data(), cell.bytes.size(),
                                 SQLITE_TRANSIENT);
      break;
  }
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, "cannot bind a value");
}

}  // namespace

HostPattern::HostPattern(sqlite3* db, engine::Comparison op, const Cell& pattern)
    : statement_(prepare(db, op == engine::Comparison::kLike ? "SELECT 1 WHERE ?1 LIKE ?2"
                                                             : "SELECT 1 WHERE ?1 GLOB ?2")) {
  bind(statement_.get(), 2, pattern);
}

bool HostPattern::passes(const Cell& value) {
  sqlite3_stmt* const statement = statement_.get();
  bind(statement, 1, value);
  const struct Reset {
    sqlite3_stmt* statement;
    ~Reset() { sqlite3_reset(statement); }
  } reset{statement};
  return step(statement);
}

}  // namespace warplite::sql
