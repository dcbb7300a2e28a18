// content= where a .test file does not reach: random changes against a brute-force answer with
// blocks that come and go, several connections and files, what an index takes of the file, and long
// work that is interrupted.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/support/database.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

using Rows = std::vector<std::string>;

constexpr const char* kIndex =
    "CREATE VIRTUAL TABLE x USING warp(content=docs, e FLOAT[2], title TEXT distance=edit, "
    "year INTEGER, kind TEXT PARTITION KEY, +code)";

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

// Of scans that read no value of the index.
void check_same_rows(const SqlSession& session) {
  CHECK(session.must_run("SELECT count(*) FROM x") ==
        session.must_run("SELECT count(*) FROM docs"));
  CHECK(session.must_run("SELECT rowid, code FROM x WHERE rowid > 20") ==
        session.must_run("SELECT id, code FROM docs WHERE id > 20 ORDER BY id"));
}

// The index hears of every row that went without a word.
void tell_of_vanished(const SqlSession& session) {
  session.must_run(
      "WITH RECURSIVE c(n) AS (SELECT -200 UNION ALL SELECT n + 1 FROM c WHERE n < 1000) "
      "INSERT INTO x(rowid) SELECT n FROM c WHERE n NOT IN (SELECT id FROM docs)");
}

// The texts of the statements on docs that run on a connection, those of extensions included.
class Statements {
 public:
  explicit Statements(const SqlSession& session) : db_(session.db()) {
    sqlite3_trace_v2(db_, SQLITE_TRACE_STMT, &Statements::note, this);
  }
  ~Statements() { sqlite3_trace_v2(db_, 0, nullptr, nullptr); }
  Statements(const Statements&) = delete;
  Statements& operator=(const Statements&) = delete;

  std::size_t count() const { return texts_.size(); }
  bool any_has(const std::string& part) const {
    return std::any_of(texts_.begin(), texts_.end(),
                       [&](const std::string& text) { return text.find(part) != text.npos; });
  }

 private:
  static int note(unsigned, void* self, void* statement, void*) {
    const char* text = sqlite3_sql(static_cast<sqlite3_stmt*>(statement));
    // How often a search asks whether it was interrupted depends on the time it takes.
    if (text != nullptr && std::strstr(text, "docs") != nullptr) {
      static_cast<Statements*>(self)->texts_.emplace_back(text);
    }
    return 0;
  }

  sqlite3* db_;
  std::vector<std::string> texts_;
};

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
      const int point = changes.number(40);
      if (changes.number(2) == 0) check_same_rows(session);
      if (changes.number(3) != 0) check_same(session, point);
    }
    if (sqlite3_get_autocommit(session.db()) == 0) session.must_run("COMMIT");
    check_same(session, 3);
    check_same_rows(session);
    tell_of_vanished(session);
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

TEST_CASE("Scans of an index over a content table read that table in few statements") {
  const SqlSession session(":memory:");
  make_docs(session);
  session.must_run(
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) "
      "INSERT INTO docs SELECT 5 * n, n, 'a', vec_f32('[' || n || ',0]'), n % 10, 'b' FROM c");
  session.must_run(kIndex);
  session.must_run("INSERT INTO x(x) VALUES ('optimize')");
  session.must_run(
      "CREATE VIRTUAL TABLE y USING warp(content=docs, sync=manual, e FLOAT[2], year INTEGER)");
  const auto same = [&](const std::string& ours, const std::string& truth) {
    CAPTURE(ours);
    const Rows expected = session.must_run(truth);
    const Statements statements(session);
    CHECK(session.must_run(ours) == expected);
    CHECK(statements.count() < 100);
    return statements.any_has("c.\"e\"");
  };
  // Sees that all is there, as after any change of the schema.
  session.must_run("SELECT count(*) FROM x");
  // Nothing was read yet, and what rows there are takes no more than rowids.
  engine::Residency::instance().clear();
  CHECK_FALSE(same("SELECT count(*) FROM x", "SELECT 20000"));
  CHECK_FALSE(same("SELECT rowid FROM x WHERE rowid % 3 = 0",
                   "SELECT id FROM docs WHERE id % 3 = 0 ORDER BY id"));
  CHECK_FALSE(same("SELECT rowid, code FROM x", "SELECT id, code FROM docs ORDER BY id"));
  CHECK(same("SELECT rowid, year FROM x", "SELECT id, year FROM docs ORDER BY id"));
  same("SELECT rowid, code, title FROM x WHERE year <> 4",
       "SELECT id, code, title FROM docs WHERE year <> 4 ORDER BY id");
  same("SELECT count(*) FROM x WHERE year BETWEEN 2 AND 5", "SELECT 8000");
  same("SELECT a.rowid FROM x a JOIN x b ON b.rowid = a.rowid + 5 WHERE a.rowid > 99000 LIMIT 20",
       "SELECT id FROM docs WHERE id > 99000 ORDER BY id LIMIT 20");
  same("SELECT sum(size) FROM warp_kmeans('x', 'e', 2)", "SELECT 20000");
  CHECK(same("SELECT count(*), sum(year) FROM y", "SELECT 20000, 90000"));
  session.must_run(
      "DELETE FROM docs WHERE id % 1000 = 5; UPDATE docs SET year = 11 WHERE id = 10");
  same("SELECT count(*), sum(rowid) FROM x", "SELECT count(*), sum(id) FROM docs");
  same("SELECT count(*), sum(rowid) FROM y", "SELECT count(*), sum(id) FROM docs WHERE id <> 10");
}

