// Rows that left a table with content= without a word to its index.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/database.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

using Rows = std::vector<std::string>;

// Rows of docs of which every one may make room for another by its code, and an index of them.
void make_replaceable(const SqlSession& session, int rows,
                      const std::string& key = "id INTEGER PRIMARY KEY, ") {
  const std::string count = std::to_string(rows);
  session.must_run("CREATE TABLE docs(" + key + "code INTEGER UNIQUE, e BLOB)");
  session.must_run("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < " +
                   count + ") INSERT INTO docs(rowid, code, e) SELECT n, n, randomblob(8) FROM c");
  session.must_run("CREATE VIRTUAL TABLE x USING warp(content=docs, e INT8[8])");
}

// The rows alive in the index.
std::int64_t rows_in_index(const SqlSession& session) {
  constexpr const char* kByte = "0123456789ABCDEF";
  std::int64_t rows = std::stoll(session.must_run("SELECT count(*) FROM x_tail").at(0));
  // The number is four bytes of a segment's directory entry (storage/file_format.md).
  for (const std::string& hex : session.must_run("SELECT hex(substr(info, 29, 4)) FROM x_segments")) {
    std::int64_t live = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto digit = [&](std::size_t at) { return std::strchr(kByte, hex[at]) - kByte; };
      live += (digit(2 * i) * 16 + digit(2 * i + 1)) << (8 * i);
    }
    rows += live;
  }
  return rows;
}

// Takes the rows of the first codes away, and tells no trigger.
void replace_first(const SqlSession& session, int rows) {
  session.must_run("INSERT OR REPLACE INTO docs(rowid, code, e) "
                   "SELECT rowid + 1000000, code, e FROM docs WHERE code <= " +
                   std::to_string(rows));
}

}  // namespace

TEST_CASE("'optimize' takes all rows out of an index that went without a word") {
  for (const char* key : {"id INTEGER PRIMARY KEY, ", ""}) {
    CAPTURE(key);
    const SqlSession session(":memory:");
    make_replaceable(session, 90000, key);
    replace_first(session, 80000);
    CHECK(rows_in_index(session) == 170000);
    session.must_run("INSERT INTO x(x) VALUES ('optimize')");
    CHECK(rows_in_index(session) == 90000);
  }
}

TEST_CASE("Rows that were found missing when segments were read leave with the writes that follow") {
  const TemporaryFile file;
  const SqlSession session(file.path());
  make_replaceable(session, 30000);
  replace_first(session, 20000);
  CHECK(rows_in_index(session) == 50000);
  const auto nearest = [&] {
    CHECK(session.must_run("SELECT rowid FROM x WHERE e MATCH zeroblob(8) AND k = 5") ==
          session.must_run("SELECT rowid FROM docs ORDER BY vec_distance_l2(vec_int8(e), "
                           "vec_int8(zeroblob(8))), id LIMIT 5"));
  };
  nearest();
  for (int write = 0; write < 4; ++write) {
    session.must_run("UPDATE docs SET e = randomblob(8) WHERE code = 25000");
    nearest();
  }
  CHECK(rows_in_index(session) == 30000);
  session.must_run("INSERT INTO x(x) VALUES ('integrity-check')");

  // In the tail, too.
  replace_first(session, 10);
  const SqlSession other(file.path());
  CHECK(other.must_run("SELECT count(*) FROM x") == Rows{"30000"});
  other.must_run("UPDATE docs SET e = randomblob(8) WHERE code = 25000");
  CHECK(rows_in_index(other) == 30000);
}

}  // namespace warplite::testing
