// LIKE and GLOB by the host, for what the engine cannot know: an application may have overloaded
// like() and glob(), a BLOB is a text to some builds, and how a REAL is printed depends on the
// version and on the connection.
// Threads: as the connection. Errors: those of the host's functions, as Error{kHost}.
#pragma once

#include "core/value.h"
#include "engine/filter/filter.h"
#include "sql/host/statement.h"

namespace warplite::sql {

class HostPattern final : public engine::HostTest {
 public:
  // `op`: kLike or kGlob. The object keeps a copy of the pattern.
  HostPattern(sqlite3* db, engine::Comparison op, const Cell& pattern);
  bool passes(const Cell& value) override;

 private:
  Statement statement_;
};

}  // namespace warplite::sql
