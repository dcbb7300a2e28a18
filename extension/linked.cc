// This file is compiled with SQLITE_CORE, so that names of SQLite's functions mean the functions.
#include "extension/linked.h"

#include <sqlite3ext.h>

namespace warplite::host {
namespace {

// Every function that the extension calls; tests/linked_routines.cmake finds one that is missing.
#define WARPLITE_ROUTINES(X) \
    X(aggregate_context) X(bind_blob) X(bind_blob64) X(bind_double) X(bind_int64) X(bind_null) \
    X(bind_parameter_count) X(bind_text64) X(bind_zeroblob64) X(blob_bytes) X(blob_close) X(blob_open) \
    X(blob_read) X(blob_write) X(clear_bindings) X(column_blob) X(column_bytes) X(column_count) X(column_double) \
    X(column_int) X(column_int64) X(column_text) X(column_type) X(column_value) \
    X(context_db_handle) X(create_function_v2) X(create_module_v2) X(db_config) X(db_filename) X(db_handle) \
    X(db_readonly) X(declare_vtab) X(errmsg) X(errstr) X(exec) X(extended_errcode) \
    X(file_control) X(finalize) X(free) X(get_autocommit) X(get_auxdata) X(last_insert_rowid) X(libversion) \
    X(libversion_number) X(limit) X(log) X(mprintf) X(next_stmt) X(prepare_v2) X(prepare_v3) X(reset) \
    X(result_blob64) X(result_double) X(result_error) X(result_error_code) X(result_error_nomem) \
    X(result_int) X(result_int64) X(result_null) X(result_subtype) X(result_text) \
    X(result_text64) X(result_value) X(set_auxdata) X(set_last_insert_rowid) X(sql) X(step) X(stmt_busy) \
    X(stmt_readonly) X(stmt_status) X(stricmp) X(table_column_metadata) X(total_changes) \
    X(total_changes64) X(txn_state) X(user_data) X(value_blob) X(value_bytes) X(value_double) \
    X(value_dup) X(value_free) X(value_int64) X(value_nochange) X(value_numeric_type) \
    X(value_subtype) X(value_text) X(value_type) X(vtab_collation) X(vtab_config) X(vtab_distinct) \
    X(vtab_in) X(vtab_in_first) X(vtab_in_next) X(vtab_nochange) X(vtab_on_conflict) X(vtab_rhs_value)

sqlite3_api_routines make_routines() {
  sqlite3_api_routines routines{};
#define WARPLITE_LINK(name) routines.name = sqlite3_##name;
  WARPLITE_ROUTINES(WARPLITE_LINK)
#undef WARPLITE_LINK
  routines.interruptx = sqlite3_interrupt;
  routines.xsnprintf = sqlite3_snprintf;
  return routines;
}

}  // namespace

const sqlite3_api_routines* linked_routines() {
  static const sqlite3_api_routines kRoutines = make_routines();
  return &kRoutines;
}

}  // namespace warplite::host
