// Exact searches of a table that is larger than memory may be: where a filter leaves few rows,
// these alone are read, and what is found is what is found in memory.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/database.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

// Five segments; of column a they take 2 MB each, but for the last. Filters on g leave rows of all
// of them.
constexpr int kRows = 40000;
const std::string kColumns[] = {"a", "b", "c", "d"};

// Rows x of c; every seventh, fifth or third has no vector in one of the columns.
const std::string kNewRows =
    ", v(x, r) AS MATERIALIZED (SELECT x, CAST(printf('%08x%08x%08x%08x%08x%08x%08x%08x', "
    "x * 2654435761 % 4294967296, x * 40503 % 4294967291, x * 2246822519 % 4294967279, "
    "x * 3266489917 % 4294967231, x * 668265263 % 4294967197, x * 374761393 % 4294967189, "
    "x * 97 % 4294967161, x * 31 % 4294967143) AS BLOB) FROM c) "
    "INSERT INTO t(id, a, b, c, d, g) SELECT x, iif(x % 7 = 0, NULL, vec_to_json(vec_int8(r))), "
    "iif(x % 5 = 0, NULL, vec_to_json(vec_int8(r))), iif(x % 3 = 0, NULL, vec_int8(r)), "
    "vec_bit(r), "
    "x * 7919 % " +
    std::to_string(kRows) + " FROM v";

std::string rows_from(int first, int last) {
  return "WITH RECURSIVE c(x) AS (SELECT " + std::to_string(first) +
         " UNION ALL SELECT x + 1 FROM c WHERE x < " + std::to_string(last) + ")" + kNewRows;
}

void make_table(const SqlSession& session) {
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, a FLOAT[64], b FLOAT16[64] "
      "distance=l1, "
      "c INT8[64] distance=cosine, d BIT[512], g INTEGER)");
  session.must_run(rows_from(1, kRows));
  session.must_run("CREATE TABLE q AS SELECT id, a, b, c, d FROM t WHERE id IN (1, 11, 22, 31397)");
}

std::string between(int first, int count) {
  return "g BETWEEN " + std::to_string(first) + " AND " + std::to_string(first + count - 1);
}

// One query after another, a batch, a search within a distance, and one that goes on.
std::vector<std::string> answers(const SqlSession& session) {
  std::vector<std::string> all;
  const auto ask = [&](const std::string& sql) {
    const auto rows = session.must_run(sql);
    all.push_back(std::to_string(rows.size()));
    all.insert(all.end(), rows.begin(), rows.end());
  };
  for (const std::string& column : kColumns) {
    const std::string query = "(SELECT " + column + " FROM q WHERE id = 22)";
    const std::string match = "SELECT id, distance FROM t WHERE " + column + " MATCH " + query;
    for (const int count : {1, 50, 3000}) {
      const std::string filter = between(count * 7, count);
      ask(match + " AND k = 10 AND " + filter);
      ask(match + " AND " + filter + " ORDER BY distance LIMIT 40");
      ask("SELECT hex(rowids), hex(distances) FROM warp_knn_arrays('t', '" + column +
          "', (SELECT q." + column + " FROM q WHERE id = 1), 5, '{\"filter\":\"" + filter +
          "\"}')");
      ask("SELECT * FROM warp_knn_join('t', '" + column + "', 'SELECT id, " + column +
          " FROM q', 5, '{\"filter\":\"" + filter + "\"}')");
    }
    ask("SELECT id, distance FROM t WHERE " + column + " MATCH " + query + " AND " +
        between(500, 60) + " AND distance <= (SELECT max(distance) * 0.9 FROM (" + match +
        " AND k = 60 AND " + between(500, 60) + "))");
  }
  return all;
}

void set_limit(const SqlSession& session, const char* bytes) {
  session.must_run(std::string("SELECT warp_config('cpu_memory_limit', '") + bytes + "')");
}

