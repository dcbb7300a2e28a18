// The vec_* scalar functions. Names, arguments and results are those users of
// sqlite-vec know, except that NULL gives NULL and that results are always finite.
#pragma once

#include <vector>

#include "storage/sqlite_api.h"

namespace warplite::sql {

struct ScalarFunction {
  const char* name;
  int arguments;
  void (*body)(sqlite3_context*, sqlite3_value** arguments);  // may throw
  bool takes_null = false;  // else a NULL argument gives NULL, without a call
};

// Returns the functions, which live as long as the process.
const std::vector<ScalarFunction>& vector_functions();

}  // namespace warplite::sql
