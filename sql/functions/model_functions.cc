#include "sql/functions/model_functions.h"

#include <memory>
#include <string>

#include "core/error.h"
#include "core/listing.h"
#include "sql/definition/values.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
#include "sql/host/statement.h"
#include "sql/table/commands.h"
#include "sql/table/context.h"
#include "storage/statements.h"

namespace warplite::sql {
namespace {

constexpr const char* kModel = "warp_model";
constexpr const char* kSetModel = "warp_use_model";

struct Target {
  std::shared_ptr<OpenTable> table;
  const ColumnDefinition* column;
};

std::string name_argument(sqlite3_value* value, const char* function, const char* expected) {
  const Cell cell = cell_of(value);
  if (cell.kind == CellKind::kText) return std::string(cell.bytes);
  throw Error(ErrorKind::kInvalid, std::string(function) + ": expected the name of a " + expected +
                                       ", got " + describe(cell));
}

// Finds the table and the column that the first two arguments name.
Target find_target(sqlite3_context* context, sqlite3_value** arguments, const char* function) {
  auto& tables = *static_cast<Context*>(sqlite3_user_data(context));
  Target target{tables.find(name_argument(arguments[0], function, "warp table")), nullptr};
  target.column = &target.table->definition.vector_column(
      name_argument(arguments[1], function, "vector column"), function, VectorColumns::kDense);
  return target;
}

// NULL: the index has learnt nothing yet.
void read_model(sqlite3_context* context, sqlite3_value** arguments) {
  const Target target = find_target(context, arguments, kModel);
  const TableDefinition& definition = target.table->definition;
  const auto column = static_cast<std::size_t>(target.column->slot);
  engine::Collection& collection = *target.table->collection;
  const index::Trained* index = collection.index(column).trained();
  if (index == nullptr) {
    throw Error(ErrorKind::kInvalid, std::string(kModel) + ": " + definition.table + "." +
                                         target.column->name +
                                         " has no model: its index does not learn");
  }
  const std::shared_ptr<const engine::View> view = collection.view();
  if (view->model(column).is_null()) return sqlite3_result_null(context);
  const std::span<const std::byte> bytes = view->load_model(column, *index)->bytes();
  result_cell(context, Cell::blob({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

// By a statement that writes, so that SQLite tells the table of the transaction.
void set_model(sqlite3_context* context, sqlite3_value** arguments) {
  const Target target = find_target(context, arguments, kSetModel);
  const TableDefinition& definition = target.table->definition;
  const Cell model = cell_of(arguments[2]);
  if (model.kind != CellKind::kBlob) {
    throw Error(ErrorKind::kInvalid, std::string(kSetModel) + ": expected a BLOB that " + kModel +
                                         "() gave, got " + describe(model));
  }
  sqlite3* db = sqlite3_context_db_handle(context);
  const storage::KeepLastInsertRowid keep(db);
  const Statement write = prepare(
      db, "INSERT INTO " + quoted_name(definition.schema) + "." + quoted_name(definition.table) +
              "(" + quoted_name(definition.hidden_name(kCommand)) + ", " +
              quoted_name(target.column->name) + ") VALUES (?1, ?2)");
  bind_text(write.get(), 1, kUseModel);
  const char* const bytes = model.bytes.data() != nullptr ? model.bytes.data() : "";
  const int code =
      sqlite3_bind_blob64(write.get(), 2, bytes, model.bytes.size(), SQLITE_STATIC);
  if (code != SQLITE_OK) throw Error(ErrorKind::kHost, code, sqlite3_errstr(code));
  step(write.get());
  sqlite3_result_int(context, 1);
}

template <void (*body)(sqlite3_context*, sqlite3_value**)>
void call(sqlite3_context* context, int, sqlite3_value** arguments) {
  guarded(context, [&] { body(context, arguments); });
}

}  // namespace

int register_model_functions(sqlite3* db, Context* context) {
  const int code = create_function<call<read_model>>(db, kModel, 2, SQLITE_INNOCUOUS, context);
  if (code != SQLITE_OK) return code;
  return create_function<call<set_model>>(db, kSetModel, 3, SQLITE_DIRECTONLY, context);
}

}  // namespace warplite::sql
