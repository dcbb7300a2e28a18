#include "sql/functions/scalar_functions.h"

#include <string>

#include "compute/edit_distance.h"
#include "core/error.h"
#include "sql/definition/values.h"
#include "sql/functions/config.h"
#include "sql/functions/vector_functions.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"
#include "sql/table/context.h"

// SQLite has this flag since 3.45: it says that results carry a subtype. Older versions ignore it.
#ifndef SQLITE_RESULT_SUBTYPE
#define SQLITE_RESULT_SUBTYPE 0x001000000
#endif

namespace warplite::sql {
namespace {

// Text as SQLite converts to it; NULL is empty.
std::string_view text_of(sqlite3_value* value) {
  if (sqlite3_value_type(value) == SQLITE_NULL) return {};
  const char* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  if (text == nullptr) throw std::bad_alloc();
  return std::string_view(text, static_cast<std::size_t>(sqlite3_value_bytes(value)));
}

void edit_distance(sqlite3_context* context, sqlite3_value** arguments) {
  Interrupt interrupt(sqlite3_context_db_handle(context));
  sqlite3_result_int64(context, static_cast<sqlite3_int64>(compute::edit_distance(
                                    text_of(arguments[0]), text_of(arguments[1]), &interrupt)));
}

void version(sqlite3_context* context, int, sqlite3_value**) {
  const auto* text = static_cast<const char*>(sqlite3_user_data(context));
  sqlite3_result_text(context, text, -1, SQLITE_STATIC);
}

void read_config(sqlite3_context* context, sqlite3_value** arguments) {
  result_cell(context, read_setting(text_of(arguments[0])).cell());
}

void write_config(sqlite3_context* context, sqlite3_value** arguments) {
  result_cell(context, write_setting(text_of(arguments[0]), cell_of(arguments[1])).cell());
}

constexpr ScalarFunction kEditDistance{"edit_distance", 2, edit_distance};
constexpr ScalarFunction kReadConfig{"warp_config", 1, read_config};
constexpr ScalarFunction kWriteConfig{"warp_config", 2, write_config, true};

void call(sqlite3_context* context, int count, sqlite3_value** arguments) {
  const auto* function = static_cast<const ScalarFunction*>(sqlite3_user_data(context));
  for (int i = 0; i < count; ++i) {
    if (sqlite3_value_type(arguments[i]) == SQLITE_NULL && !function->takes_null) {
      return sqlite3_result_null(context);
    }
  }
  guarded(context, [&] { function->body(context, arguments); });
}

int add(sqlite3* db, const ScalarFunction& function, int flags) {
  return create_function<call>(db, function.name, function.arguments, flags,
                               const_cast<ScalarFunction*>(&function));
}

}  // namespace

int register_scalar_functions(sqlite3* db, const char* version_text) {
  constexpr int kPure = SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC;
  int code = SQLITE_OK;
  for (const ScalarFunction& function : vector_functions()) {
    if (code != SQLITE_OK) break;
    code = add(db, function, kPure | SQLITE_SUBTYPE | SQLITE_RESULT_SUBTYPE);
  }
  if (code == SQLITE_OK) code = add(db, kEditDistance, kPure);
  if (code == SQLITE_OK) {
    code = create_function<version>(db, "warp_version", 0, kPure, const_cast<char*>(version_text));
  }
  if (code == SQLITE_OK) code = add(db, kReadConfig, SQLITE_INNOCUOUS);
  // Changes the process: never from a view or a trigger of somebody's file.
  if (code == SQLITE_OK) code = add(db, kWriteConfig, SQLITE_DIRECTONLY);
  return code;
}

int register_vec0_versions(sqlite3* db) {
  static char number[] = "v0.1.9";
  static char words[] = "warplite, with the module vec0 and the functions of sqlite-vec v0.1.9";
  constexpr int kPure = SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC;
  const int code = create_function<version>(db, "vec_version", 0, kPure, number);
  return code != SQLITE_OK ? code : create_function<version>(db, "vec_debug", 0, kPure, words);
}

}  // namespace warplite::sql
