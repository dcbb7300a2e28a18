// content= where a .test file does not reach: random changes against a brute-force answer with
// blocks that come and go, several connections and files, what an index takes of the file, and long
// work that is interrupted.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/residency.h"
#include "tests/database.h"
#include "tests/sql_session.h"

namespace warplite::testing {
namespace {

using Rows = std::vector<std::string>;

constexpr const char* kIndex =
    "CREATE VIRTUAL TABLE x USING warp(content=docs, e FLOAT[2], title TEXT distance=edit, year INTEGER, "
    "kind TEXT PARTITION KEY)";

void make_docs(const SqlSession& session) {
  session.must_run(
      "CREATE TABLE docs(id INTEGER PRIMARY KEY, code INTEGER UNIQUE, title TEXT, e, year, kind)");
}

// Nearest to (p, 0) by brute force over the content table, and through the index.
void check_same(const SqlSession& session, int point) {
  const std::string query = "'[" + std::to_string(point) + ",0]'";
  const Rows truth = session.must_run(
      "SELECT id FROM docs WHERE e IS NOT NULL ORDER BY vec_distance_l2(vec_f32(e), " + query +
      "), id LIMIT 7");
  CHECK(session.must_run("SELECT rowid FROM x WHERE e MATCH " + query + " AND k = 7") == truth);
  CHECK(session.must_run("SELECT rowid FROM x WHERE e MATCH " + query + " LIMIT 7") == truth);
  const Rows filtered = session.must_run(
      "SELECT id FROM docs WHERE e IS NOT NULL AND year >= 5 AND kind = 'b' ORDER BY "
      "vec_distance_l2(vec_f32(e), " + query + "), id LIMIT 5");
  CHECK(session.must_run("SELECT rowid FROM x WHERE e MATCH " + query +
                         " AND year >= 5 AND kind = 'b' AND k = 5") == filtered);
  const Rows texts = session.must_run(
      "SELECT id FROM docs WHERE title IS NOT NULL ORDER BY edit_distance(title, 'abcab'), id LIMIT 4");
  CHECK(session.must_run("SELECT rowid FROM x WHERE title MATCH 'abcab' AND k = 4") == texts);
  CHECK(session.must_run("SELECT rowid, year, title, e IS NULL FROM x ORDER BY rowid") ==
        session.must_run("SELECT id, year, title, e IS NULL FROM docs ORDER BY id"));
}

class RandomChanges {
 public:
  explicit RandomChanges(unsigned seed) : random_(seed) {}

  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  std::string statement(bool in_transaction) {
    switch (number(in_transaction ? 16 : 12)) {
      case 0:
      case 1:
      case 2: return "INSERT OR REPLACE INTO docs VALUES " + rows(1 + number(6));
      case 3: return "INSERT OR IGNORE INTO docs VALUES " + rows(1 + number(6));
      case 4:
      case 5: return "UPDATE docs SET e = " + vector() + " WHERE id % 7 = " + text(number(7));
      case 6: return "UPDATE OR REPLACE docs SET id = id + 3, year = year + 1 WHERE id % 11 = " +
                     text(number(11));
      case 7: return "DELETE FROM docs WHERE id % 13 = " + text(number(13));
      case 8: return "UPDATE docs SET title = " + title() + ", code = NULL WHERE id % 5 = 2";
      case 9: return "INSERT INTO x(x) VALUES ('optimize')";
      case 10: return number(3) == 0 ? "INSERT INTO x(x) VALUES ('rebuild')" : "SELECT 1";
      case 11: return in_transaction ? "COMMIT" : "BEGIN";
      case 12: return "SAVEPOINT s";
      case 13: return "ROLLBACK TO s";
      case 14: return "RELEASE s";
      default: return "ROLLBACK";
    }
  }

 private:
  static std::string text(int n) { return std::to_string(n); }
  std::string vector() {
    if (number(8) == 0) return "NULL";
    return "vec_f32('[" + text(number(40)) + "," + text(number(3)) + "]')";
  }
  std::string title() {
    std::string result = "'";
    for (int i = number(7); i > 0; --i) result += static_cast<char>('a' + number(3));
    return number(9) == 0 ? "NULL" : result + "'";
  }
  std::string rows(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += std::string(i == 0 ? "" : ", ") + "(" + text(number(90)) + ", " +
             (number(3) == 0 ? "NULL" : text(number(60))) + ", " + title() + ", " + vector() +
             ", " + text(number(10)) + ", '" + "abc"[number(3)] + "')";
    }
    return all;
  }

  std::mt19937 random_;
};

std::int64_t number_of(const SqlSession& session, const std::string& sql) {
  return std::stoll(session.must_run(sql).at(0));
}

}  // namespace

