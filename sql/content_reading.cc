// Rows of a content table, with their values as the index's columns take them.
#include <utility>

#include "sql/content_use.h"

namespace warplite::sql {
namespace {

// Rowids that are closer together than this, on average, are read as a range.
constexpr std::uint64_t kDense = 4;

}  // namespace

// Throws what a column has against a value.
ContentTable::Row ContentTable::row_of(sqlite3_stmt* statement) {
  const std::string subject = index() + ": " + table_;
  for (std::size_t i = 0; i < indexed_.size(); ++i) {
    const ColumnDefinition& column = *indexed_[i];
    const Place where(subject, column.name);
    const Cell cell = column_cell(statement, static_cast<int>(i) + 1);
    if (i >= vectors_.size()) {
      const std::size_t plain = i - vectors_.size();
      plains_[plain] = to_column(cell, column.plain, where, texts_[plain]);
    } else if (cell.is_null()) {
      vectors_[i] = cell;
    } else {
      inputs_[i] = vector_from_cell(cell, column.element, column.dim, where);
      vectors_[i] = inputs_[i].cell();
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

// Passes over a row that holds what a column does not take.
void ContentTable::take_row(sqlite3_stmt* statement, const Take& take) {
  Row row;
  try {
    row = row_of(statement);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConstraint && error.kind() != ErrorKind::kInvalid) throw;
    return;
  }
  take(row);
}

void ContentTable::read(std::span<const RowId> rowids, const Take& take) {
  if (rowids.empty()) return;
  const auto spread = static_cast<std::uint64_t>(rowids.back()) -
                      static_cast<std::uint64_t>(rowids.front());
  if (rowids.size() > 1 && spread / kDense < rowids.size()) {
    Use range(*this, Sql::kRange, rowids.front(), rowids.back());
    for (auto at = rowids.begin(); range.step();) {
      const RowId rowid = sqlite3_column_int64(range.get(), 0);
      while (at != rowids.end() && *at < rowid) ++at;
      if (at != rowids.end() && *at == rowid) take_row(range.get(), take);
    }
    return;
  }
  for (const RowId rowid : rowids) {
    Use point(*this, Sql::kPoint, rowid);
    if (point.step()) take_row(point.get(), take);
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
  if (!point.step()) return Value();
  std::string text;
  return Value(apply_affinity(column_cell(point.get(), column.slot + 1), column.declared, text));
}

}  // namespace warplite::sql
