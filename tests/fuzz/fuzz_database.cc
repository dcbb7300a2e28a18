#include "tests/fuzz/fuzz_database.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/utf8.h"

extern "C" int sqlite3_warplite_init(sqlite3* db, char** message, const void* api);

namespace warplite::fuzzing {

sqlite3* database() {
  static sqlite3* const db = [] {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(sqlite3_warplite_init));
    sqlite3* opened = nullptr;
    require(sqlite3_open(":memory:", &opened) == SQLITE_OK, "cannot open a database");
    return opened;
  }();
  return db;
}

sqlite3* copy_of(const std::vector<unsigned char>& image) {
  const auto size = static_cast<sqlite3_int64>(image.size());
  sqlite3* db = nullptr;
  require(sqlite3_open(":memory:", &db) == SQLITE_OK, "cannot open a database");
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(image.size()));
  std::copy(image.begin(), image.end(), copy);
  sqlite3_deserialize(db, "main", copy, size, size,
                      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  return db;
}

void require(bool holds, const std::string& message) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

void check_message(sqlite3* db) {
  constexpr std::size_t kMost = 4000;
  const std::string message = sqlite3_errmsg(db);
  for (const char* own : {"near \"", "unrecognized token", "no such "}) {
    if (message.starts_with(own)) return;
  }
  require(printable(message, kMost) == message, "not printable: " + message);
}

bool run(sqlite3* db, const std::string& sql) {
  const bool done = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  if (!done) check_message(db);
  return done;
}

std::string answer(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr);
  const int code = sqlite3_step(statement);
  std::string text = "error: ";
  if (code == SQLITE_ROW) {
    const unsigned char* value = sqlite3_column_text(statement, 0);
    text = value == nullptr ? "NULL" : reinterpret_cast<const char*>(value);
  } else if (code == SQLITE_DONE) {
    text = "no row";
  } else {
    text += sqlite3_errmsg(db);
    check_message(db);
  }
  sqlite3_finalize(statement);
  return text;
}

}  // namespace warplite::fuzzing
