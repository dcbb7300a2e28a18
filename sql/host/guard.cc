#include "sql/host/guard.h"

#include "core/utf8.h"

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

void set_message(char** slot, std::string_view message, std::size_t most) {
  if (slot == nullptr) return;
  sqlite3_free(*slot);
  *slot = nullptr;
  *slot = sqlite3_mprintf("%s", printable(message, most).c_str());
}

void result_message(sqlite3_context* context, std::string_view message) try {
  const std::string text = printable(message, kMostMessage);
  sqlite3_result_error(context, text.data(), static_cast<int>(text.size()));
} catch (const std::bad_alloc&) {
  sqlite3_result_error_nomem(context);
}

}  // namespace warplite::sql