TEST_CASE("Random changes of a content table, blocks that are evicted, and rollbacks") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    RandomChanges changes(seed);
    const SqlSession session(":memory:");
    make_docs(session);
    session.must_run(kIndex);
    for (int step = 0; step < 120; ++step) {
      const bool in_transaction = sqlite3_get_autocommit(session.db()) == 0;
      const std::string sql = changes.statement(in_transaction);
      CAPTURE(step);
      CAPTURE(sql);
      const SqlResult result = session.run(sql);
      if (!result.ok()) CHECK_MESSAGE(result.message.find("no such savepoint") == 0, result.message);
      if (changes.number(4) == 0) engine::Residency::instance().clear();
      if (changes.number(3) != 0) check_same(session, changes.number(40));
    }
    if (sqlite3_get_autocommit(session.db()) == 0) session.must_run("COMMIT");
    check_same(session, 3);
    session.must_run("INSERT INTO x(x) VALUES ('integrity-check')");
  }
}

TEST_CASE("Connections with different snapshots share what was read of a content table") {
  const TemporaryFile file;
  const SqlSession writer(file.path());
  writer.must_run("PRAGMA journal_mode = wal");
  make_docs(writer);
  writer.must_run(
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300) "
      "INSERT INTO docs SELECT n, n, 'a', vec_f32('[' || n || ',0]'), n % 10, 'b' FROM c");
  writer.must_run(kIndex);
  writer.must_run("INSERT INTO x(x) VALUES ('optimize')");
  const SqlSession reader(file.path());
  engine::Residency::instance().clear();
  reader.must_run("BEGIN");
  check_same(reader, 20);
  writer.must_run("UPDATE docs SET e = vec_f32('[500,0]') WHERE id BETWEEN 10 AND 30; "
                  "DELETE FROM docs WHERE id BETWEEN 31 AND 40");
  engine::Residency::instance().clear();
  check_same(writer, 20);
  check_same(reader, 20);
  check_same(writer, 20);
  reader.must_run("COMMIT");
  check_same(reader, 20);
  writer.must_run("BEGIN; DELETE FROM docs WHERE id < 100");
  engine::Residency::instance().clear();
  check_same(writer, 50);
  check_same(reader, 50);
  writer.must_run("ROLLBACK");
  check_same(writer, 50);
  check_same(reader, 50);
}

TEST_CASE("A row takes less than 64 bytes of an index with content=") {
  const SqlSession with(":memory:"), without(":memory:");
  const auto both = [&](const std::string& sql) {
    with.must_run(sql);
    without.must_run(sql);
  };
  const auto taken = [&] {
    const std::string bytes =
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    return number_of(with, bytes) - number_of(without, bytes);
  };
  both("CREATE TABLE docs(id INTEGER PRIMARY KEY, e, year)");
  both("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) "
       "INSERT INTO docs SELECT n * 3, zeroblob(32), n % 7 FROM c");
  with.must_run("CREATE VIRTUAL TABLE x USING warp(content=docs, e INT8[32], year INTEGER)");
  CHECK(taken() < 20000 * 64);
  both("INSERT INTO docs SELECT id + 100000, e, year FROM docs LIMIT 8000");
  CHECK(taken() < 28000 * 64);
  CHECK(with.must_run("SELECT count(*) FROM x") == Rows{"28000"});
}

TEST_CASE("An index over a large table can be interrupted, and leaves nothing behind") {
  const SqlSession session(":memory:");
  session.must_run("CREATE TABLE docs(id INTEGER PRIMARY KEY, e)");
  session.must_run(
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300000) "
      "INSERT INTO docs SELECT n, randomblob(64) FROM c");
  const std::string create = "CREATE VIRTUAL TABLE x USING warp(content=docs, e INT8[64])";
  const auto leftovers = [&] {
    return session.must_run("SELECT name FROM sqlite_schema WHERE name <> 'docs'");
  };
  for (const char* before : {"SELECT 1", "BEGIN"}) {
    session.must_run(before);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      sqlite3_interrupt(session.db());
    });
    const SqlResult result = session.run(create);
    other.join();
    CHECK(result.code == SQLITE_INTERRUPT);
    if (sqlite3_get_autocommit(session.db()) == 0) {
      CHECK(leftovers().empty());
      session.must_run("COMMIT");
    }
    CHECK(leftovers().empty());
  }
  session.must_run("DELETE FROM docs WHERE id > 1000; INSERT INTO docs VALUES (2000, x'00')");
  const SqlResult refused = session.run(create);
  CHECK(refused.message.find("x: docs.e: expected") != std::string::npos);
  CHECK(refused.message.find("(row 2000)") != std::string::npos);
  CHECK(leftovers().empty());
  session.must_run("DELETE FROM docs WHERE id = 2000");
  session.must_run(create);
  CHECK(session.must_run("SELECT count(*) FROM x") == Rows{"1000"});
}

}  // namespace warplite::testing
