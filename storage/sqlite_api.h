// SQLite as seen from a loadable extension: every call goes through a table of routines that the
// library hands over. A process may have several SQLite libraries (Python's own and apsw's, say), and
// what one of them made means nothing to another. So the table in use is that of the library which has
// called this thread: every function that SQLite calls is an entry (sql/host/entry.h), which sets it. Outside of
// entries there is none, and a call of SQLite ends the process: what forgot to be an entry shows in
// every test.
// Threads: each has its own; helper threads, which SQLite does not call, have none.
#pragma once

#include <sqlite3ext.h>

namespace warplite::host {

// Processes with more of them get an error from the entry point.
inline constexpr int kMostLibraries = 8;

#if defined(__GLIBC__)
// A load instead of a call; the C library has room for a pointer in libraries that are loaded late.
#define WARPLITE_TLS __attribute__((tls_model("initial-exec")))
#else
#define WARPLITE_TLS
#endif
extern constinit thread_local const sqlite3_api_routines* routines WARPLITE_TLS;

// The number of the library that has these routines, which is known from now on; -1 when there are
// too many. Threads: any.
int add_library(const sqlite3_api_routines* of);
// Null when there is none of this number.
const sqlite3_api_routines* library(int number);
// The number of the one that this thread is called by. REQUIRES: it is in an entry.
int current_library();

// While it lives, this thread calls the library that has these routines.
class Scope {
 public:
  explicit Scope(const sqlite3_api_routines* of) : before_(routines) { routines = of; }
  ~Scope() { routines = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const sqlite3_api_routines* before_;
};

}  // namespace warplite::host

#define sqlite3_api (::warplite::host::routines)

// Undefined here are the functions that hand others to SQLite to be called later: sql/host/entry.h
// calls them, or shows how.
#undef sqlite3_create_module
#undef sqlite3_create_module_v2
#undef sqlite3_create_function
#undef sqlite3_create_function16
#undef sqlite3_create_function_v2
#undef sqlite3_create_window_function
#undef sqlite3_create_collation
#undef sqlite3_create_collation16
#undef sqlite3_create_collation_v2
#undef sqlite3_collation_needed
#undef sqlite3_collation_needed16
#undef sqlite3_set_auxdata
#undef sqlite3_bind_pointer
#undef sqlite3_result_pointer
#undef sqlite3_set_authorizer
#undef sqlite3_progress_handler
#undef sqlite3_busy_handler
#undef sqlite3_commit_hook
#undef sqlite3_rollback_hook
#undef sqlite3_update_hook
#undef sqlite3_wal_hook
#undef sqlite3_trace_v2
#pragma GCC poison sqlite3_create_module sqlite3_create_module_v2
#pragma GCC poison sqlite3_create_function sqlite3_create_function16 sqlite3_create_function_v2
#pragma GCC poison sqlite3_create_window_function sqlite3_create_collation
#pragma GCC poison sqlite3_create_collation16 sqlite3_create_collation_v2
#pragma GCC poison sqlite3_collation_needed sqlite3_collation_needed16 sqlite3_set_auxdata
#pragma GCC poison sqlite3_bind_pointer sqlite3_result_pointer sqlite3_set_authorizer
#pragma GCC poison sqlite3_progress_handler sqlite3_busy_handler sqlite3_commit_hook
#pragma GCC poison sqlite3_rollback_hook sqlite3_update_hook sqlite3_wal_hook sqlite3_trace_v2
