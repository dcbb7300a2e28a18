// Rows of a content table, with their values as the index's columns take them.
#include <utility>

#include "sql/content/walk.h"
#include "sql/definition/sparse_values.h"

namespace warplite::sql {
// Throws what a column has against a value.
ContentTable::Row ContentTable::row_of(sqlite3_stmt* statement) {
  const std::string subject = index() + ": " + table_;
  for (std::size_t i = 0; i < indexed_.size(); ++i) {
    const ColumnDefinition& column = *indexed_[i];
    const Place where(subject, column.name);
    sqlite3_value* const value = sqlite3_column_value(statement, static_cast<int>(i) + 1);
    Cell& cell = i < vectors_.size() ? vectors_[i] : plains_[i - vectors_.size()];
    if (!column.is_vector()) {
      cell = to_column(value, column.plain, where);
    } else if (sqlite3_value_type(value) == SQLITE_NULL) {
      cell = Cell::null();
    } else {
      inputs_[i] = column_vector(value, column, where);
      cell = inputs_[i].cell();
    }
  }
  return {sqlite3_column_int64(statement, 0), vectors_.data(), plains_.data()};
}

ContentTable::Row ContentTable::checked_row_of(sqlite3_stmt* statement) {
  try {
    return row_of(statement);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConstraint && error.kind() != ErrorKind::kInvalid) throw;
    throw Error(ErrorKind::kHost, SQLITE_MISMATCH,
                std::string(error.what()) + " (row " +
                    std::to_string(sqlite3_column_int64(statement, 0)) + ")");
  }
}

// Returns nothing for a row that holds what a column does not take.
std::optional<ContentTable::Row> ContentTable::taken_row_of(sqlite3_stmt* statement) {
  try {
    return row_of(statement);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConstraint && error.kind() != ErrorKind::kInvalid) throw;
    return std::nullopt;
  }
}

void ContentTable::read(std::span<const RowId> rowids, const Take& take) {
  if (rowids.size() == 1) {
    Use point(*this, Sql::kPoint, rowids[0]);
    if (!point.step()) return;
    if (const std::optional<Row> row = taken_row_of(point.get())) take(*row);
    return;
  }
  RowWalk walk(*this, Sql::kIndexedFrom);
  for (const RowId rowid : rowids) {
    if (!walk.to(rowid)) continue;
    if (const Row* row = walk.row()) take(*row);
  }
}

bool ContentTable::read_checked(RowId rowid, const Take& take) {
  Use point(*this, Sql::kPoint, rowid);
  if (!point.step()) return false;
  take(checked_row_of(point.get()));
  return true;
}

void ContentTable::scan_checked(const Take& take) {
  Use all(*this, Sql::kScan, 0);
  while (all.step()) take(checked_row_of(all.get()));
}

void ContentTable::scan_rowids(const std::function<void(RowId)>& take) {
  Use all(*this, Sql::kRowIds, 0);
  while (all.step()) take(sqlite3_column_int64(all.get(), 0));
}

std::int64_t ContentTable::count() {
  Use all(*this, Sql::kCountRows, 0);
  return all.step() ? sqlite3_column_int64(all.get(), 0) : 0;
}

bool ContentTable::exists(RowId rowid) { return Use(*this, Sql::kExists, rowid).step(); }

Value ContentTable::aux(RowId rowid, const ColumnDefinition& column) {
  Use point(*this, Sql::kAux, rowid);
  return point.step() ? aux_of(point.get(), column.slot + 1, column) : Value();
}

Value ContentTable::aux_of(sqlite3_stmt* statement, int i, const ColumnDefinition& column) {
  return Value(apply_affinity(sqlite3_column_value(statement, i), column.declared));
}

std::unique_ptr<engine::ContentSource::Walk> ContentTable::walk(bool values) {
  return std::make_unique<RowWalk>(*this, values ? Sql::kIndexedFrom : Sql::kFrom);
}

}  // namespace warplite::sql
