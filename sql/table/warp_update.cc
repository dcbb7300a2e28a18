// xUpdate: INSERT, UPDATE, DELETE and commands. Nothing changes when SQLITE_CONSTRAINT is
// returned, as SQLITE_VTAB_CONSTRAINT_SUPPORT promises: SQLite then carries out the
// statement's conflict clause, and skips the row under OR IGNORE.
#include <optional>
#include <span>
#include <string>

#include "sql/content/table.h"
#include "sql/definition/sparse_values.h"
#include "sql/host/guard.h"
#include "sql/table/commands.h"
#include "sql/table/warp_table.h"

namespace warplite::sql {
namespace {

engine::OnConflict conflict_mode(sqlite3* db) {
  switch (sqlite3_vtab_on_conflict(db)) {
    case SQLITE_IGNORE: return engine::OnConflict::kIgnore;
    case SQLITE_REPLACE: return engine::OnConflict::kReplace;
    default: return engine::OnConflict::kAbort;
  }
}

// One call of xUpdate that stores a row.
class RowWriter {
 public:
  // `columns`: the new values, declared columns first, then the hidden ones.
  RowWriter(WarpTable& table, sqlite3_value** columns)
      : table_(table),
        definition_(table.definition()),
        columns_(columns),
        conflict_(conflict_mode(table.context->db())) {}

  int insert(sqlite3_value* rowid_value, sqlite3_int64* rowid);
  int update(RowId old, sqlite3_value* rowid_value);

 private:
  sqlite3_value* hidden(HiddenColumn column) const { return columns_[definition_.hidden(column)]; }
  Place place(const ColumnDefinition& column) const { return {definition_.table, column.name}; }

  void refuse_hidden() const;
  void read_columns();
  void read_column(std::size_t i);
  Cell* cell_of_column(const ColumnDefinition& column);
  Cell plain_cell(const ColumnDefinition& column, sqlite3_value* value);
  RowId rowid_from(const std::string& name, sqlite3_value* value) const;
  Cell converted(PlainType type, const Place& where, sqlite3_value* value) const;
  bool read_old_columns(RowId old);
  std::optional<RowId> new_rowid(const std::optional<RowId>& old,
                                 const std::optional<RowId>& given) const {
    return definition_.rowid_column < 0 ? given : named_rowid(old, given);
  }
  std::optional<RowId> named_rowid(const std::optional<RowId>& old,
                                   const std::optional<RowId>& given) const;
  engine::NewRow row(std::optional<RowId> rowid) const {
    const RowBuffer& buffer = table_.row;
    return {rowid, buffer.vectors.data(), buffer.plains.data(), buffer.aux.data()};
  }

