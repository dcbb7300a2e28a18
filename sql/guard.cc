#include "sql/guard.h"

namespace warplite::sql {

int result_code(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::kConstraint: return SQLITE_CONSTRAINT;
    case ErrorKind::kCorrupt: return SQLITE_CORRUPT_VTAB;
    case ErrorKind::kNoMemory: return SQLITE_NOMEM;
    case ErrorKind::kInterrupted: return SQLITE_INTERRUPT;
    case ErrorKind::kReadOnly: return SQLITE_READONLY;
    case ErrorKind::kHost:
      return error.host_code() != SQLITE_OK ? error.host_code() : SQLITE_ERROR;
    default: return SQLITE_ERROR;
  }
}

void set_message(char** slot, const std::string& message) {
  if (slot == nullptr) return;
  sqlite3_free(*slot);
  *slot = sqlite3_mprintf("%s", message.c_str());
}

}  // namespace warplite::sql
