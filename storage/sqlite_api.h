// SQLite as seen from a loadable extension: every call goes through the host's
// table of routines, which extension/entry.cc receives.
#pragma once

#include <sqlite3ext.h>

extern "C" {
SQLITE_EXTENSION_INIT3
}