  WarpTable& table_;
  const TableDefinition& definition_;
  sqlite3_value** columns_;
  engine::OnConflict conflict_;
};

int RowWriter::insert(sqlite3_value* rowid_value, sqlite3_int64* rowid) {
  refuse_hidden();
  std::optional<RowId> given;
  if (sqlite3_value_type(rowid_value) != SQLITE_NULL) given = sqlite3_value_int64(rowid_value);
  read_columns();
  const auto stored = table_.collection().insert(row(new_rowid({}, given)), conflict_,
                                                 &table_.interrupt);
  if (!stored) return SQLITE_CONSTRAINT;
  *rowid = *stored;
  return SQLITE_OK;
}

int RowWriter::update(RowId old, sqlite3_value* rowid_value) {
  // UPDATE … FROM hands over every column's old value, hidden ones included.
  bool partial = false;
  for (int i = 0; i < definition_.hidden(kHiddenCount) && !partial; ++i) {
    partial = sqlite3_value_nochange(columns_[i]) != 0;
  }
  if (partial) refuse_hidden();
  if (!read_old_columns(old)) return SQLITE_OK;
  read_columns();
  const auto rowid = new_rowid(old, rowid_from("rowid", rowid_value));
  const bool done =
      table_.collection().update(old, row(rowid), conflict_, &table_.interrupt);
  return done ? SQLITE_OK : SQLITE_CONSTRAINT;
}

void RowWriter::refuse_hidden() const {
  for (HiddenColumn column : {kDistance, kK, kNprobe, kRecall, kMatches}) {
    if (sqlite3_value_type(hidden(column)) == SQLITE_NULL) continue;
    throw Error(ErrorKind::kInvalid, definition_.table + "." + definition_.hidden_name(column) +
                                         " is a hidden column: it holds nothing and cannot be set");
  }
  if (sqlite3_value_type(hidden(kCommand)) != SQLITE_NULL) {
    throw Error(ErrorKind::kInvalid, definition_.table + ": commands are given by INSERT INTO " +
                                         definition_.table + "(" + definition_.table +
                                         ") VALUES ('…')");
  }
}

void RowWriter::read_columns() {
  for (std::size_t i = 0; i < definition_.columns.size(); ++i) {
    if (!sqlite3_value_nochange(columns_[i])) read_column(i);
  }
}

Cell* RowWriter::cell_of_column(const ColumnDefinition& column) {
  const auto slot = static_cast<std::size_t>(column.slot);
  switch (column.kind) {
    case ColumnKind::kRowId: return nullptr;
    case ColumnKind::kVector: return &table_.row.vectors[slot];
    case ColumnKind::kAux: return &table_.row.aux[slot];
    default: return &table_.row.plains[slot];
  }
}

void RowWriter::read_column(std::size_t i) {
  const ColumnDefinition& column = definition_.columns[i];
  sqlite3_value* value = columns_[i];
  const auto slot = static_cast<std::size_t>(column.slot);
  switch (column.kind) {
    case ColumnKind::kRowId: break;  // new_rowid() reads it
    case ColumnKind::kVector:
    case ColumnKind::kSparse: {
      Cell& cell = *cell_of_column(column);
      if (sqlite3_value_type(value) == SQLITE_NULL) {
        cell = Cell::null();
        break;
      }
      VectorInput& input = table_.row.inputs[i];
      input = column_vector(value, column, place(column));
      cell = input.cell();
      break;
    }
    case ColumnKind::kAux:
      table_.row.aux[slot] = apply_affinity(value, column.declared);
      break;
    default: table_.row.plains[slot] = plain_cell(column, value); break;
  }
}

Cell RowWriter::plain_cell(const ColumnDefinition& column, sqlite3_value* value) {
  const Cell cell = converted(column.plain, place(column), value);
  if (cell.is_null() && column.kind == ColumnKind::kTextKey) {
    throw Error(ErrorKind::kConstraint, "NOT NULL constraint failed: " + place(column).text());
  }
  return cell;
}

// A value of the wrong type is an error under OR IGNORE too, as in a STRICT table; as a
// constraint, SQLite would skip the row.
Cell RowWriter::converted(PlainType type, const Place& where, sqlite3_value* value) const {
  try {
    return to_column(value, type, where);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConstraint || conflict_ != engine::OnConflict::kIgnore) throw;
    throw Error(ErrorKind::kHost, SQLITE_MISMATCH, error.what());
  }
}

// Columns that an UPDATE does not set keep the old row's values. False: there is no such row.
bool RowWriter::read_old_columns(RowId old) {
  std::shared_ptr<const engine::View> view;
  std::optional<engine::Location> at;
  for (std::size_t i = 0; i < definition_.columns.size(); ++i) {
    if (!sqlite3_value_nochange(columns_[i])) continue;
    if (view == nullptr) {
      view = table_.collection().view();
      at = view->find(old);
      if (!at) return false;
    }
    const ColumnDefinition& column = definition_.columns[i];
    Cell* cell = cell_of_column(column);
    if (cell == nullptr) continue;
    const auto slot = static_cast<std::size_t>(column.slot);
    Value& kept = table_.row.kept[i];
    kept = column.kind == ColumnKind::kVector ? view->vector(*at, slot)
           : column.kind == ColumnKind::kAux  ? view->aux(*at, slot)
                                              : view->plain(*at, slot);
    *cell = kept.cell();
  }
  return true;
}

// NULL is of the wrong type here, as SQLite has it, not a missing value that OR IGNORE passes over.
RowId RowWriter::rowid_from(const std::string& name, sqlite3_value* value) const {
  const Place where(definition_.table, name);
  const Cell cell = converted(PlainType::kInteger, where, value);
  if (cell.is_null()) {
    throw Error(ErrorKind::kHost, SQLITE_MISMATCH, where.text() + ": expected INTEGER, got NULL");
  }
  return cell.integer;
}

// The rowid has two names when there is an INTEGER PRIMARY KEY: a statement may set either.
std::optional<RowId> RowWriter::named_rowid(const std::optional<RowId>& old,
                                            const std::optional<RowId>& given) const {
  const auto i = static_cast<std::size_t>(definition_.rowid_column);
  const ColumnDefinition& column = definition_.columns[i];
  sqlite3_value* value = columns_[i];
  if (sqlite3_value_nochange(value)) return given;
  if (!old && sqlite3_value_type(value) == SQLITE_NULL) return given;
  const RowId named = rowid_from(column.name, value);
  if (!given || given == old || given == named) return named;
  if (named == old) return given;
  throw Error(ErrorKind::kInvalid, definition_.table + ": rowid " + std::to_string(*given) +
                                       " and " + column.name + " " + std::to_string(named) +
                                       " name the same row; they cannot differ");
}

void require_alone(const TableDefinition& definition, sqlite3_value** columns) {
  for (std::size_t i = 0; i < definition.columns.size(); ++i) {
    if (sqlite3_value_type(columns[i]) == SQLITE_NULL) continue;
    throw Error(ErrorKind::kInvalid, definition.table + ": a command comes alone, but column " +
                                         definition.columns[i].name + " has a value too");
  }
}

// With content=, an INSERT of a rowid alone has the index look at that row; the triggers say no
// more.
int follow(WarpTable& table, int argc, sqlite3_value** argv, sqlite3_int64* rowid) {
  bool told = argc > 1 && sqlite3_value_type(argv[0]) == SQLITE_NULL &&
              sqlite3_value_type(argv[1]) != SQLITE_NULL;
  for (int i = 2; i < argc && told; ++i) told = sqlite3_value_type(argv[i]) == SQLITE_NULL;
  if (!told) {
    table.open->content->check();  // a trigger has no rowid to tell when a column hides it
    throw Error(ErrorKind::kInvalid, table.open->content->advice());
  }
  *rowid = sqlite3_value_int64(argv[1]);
  table.collection().follow(*rowid, &table.interrupt);
  return SQLITE_OK;
}

void run_command(WarpTable& table, const Cell& command) {
  if (table.open->content != nullptr && is_command(command, "rebuild")) {
    table.open->content->restore_triggers();
  }
  run_command(table.collection(), command, table.interrupt);
}

// The command that a statement gives, or NULL.
sqlite3_value* command_of(const WarpTable& table, int argc, sqlite3_value** argv) {
  if (argc == 1 || sqlite3_value_type(argv[0]) != SQLITE_NULL) return nullptr;
  sqlite3_value* const command = argv[2 + table.definition().hidden(kCommand)];
  return sqlite3_value_type(command) == SQLITE_NULL ? nullptr : command;
}

// 'use-model' comes with the model, as the value of its column: model_functions.h.
void use_model(WarpTable& table, sqlite3_value** columns) {
  const TableDefinition& definition = table.definition();
  const ColumnDefinition* column = nullptr;
  Cell model;
  for (std::size_t i = 0; i < definition.columns.size(); ++i) {
    const Cell cell = cell_of(columns[i]);
    if (cell.is_null()) continue;
    if (column != nullptr || definition.columns[i].kind != ColumnKind::kVector) {
      throw Error(ErrorKind::kInvalid,
                  definition.table + ": a model comes alone, as the value of a vector column");
    }
    column = &definition.columns[i];
    model = cell;
  }
  if (model.kind != CellKind::kBlob) {
    throw Error(ErrorKind::kInvalid, definition.table +
                                         ": expected a model that warp_model() gave, got " +
                                         describe(model));
  }
  engine::Collection& collection = table.collection();
  collection.use_model(static_cast<std::size_t>(column->slot), std::as_bytes(std::span(model.bytes)),
                       &table.interrupt, work_reporter(collection));
}

int write(WarpTable& table, int argc, sqlite3_value** argv, sqlite3_int64* rowid) {
  if (sqlite3_value* const command = command_of(table, argc, argv)) {
    if (is_command(cell_of(command), kUseModel)) {
      use_model(table, argv + 2);
      return SQLITE_OK;
    }
    require_alone(table.definition(), argv + 2);
    run_command(table, cell_of(command));
    return SQLITE_OK;
  }
  if (table.open->content != nullptr) return follow(table, argc, argv, rowid);
  if (argc == 1) {
    table.collection().erase(sqlite3_value_int64(argv[0]), &table.interrupt);
    return SQLITE_OK;
  }
  RowWriter writer(table, argv + 2);
  if (sqlite3_value_type(argv[0]) != SQLITE_NULL) {
    return writer.update(sqlite3_value_int64(argv[0]), argv[1]);
  }
  return writer.insert(argv[1], rowid);
}

}  // namespace

int warp_update(sqlite3_vtab* vtab, int argc, sqlite3_value** argv, sqlite3_int64* rowid) {
  return guarded(vtab, [&] {
    auto& table = *static_cast<WarpTable*>(vtab);
    table.check_own();
    return write(table, argc, argv, rowid);
  });
}

}  // namespace warplite::sql
