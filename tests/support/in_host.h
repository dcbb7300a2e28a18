// Lets a test call what only SQLite calls otherwise: while one lives, its thread is in an entry of the
// library that the tests are linked with (storage/sqlite_api.h).
#pragma once

namespace warplite::testing {

class InHost {
 public:
  InHost();
  ~InHost();
  InHost(const InHost&) = delete;
  InHost& operator=(const InHost&) = delete;
};

}  // namespace warplite::testing
