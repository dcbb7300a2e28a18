// A SQLite connection for the C++ tests of storage and engine, which call them as if SQLite had; whatever
// fails ends the test.
#pragma once

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/support/in_host.h"

namespace warplite::testing {

class Database {
 public:
  explicit Database(const std::string& path = ":memory:") {
    REQUIRE(sqlite3_open(path.c_str(), &db_) == SQLITE_OK);
    sqlite3_busy_timeout(db_, 2000);
  }
  ~Database() { CHECK(sqlite3_close(db_) == SQLITE_OK); }  // fails if a statement is left open
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  sqlite3* get() const { return db_; }
  void run(const std::string& sql) {
    const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
    INFO(sql << ": " << sqlite3_errmsg(db_));
    REQUIRE(code == SQLITE_OK);
  }
  // The first value of the first row, as bytes; empty when there is no row.
  std::string value(const std::string& sql) {
    sqlite3_stmt* statement = prepare(sql);
    std::string result;
    if (sqlite3_step(statement) == SQLITE_ROW) {
      const auto* data = static_cast<const char*>(sqlite3_column_blob(statement, 0));
      result.assign(data, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
    }
    sqlite3_finalize(statement);
    return result;
  }
  std::int64_t integer(const std::string& sql) {
    const std::string text = value(sql);
    INFO(sql);
    REQUIRE(!text.empty());
    return std::stoll(text);
  }
  // Runs a statement whose ?1 is `blob`.
  void put(const std::string& sql, const std::string& blob) {
    sqlite3_stmt* statement = prepare(sql);
    sqlite3_bind_blob64(statement, 1, blob.data(), blob.size(), SQLITE_STATIC);
    CHECK(sqlite3_step(statement) == SQLITE_DONE);
    sqlite3_finalize(statement);
  }

 private:
  sqlite3_stmt* prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    INFO(sql << ": " << sqlite3_errmsg(db_));
    REQUIRE(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    return statement;
  }

  InHost host_;
  sqlite3* db_ = nullptr;
};

// A file that is removed with its journals.
class TemporaryFile {
 public:
  TemporaryFile() {
    static std::atomic<int> next{0};  // threads have files of their own
    path_ = "/tmp/warplite_test_" + std::to_string(::getpid()) + "_" + std::to_string(++next);
    remove();
  }
  ~TemporaryFile() { remove(); }
  const std::string& path() const { return path_; }

 private:
  void remove() const {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
      std::remove((path_ + suffix).c_str());
    }
  }
  std::string path_;
};

}  // namespace warplite::testing