// Every row that comes is one that a look-up would find when it comes, whatever was written after
// the scan had begun.
TEST_CASE("A content table changes while its index is scanned") {
  enum { kTriggers, kManual };
  for (unsigned seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto number = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    const int sync = seed % 2 == 0 ? kManual : kTriggers;
    const SqlSession session(":memory:");
    make_docs(session);
    session.must_run("CREATE TABLE before AS SELECT * FROM docs");
    const std::string gap = std::to_string(1 + number(5) * number(5));
    session.must_run(
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 90) "
        "INSERT INTO docs SELECT n * " + gap + ", n, 'a', vec_f32('[1,2]'), n % 10, 'b' FROM c");
    session.must_run("CREATE VIRTUAL TABLE x USING warp(content=docs, e FLOAT[2], year INTEGER, "
                     "+code" + std::string(sync == kManual ? ", sync=manual)" : ")"));
    if (number(2) == 0) session.must_run("INSERT INTO x(x) VALUES ('optimize')");
    // Rows that the index does not know, or that went without a word.
    const char* const keep = "INSERT INTO before SELECT * FROM docs";
    if (sync == kManual) session.must_run(keep);
    session.must_run("INSERT OR REPLACE INTO docs(id, code) SELECT id + 100000, code FROM docs "
                     "WHERE id % 7 = 3");
    if (sync == kTriggers) session.must_run(keep);
    session.must_run("DELETE FROM before WHERE id NOT IN (SELECT id FROM docs)");
    const std::string known = "SELECT d.id FROM docs d JOIN before b ON b.id = d.id WHERE " +
                              std::string(sync == kManual ? "d.year IS b.year AND " : "");
    const char* const sql = sync == kManual ? "SELECT rowid, code, code, year FROM x"
                                            : "SELECT rowid, code, code FROM x";
    sqlite3_stmt* scan = nullptr;
    REQUIRE(sqlite3_prepare_v2(session.db(), sql, -1, &scan, nullptr) == SQLITE_OK);
    std::string at = "-1";
    for (;;) {
      const Rows next = session.must_run(known + "d.id > " + at + " ORDER BY d.id LIMIT 1");
      const int code = sqlite3_step(scan);
      CHECK_MESSAGE((code == SQLITE_ROW || code == SQLITE_DONE), sqlite3_errmsg(session.db()));
      if (code != SQLITE_ROW) {
        CHECK(next.empty());
        break;
      }
      at = std::to_string(sqlite3_column_int64(scan, 0));
      CHECK(Rows{at} == next);
      const auto* aux = reinterpret_cast<const char*>(sqlite3_column_text(scan, 2));
      CHECK(Rows{aux == nullptr ? "NULL" : aux} ==
            session.must_run("SELECT code FROM docs WHERE id = " + at));
      const std::string where = " WHERE id BETWEEN " + at + " AND " + at + " + " +
                                std::to_string(number(12)) + " * " + gap;
      switch (number(9)) {
        case 0: session.run("DELETE FROM docs" + where); break;
        case 1: session.run("UPDATE docs SET year = 77" + where); break;
        case 2:
          session.run("UPDATE docs SET year = b.year FROM before b WHERE b.id = docs.id");
          break;
        case 3: session.run("INSERT OR IGNORE INTO docs SELECT * FROM before" + where); break;
        case 4: session.run("UPDATE docs SET code = code + 100000" + where); break;
        case 5: session.run("BEGIN"); break;
        case 6: session.run("ROLLBACK"); break;
        case 7: session.run("COMMIT"); break;
        default: break;
      }
    }
    sqlite3_finalize(scan);
    if (sqlite3_get_autocommit(session.db()) == 0) session.must_run("COMMIT");
    CHECK(session.must_run("SELECT count(*) FROM x") ==
          session.must_run("SELECT count(*) FROM (" + known + "d.id > -1)"));
    session.must_run("DROP TABLE x; DROP TABLE docs");  // nothing goes on
  }
}