// Whether the answers under any limit are those without one.
void check_answers(const SqlSession& session) {
  set_limit(session, "0");
  const std::vector<std::string> expected = answers(session);
  CHECK(expected.size() > 500);
  for (const char* limit : {"9MB", "3MB", "1MB", "1000"}) {
    CAPTURE(limit);
    set_limit(session, limit);
    for (int i = 0; i < 2; ++i) CHECK(answers(session) == expected);
  }
  set_limit(session, "0");
}

// What this process has read of files so far; nothing: the system does not say.
std::size_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::size_t bytes = 0;
  return file >> name >> bytes ? bytes : 0;
}

}  // namespace

TEST_CASE("beyond memory: searches with filters find what they find in memory") {
  const TemporaryFile file;
  const SqlSession session(file.path());
  make_table(session);
  check_answers(session);
  session.must_run(
      "DELETE FROM t WHERE id % 4 = 1; UPDATE t SET a = vec_to_json(b), g = g + 1 WHERE id % 1000 "
      "= 2");
  session.must_run(rows_from(kRows + 1, kRows + 3000));
  check_answers(session);
  session.must_run(
      "BEGIN; DELETE FROM t WHERE id % 6 = 2; UPDATE t SET a = NULL WHERE id % 90 = 4");
  session.must_run(rows_from(kRows + 3001, kRows + 3500));
  check_answers(session);
  session.must_run("ROLLBACK");
  check_answers(session);
}

TEST_CASE("beyond memory: bits of signatures are told from the vectors that they were made of") {
  const TemporaryFile file;
  const SqlSession session(file.path());
  make_table(session);
  session.must_run(
      "CREATE VIRTUAL TABLE s USING warp(id INTEGER PRIMARY KEY, e INT8[64] distance=cosine "
      "index=lsh, g INTEGER);"
      "INSERT INTO s SELECT id, c, g FROM t; INSERT INTO s(s) VALUES ('train')");
  const auto ask = [&] {
    std::vector<std::string> all;
    for (const int count : {500, 1500}) {
      const auto rows = session.must_run(
          "SELECT id, distance FROM s WHERE e MATCH (SELECT c FROM q WHERE id = 22) "
          "AND k = 4 AND " +
          between(count, count));
      all.insert(all.end(), rows.begin(), rows.end());
      CHECK(session.must_run("SELECT method FROM warp_explain()")[0] == "approximate index");
    }
    return all;
  };
  const std::vector<std::string> expected = ask();
  CHECK(expected.size() == 8);
  for (const char* limit : {"1MB", "300000", "100000", "1000"}) {
    CAPTURE(limit);
    set_limit(session, limit);
    for (int i = 0; i < 2; ++i) CHECK(ask() == expected);
  }
  set_limit(session, "0");
}

TEST_CASE("beyond memory: of few rows that pass a filter, these alone are read") {
  if (bytes_read() == 0) return;
  const TemporaryFile file;
  const SqlSession session(file.path());
  make_table(session);
  set_limit(session, "1MB");
  const auto read = [&](const std::string& column, const std::string& rest) {
    const std::size_t before = bytes_read();
    session.must_run("SELECT count(*) FROM t WHERE " + column + " MATCH (SELECT " + column +
                     " FROM q WHERE id = 22) AND " + rest);
    return bytes_read() - before;
  };
  for (const std::string& column : kColumns) {
    CAPTURE(column);
    read(column, "k = 10 AND " + between(0, 40));  // whole segments: checksums are of these
    std::size_t all = 0;
    for (int i = 1; i <= 20; ++i) all += read(column, "k = 10 AND " + between(i * 40, 40));
    all += read(column, "distance < 100 AND " + between(0, 40));
    CHECK(all > 0);
    CHECK(all < std::size_t{21} * 40 * 8192);                 // a page or two of each row
    CHECK(read(column, "k = 10") > std::size_t{kRows} * 32);  // most vectors
  }
  set_limit(session, "0");
}

}  // namespace warplite::testing
