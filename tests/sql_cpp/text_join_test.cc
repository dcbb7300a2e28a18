// warp_sequence_join and warp_document_join of many queries: in which portions they are searched,
// and how soon an interrupt ends them.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

using Clock = std::chrono::steady_clock;

// 4,000 texts of five words, and as many queries as `queries` says.
void make_tables(const SqlSession& session, int queries) {
  const auto texts = [](const std::string& rows) {
    return "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + rows +
           "), s(i, s) AS (SELECT i, printf('w%d w%d w%d w%d w%d', i % 91, i * 7 % 97, "
           "i * 31 % 89, i * 57 % 83, i * 3 % 71) FROM n) ";
  };
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(s TEXT index=ngram(n=3), w TEXT index=words);"
      "CREATE TABLE q(id INTEGER PRIMARY KEY, s TEXT);" +
      texts("4000") + "INSERT INTO t(rowid, s, w) SELECT i, s, s FROM s;" +
      texts(std::to_string(queries)) + "INSERT INTO q SELECT i, s FROM s");
}

}  // namespace

TEST_CASE("joins of texts end soon when they are interrupted") {
  const SqlSession session(":memory:");
  make_tables(session, 100000);
  const std::string functions[] = {"warp_sequence_join('t', 's',", "warp_document_join('t', 'w',"};
  for (const std::string& function : functions) {
    CAPTURE(function);
    Clock::time_point asked;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      asked = Clock::now();
      sqlite3_interrupt(session.db());
    });
    const SqlResult result =
        session.run("SELECT count(*) FROM " + function + " 'SELECT id, s FROM q', 5)");
    const auto ended = Clock::now();
    other.join();
    CHECK(result.code == SQLITE_INTERRUPT);
    // 50 ms are promised; a machine that runs other things at once may take longer.
    CHECK(ended - asked < std::chrono::milliseconds(500));
  }
  CHECK(session.must_run("SELECT count(*) FROM warp_sequence_search('t', 's', 'w1', 5)")[0] == "5");
}

TEST_CASE("joins of texts search in batches, and no more of them than are asked for") {
  const SqlSession session(":memory:");
  make_tables(session, 100000);
  // Searches that a statement makes; a batch of queries makes one or more, however many they are.
  const auto searches = [&](const std::string& sql) {
    const auto count = [&] {
      return std::stoi(session.must_run("SELECT sum(searches) FROM warp_devices()")[0]);
    };
    const int before = count();
    session.must_run(sql);
    return count() - before;
  };
  const std::string of_all = " 'SELECT id, s FROM q', 1)";
  const std::string of_some = " 'SELECT id, s FROM q WHERE id <= 8192', 1)";
  const std::string documents = "SELECT * FROM warp_document_join('t', 'w',";
  const std::string sequences = "SELECT * FROM warp_sequence_join('t', 's',";
  CHECK(searches(documents + of_all + " LIMIT 1") == 1);
  CHECK(searches(documents + of_some) == 8);
  CHECK(searches(sequences + of_all + " LIMIT 1") < 16);
  CHECK(searches(sequences + of_some) >= 8);
}

TEST_CASE("joins of texts that are asked again search again for what they did not keep") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(w TEXT index=words);"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
      "INSERT INTO t(rowid, w) SELECT i, 'a w' || i FROM n;"
      "CREATE TABLE q(id INTEGER PRIMARY KEY, s TEXT);"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2200)"
      "INSERT INTO q SELECT i, 'a w' || i FROM n");
  const auto rows = session.must_run(
      "SELECT o.i, count(*), sum(j.query_id), sum(j.rowid), sum(j.matches), sum(j.rank), "
      "count(DISTINCT j.query_id) FROM (SELECT 1 AS i UNION ALL SELECT 2) o CROSS JOIN "
      "warp_document_join('t', 'w', 'SELECT id, s FROM q', 1000) j GROUP BY o.i");
  const std::string sums = "|2200000|2421100000|1101100000|2201000|1101100000|2200";
  CHECK(rows == std::vector<std::string>{"1" + sums, "2" + sums});
}

}  // namespace warplite::testing
