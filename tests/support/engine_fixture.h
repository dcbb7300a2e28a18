// What the engine's tests share: a database, a driver that makes the calls SQLite makes for a
// virtual table around transactions and savepoints, and a readable form of a table's contents.
#pragma once

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/collection.h"
#include "tests/support/database.h"

namespace warplite::engine {

using testing::Database;
using testing::TemporaryFile;

// A row as text, cell by cell: NULL is "-", everything else is its value.
using Cells = std::vector<std::optional<std::string>>;

struct TestRow {
  Cells vectors, plains, aux;
  friend bool operator==(const TestRow&, const TestRow&) = default;
};
using Contents = std::map<RowId, TestRow>;

// A plain cell from its text: of the type of the column.
inline Cell plain_cell(const std::optional<std::string>& text, PlainType type) {
  if (!text) return Cell::null();
  switch (type) {
    case PlainType::kInteger:
    case PlainType::kBoolean:
      return Cell::of(static_cast<std::int64_t>(std::stoll(*text)));
    case PlainType::kReal:
      return Cell::of(std::stod(*text));
    case PlainType::kText:
      return Cell::text(*text);
    case PlainType::kSparse:
      return Cell::blob(*text);
  }
  return Cell::null();
}

inline std::optional<std::string> text_of(const Cell& cell) {
  switch (cell.kind) {
    case CellKind::kNull:
      return std::nullopt;
    case CellKind::kInteger:
      return std::to_string(cell.integer);
    case CellKind::kReal:
      return std::to_string(cell.real);
    default:
      return std::string(cell.bytes);
  }
}

// Borrows from a TestRow for one call of the collection.
class BorrowedRow {
 public:
  BorrowedRow(const Layout& layout, const TestRow& row, std::optional<RowId> rowid) {
    for (const auto& vector : row.vectors) {
      vectors_.push_back(vector ? Cell::blob(*vector) : Cell::null());
    }
    for (std::size_t i = 0; i < row.plains.size(); ++i) {
      plains_.push_back(plain_cell(row.plains[i], layout.plains[i]));
    }
    for (const auto& aux : row.aux) aux_.push_back(aux ? Cell::text(*aux) : Cell::null());
    row_ = {rowid, vectors_.data(), plains_.data(), aux_.data()};
  }
  const NewRow& get() const { return row_; }

 private:
  std::vector<Cell> vectors_, plains_, aux_;
  NewRow row_;
};

inline Contents contents_of(const View& view, bool with_aux = true) {
  Contents out;
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    const Part& part = view.part(i);
    std::uint32_t live = 0;
    for (std::uint32_t r = 0; r < part.rows(); ++r) {
      if (part.alive() != nullptr && !part.alive()->test(r)) continue;
      ++live;
      const Location at{i, r};
      TestRow row;
      for (std::size_t c = 0; c < view.layout().vectors.size(); ++c) {
        row.vectors.push_back(text_of(view.vector(at, c).cell()));
      }
      for (std::size_t c = 0; c < view.layout().plains.size(); ++c) {
        row.plains.push_back(text_of(view.plain(at, c).cell()));
      }
      for (std::size_t c = 0; c < view.layout().aux; ++c) {
        row.aux.push_back(with_aux ? text_of(view.aux(at, c).cell()) : std::nullopt);
      }
      CHECK(out.emplace(view.rowid(at), std::move(row)).second);
    }
    CHECK(live == part.live_rows());
  }
  return out;
}

// How tables of tests differ.
struct Variant {
  bool text_key = false;
  bool partition = false;
  std::size_t aux = 0;
  std::uint32_t tail_rows = 8;
  std::size_t flush_bytes = 2000;
};

inline TableOptions make_options(const Variant& variant) {
  TableOptions options;
  options.layout.vectors = {{ElementType::kFloat32, 4}, {ElementType::kInt8, 8}};
  options.layout.plains = {PlainType::kInteger, PlainType::kText};
  options.plain_names = {"number", "word"};
  options.vectors = {{"a", Distance::kL2, {}}, {"b", Distance::kL2, {}}};
  options.rowid_name = "id";
  if (variant.text_key) {
    options.layout.text_key = static_cast<int>(options.layout.plains.size());
    options.layout.plains.push_back(PlainType::kText);
    options.plain_names.push_back("key");
  }
  if (variant.partition) {
    options.layout.partitions = {static_cast<int>(options.layout.plains.size())};
    options.layout.plains.push_back(PlainType::kText);
    options.plain_names.push_back("tenant");
  }
  options.layout.aux = variant.aux;
  options.layout.segment_rows = 16;
  options.tail_rows = variant.tail_rows;
  options.flush_bytes = variant.flush_bytes;
  return options;
}

// One table on one connection, driven statement by statement. What a transaction that a test leaves
// open has done is rolled back.
class TableSession {
 public:
  explicit TableSession(TableOptions options) : options_(std::move(options)), db_(file_.path()) {
    begin();
    table_ = Collection::create(db_.get(), "main", "t", options_);
    commit();
  }
  ~TableSession() {
    if (sqlite3_get_autocommit(db_.get()) == 0) db_.run("ROLLBACK");
    table_->rollback();
  }

  const std::string& path() const { return file_.path(); }
  Database& db() { return db_; }
  Collection& table() { return *table_; }
  const TableOptions& options() const { return options_; }

  void begin() {
    db_.run("BEGIN IMMEDIATE");
    if (table_ != nullptr) table_->begin();
  }
  void commit() {
    table_->sync();
    db_.run("COMMIT");
    table_->commit();
  }
  void rollback() {
    db_.run("ROLLBACK");
    table_->rollback();
  }
  // Nothing: a conflict.
  std::optional<RowId> insert_row(const TestRow& row, std::optional<RowId> rowid) {
    const BorrowedRow borrowed(options_.layout, row, rowid);
    return table_->insert(borrowed.get(), OnConflict::kAbort);
  }

 private:
  const TableOptions options_;
  testing::TemporaryFile file_;
  Database db_;
  std::shared_ptr<Collection> table_;
};

}  // namespace warplite::engine