TEST_CASE("Segments that go while they are read have all their rows again after a rollback") {
  const SqlSession session(":memory:");
  // 256 rows make a segment.
  session.must_run(
      "CREATE TABLE docs(id INTEGER PRIMARY KEY, title TEXT, e);"
      "WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 1200) "
      "INSERT INTO docs SELECT i, 'far', zeroblob(16384) FROM n;"
      "CREATE VIRTUAL TABLE x USING warp(content=docs, e FLOAT[4096], title TEXT)");
  engine::Residency::instance().clear();  // so that they are read when some have changed
  session.must_run("BEGIN");
  sqlite3_stmt* reads = nullptr;
  REQUIRE(sqlite3_prepare_v2(session.db(), "SELECT rowid FROM x WHERE rowid > 0", -1, &reads,
                             nullptr) == SQLITE_OK);
  CHECK(sqlite3_step(reads) == SQLITE_ROW);
  session.must_run("UPDATE docs SET title = 'near' WHERE id <= 1100");
  session.must_run("ROLLBACK");
  CHECK(session.must_run("SELECT count(*), sum(title = 'far') FROM x") == Rows{"1200|1200"});
  sqlite3_finalize(reads);
  CHECK(session.must_run("SELECT count(*) FROM x WHERE e MATCH zeroblob(16384) AND k = 2000") ==
        Rows{"1200"});
}

TEST_CASE("A scan of an index over a content table can be stopped, also where no row is there") {
  const SqlSession session(":memory:");
  session.must_run("CREATE TABLE docs(id INTEGER PRIMARY KEY, code UNIQUE, e)");
  session.must_run(
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50000) "
      "INSERT INTO docs SELECT n, 1000000 + n, zeroblob(8) FROM c");
  session.must_run("CREATE VIRTUAL TABLE x USING warp(content=docs, e INT8[8])");
  // What a statement costs in SQLite's own steps; it is stopped when it takes more than `most`.
  const auto steps = [&](const std::string& sql, int most) {
    struct Count {
      int taken, most;
    } count{0, most};
    const auto take = [](void* data) {
      auto* taken = static_cast<Count*>(data);
      return ++taken->taken > taken->most ? 1 : 0;
    };
    sqlite3_progress_handler(session.db(), 1, take, &count);
    const SqlResult result = session.run(sql);
    sqlite3_progress_handler(session.db(), 0, nullptr, nullptr);
    CHECK(result.code == (count.taken > most ? SQLITE_INTERRUPT : SQLITE_OK));
    return count.taken;
  };
  const auto check_stops = [&] {
    constexpr int kNoLimit = 1 << 30;
    constexpr int kMore = 150;
    const std::string scan = "SELECT count(*) FROM x";
    session.must_run("SELECT count(*) FROM x WHERE rowid = 1");  // what comes but once
    const int fixed = steps("SELECT count(*) FROM x WHERE rowid = 1", kNoLimit);
    CHECK(steps(scan, kNoLimit) > fixed + kMore);
    CHECK(steps(scan, fixed + kMore) > fixed + kMore);
  };
  check_stops();
  CHECK(session.must_run("SELECT count(*) FROM x") == Rows{"50000"});
  // All rows but one make room for others, of which no trigger tells.
  session.must_run(
      "INSERT OR REPLACE INTO docs SELECT id + 1000000, code, e FROM docs WHERE id > 1");
  session.must_run("DELETE FROM docs WHERE id > 1000000");
  CHECK(session.must_run("SELECT count(*) FROM x") == Rows{"1"});
  check_stops();
}

TEST_CASE("Rows that go while a search is read do not come") {
  const SqlSession session(":memory:");
  make_docs(session);
  session.must_run(kIndex);
  session.must_run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
      "INSERT INTO docs(id, code, e) SELECT i, i, '[' || i || ',0]' FROM n");
  sqlite3_stmt* search = nullptr;
  REQUIRE(sqlite3_prepare_v2(session.db(), "SELECT rowid FROM x WHERE e MATCH '[0,0]' AND k = 8", -1,
                             &search, nullptr) == SQLITE_OK);
  const auto next = [&] {
    return sqlite3_step(search) == SQLITE_ROW ? sqlite3_column_int64(search, 0) : 0;
  };
  CHECK(next() == 1);
  CHECK(next() == 2);
  session.must_run("DELETE FROM docs WHERE id = 3");
  CHECK(next() == 4);
  session.must_run("BEGIN; DELETE FROM docs WHERE id = 5");
  CHECK(next() == 6);
  session.must_run("INSERT OR REPLACE INTO docs(id, code) VALUES (70, 7)");  // row 7 goes silently
  CHECK(next() == 8);
  CHECK(next() == 0);
  session.must_run("COMMIT");
  CHECK(next() == 1);  // SQLite begins a statement anew that has come to its end
  CHECK(next() == 2);
  CHECK(next() == 4);
  sqlite3_finalize(search);
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
