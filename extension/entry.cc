// The entry points: SQLite finds one of them by the file's name, warplite.so, the other one whatever
// the file is called. In libwarplite.a, for which this is compiled with SQLITE_CORE, it is the
// application that calls.
#include <exception>

#include "core/system.h"
#include "extension/linked.h"
#include "extension/registrations.h"
#include "storage/sqlite_api.h"

#if defined(_WIN32)
#define WARPLITE_EXPORT __declspec(dllexport)
#else
#define WARPLITE_EXPORT __attribute__((visibility("default")))
#endif

extern "C" WARPLITE_EXPORT int sqlite3_warplite_init(sqlite3* db, char** message,
                                                     const sqlite3_api_routines* api);

namespace {

constexpr int kOldestLibrary = 3031000;

// Worker threads run this library's code after the last connection is closed, so it must not
// be unloaded. SQLITE_OK_LOAD_PERMANENTLY says so too, but sqlite3_auto_extension() takes it for
// a failure.
void stay_loaded() {
  warplite::os::keep_loaded(reinterpret_cast<void*>(&sqlite3_warplite_init));
}

// Once, or again when it threw.
bool start_process() {
  stay_loaded();
  warplite::register_process_parts();
  return true;
}

}  // namespace

int sqlite3_warplite_init(sqlite3* db, char** message, const sqlite3_api_routines* api) {
#ifdef SQLITE_CORE
  if (api == nullptr) api = warplite::host::linked_routines();
#endif
  const warplite::host::Scope scope(api);
  if (warplite::host::add_library(api) < 0) {
    *message = sqlite3_mprintf("warplite: more than %d SQLite libraries in one process",
                               warplite::host::kMostLibraries);
    return SQLITE_ERROR;
  }
  if (sqlite3_libversion_number() < kOldestLibrary) {
    *message = sqlite3_mprintf("warplite needs SQLite 3.31 or later, this is %s",
                               sqlite3_libversion());
    return SQLITE_ERROR;
  }
  try {
    [[maybe_unused]] static const bool started = start_process();
    return warplite::register_connection_parts(db, message);
  } catch (const std::exception& error) {
    *message = sqlite3_mprintf("warplite: %s", error.what());
    return SQLITE_ERROR;
  }
}

#ifndef SQLITE_CORE
extern "C" WARPLITE_EXPORT int sqlite3_extension_init(sqlite3* db, char** message,
                                                      const sqlite3_api_routines* api);

int sqlite3_extension_init(sqlite3* db, char** message, const sqlite3_api_routines* api) {
  return sqlite3_warplite_init(db, message, api);
}
#endif
