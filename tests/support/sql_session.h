// A SQLite connection for tests in C++: runs SQL and renders rows as text, one string a row,
// values separated by |.
// Ownership: closes the connection. Errors: run() returns them; must_run() throws.
#pragma once

#include <sqlite3.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace warplite::testing {

struct SqlResult {
  int code = SQLITE_OK;
  std::string message;
  std::vector<std::string> rows;

  bool ok() const { return code == SQLITE_OK; }
};

class SqlSession {
 public:
  // Throws std::runtime_error.
  explicit SqlSession(const std::string& path);
  // A database in memory that begins as these bytes.
  explicit SqlSession(const std::vector<unsigned char>& image);
  ~SqlSession();
  SqlSession(const SqlSession&) = delete;
  SqlSession& operator=(const SqlSession&) = delete;

  sqlite3* db() const { return db_; }
  // Every statement, to the end or to the first error.
  SqlResult run(const std::string& sql) const;
  std::vector<std::string> must_run(const std::string& sql) const;
  std::vector<unsigned char> image() const;

 private:
  sqlite3* db_ = nullptr;
};

bool contains(const std::string& text, const std::string& part);
// The statement fails, with a message that has all of `parts`.
void check_error(const SqlSession& session, const std::string& sql,
                 const std::vector<std::string>& parts);

}  // namespace warplite::testing
