// The routines of the SQLite that the extension is linked with, for an application that hands over
// none (include/warplite.h). Part of libwarplite.a alone.
#pragma once

struct sqlite3_api_routines;

namespace warplite::host {

// Threads: any.
const sqlite3_api_routines* linked_routines();

}  // namespace warplite::host
