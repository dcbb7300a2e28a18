#include "core/error.h"

namespace warplite {

void check_failed(const char* expression, const char* file, int line) {
  // Thrown rather than aborted: the host application's data is worth more than
  // a core dump, and the C boundary turns it into SQLITE_INTERNAL.
  throw Error(ErrorKind::kInvalid, std::string("internal check failed: ") + expression + " at " +
                                       file + ":" + std::to_string(line));
}

}  // namespace warplite
