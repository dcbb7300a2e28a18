#include "tests/support/sql_session.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>

namespace warplite::testing {
namespace {

std::string row_text(sqlite3_stmt* statement) {
  std::string row;
  for (int i = 0; i < sqlite3_column_count(statement); ++i) {
    if (i > 0) row += '|';
    const int type = sqlite3_column_type(statement, i);
    const void* data = type == SQLITE_BLOB ? sqlite3_column_blob(statement, i)
                                           : sqlite3_column_text(statement, i);
    const int size = sqlite3_column_bytes(statement, i);
    if (type == SQLITE_NULL) {
      row += "NULL";
    } else if (size > 0) {
      row.append(static_cast<const char*>(data), static_cast<std::size_t>(size));
    }
  }
  return row;
}

sqlite3* opened(const std::string& path) {
  sqlite3* db = nullptr;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK) {
    const std::string message = db == nullptr ? "out of memory" : sqlite3_errmsg(db);
    sqlite3_close(db);
    throw std::runtime_error(path + ": " + message);
  }
  return db;
}

}  // namespace

SqlSession::SqlSession(const std::string& path) : db_(opened(path)) {}

SqlSession::SqlSession(const std::vector<unsigned char>& image) : db_(opened(":memory:")) {
  const auto size = static_cast<sqlite3_int64>(image.size());
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(image.size()));
  std::memcpy(copy, image.data(), image.size());
  const unsigned flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE;
  if (sqlite3_deserialize(db_, "main", copy, size, size, flags) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(db_));
  }
}

SqlSession::~SqlSession() { sqlite3_close_v2(db_); }

SqlResult SqlSession::run(const std::string& sql) const {
  SqlResult result;
  for (const char* rest = sql.c_str(); *rest != '\0' && result.ok();) {
    sqlite3_stmt* statement = nullptr;
    int code = sqlite3_prepare_v2(db_, rest, -1, &statement, &rest);
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> owned(statement,
                                                                           &sqlite3_finalize);
    while (code == SQLITE_OK && statement != nullptr) {
      code = sqlite3_step(statement);
      if (code != SQLITE_ROW) break;
      result.rows.push_back(row_text(statement));
      code = SQLITE_OK;
    }
    if (code != SQLITE_OK && code != SQLITE_DONE) {
      result.code = sqlite3_extended_errcode(db_);
      result.message = sqlite3_errmsg(db_);
      if (result.code == SQLITE_OK) result.code = code;
    }
  }
  return result;
}

std::vector<std::string> SqlSession::must_run(const std::string& sql) const {
  SqlResult result = run(sql);
  if (!result.ok()) throw std::runtime_error(result.message + ": " + sql);
  return std::move(result.rows);
}

std::vector<unsigned char> SqlSession::image() const {
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(db_, "main", &size, 0);
  if (bytes == nullptr) throw std::runtime_error("sqlite3_serialize failed");
  const std::vector<unsigned char> copy(bytes, bytes + size);
  sqlite3_free(bytes);
  return copy;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void check_error(const SqlSession& session, const std::string& sql,
                 const std::vector<std::string>& parts) {
  const SqlResult result = session.run(sql);
  INFO(sql);
  INFO(result.message);
  CHECK(!result.ok());
  for (const std::string& part : parts) CHECK(contains(result.message, part));
}

}  // namespace warplite::testing
