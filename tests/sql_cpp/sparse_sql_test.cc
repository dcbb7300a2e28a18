// Sparse vectors through SQL, beside the distances that vec_distance_ip() gives an ordinary table:
// in segments, which have postings, and in the tail.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/sql_session.h"

using warplite::testing::SqlSession;

namespace {

// Vectors of rows i: few terms that most rows have, and many that few have.
constexpr const char* kVector =
    "CASE WHEN i % 13 = 0 THEN NULL WHEN i % 31 = 0 THEN '{}' ELSE printf("
    "'{\"%d\":%.3f,\"%d\":%.3f,\"%d\":%.3f,\"%d\":%.3f}', i % 7, 0.1 + i % 11, 10 + i % 50, "
    "(i % 17) / 4.0 - 0.5, 100 + i * i % 900, 1.0 + i % 3, 2000 + i * 7919 % 3000, 0.25) END";

void insert_rows(const SqlSession& session, int first, int last) {
  for (const char* table : {"t", "plain"}) {
    session.must_run("WITH RECURSIVE n(i) AS (SELECT " + std::to_string(first) +
                     " UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(last) +
                     ") INSERT INTO " + table + " SELECT i, " + kVector + ", i % 10 FROM n");
  }
}

void run_on_both(const SqlSession& session, const std::string& before, const std::string& after) {
  for (const char* table : {"t", "plain"}) session.must_run(before + table + after);
}

void check_same(const SqlSession& session, const std::string& found, const std::string& expected) {
  INFO(found);
  const auto rows = session.must_run(found);
  CHECK(rows == session.must_run(expected));
}

void check_query(const SqlSession& session, const std::string& query) {
  const std::string distance = "vec_distance_ip(s, '" + query + "')";
  const std::string match = "SELECT id, distance FROM t WHERE s MATCH '" + query + "'";
  const std::string plain = "SELECT id, " + distance + " AS d FROM plain WHERE s IS NOT NULL";
  for (const std::string& filter :
       {std::string(), std::string(" AND a = 3"), std::string(" AND id BETWEEN 300 AND 320")}) {
    check_same(session, match + filter + " AND k = 12", plain + filter + " ORDER BY d, id LIMIT 12");
    check_same(session, match + filter + " ORDER BY distance LIMIT 3 OFFSET 70",
               plain + filter + " ORDER BY d, id LIMIT 3 OFFSET 70");
    check_same(session, match + filter + " AND distance <= -4 ORDER BY distance, id",
               plain + filter + " AND d <= -4 ORDER BY d, id");
    check_same(session, match + filter + " AND distance > -3 AND k = 9",
               plain + filter + " AND d > -3 ORDER BY d, id LIMIT 9");
  }
  check_same(session, "SELECT count(*), min(distance), max(distance) FROM t WHERE s MATCH '" + query + "'",
             "SELECT count(*), min(d), max(d) FROM (" + plain + ")");
  check_same(session,
             "SELECT rowid, distance FROM warp_range_search('t', 's', '" + query + "', -2)",
             plain + " AND d <= -2 ORDER BY d, id");
}

void check_queries(const SqlSession& session) {
  for (const char* query :
       {"{\"3\":1,\"12\":2,\"150\":1.5,\"2500\":4}", "{\"3\":1}", "{\"2007\":1}", "{\"4999\":1}",
        "{}", "{\"3\":-1,\"14\":1}", "{\"5\":-0.5}", "{\"0\":1e-30,\"1\":1e20,\"11\":-3}"}) {
    check_query(session, query);
  }
}

}  // namespace

TEST_CASE("sparse vectors in segments and in the tail, as they change") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, s SPARSE[5000], a INTEGER);"
                   "CREATE TABLE plain(id INTEGER PRIMARY KEY, s, a INTEGER)");
  insert_rows(session, 1, 12000);
  insert_rows(session, 12001, 12300);
  check_queries(session);
  CHECK(session.must_run("SELECT count(*) > 0 FROM warp_residency() WHERE owner LIKE '%postings%'") ==
        std::vector<std::string>{"1"});
  run_on_both(session, "DELETE FROM ", " WHERE id % 9 = 4");
  run_on_both(session, "UPDATE ", " SET s = '{\"3\":50,\"12\":0.5}' WHERE id % 1000 = 7");
  check_queries(session);
  session.must_run("SAVEPOINT one");
  run_on_both(session, "DELETE FROM ", " WHERE a = 5");
  check_query(session, "{\"3\":1}");
  session.must_run("ROLLBACK TO one; RELEASE one; INSERT INTO t(t) VALUES ('optimize')");
  check_queries(session);
}

TEST_CASE("sparse vectors by the join find what single searches find") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, s SPARSE[5000], a INTEGER);"
                   "CREATE TABLE plain(id INTEGER PRIMARY KEY, s, a INTEGER)");
  insert_rows(session, 1, 10000);
  check_same(session,
             "SELECT query_id, rowid, distance, rank FROM warp_knn_join('t', 's', "
             "'SELECT id, s FROM plain WHERE id < 60', 5)",
             "SELECT q.id, f.rowid, f.distance, f.rank FROM plain q, "
             "warp_knn_search('t', 's', q.s, 5, '{\"exact\":1}') f WHERE q.id < 60");
  check_same(session,
             "SELECT query_id, rowid, distance FROM warp_range_join('t', 's', "
             "'SELECT id, s FROM plain WHERE id < 60', -20)",
             "SELECT q.id, f.rowid, f.distance FROM plain q, "
             "warp_range_search('t', 's', q.s, -20, '{\"exact\":1}') f WHERE q.id < 60");
}

TEST_CASE("sparse vectors and queries of very many entries") {
  const SqlSession session(":memory:");
  const std::string many =
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29999) "
      "SELECT json_group_object(CAST(i AS TEXT), 1 + i % 5) FROM n";
  session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, s SPARSE[30000], a INTEGER);"
                   "CREATE TABLE plain(id INTEGER PRIMARY KEY, s, a INTEGER);"
                   "CREATE TABLE q(s); INSERT INTO q " + many);
  insert_rows(session, 1, 9000);
  for (const char* table : {"t", "plain"}) {
    session.must_run("INSERT INTO " + std::string(table) + " SELECT 20000, s, 0 FROM q");
  }
  check_same(session, "SELECT id, distance FROM q JOIN t ON t.s MATCH q.s AND t.k = 20",
             "SELECT id, vec_distance_ip(p.s, q.s) AS d FROM q JOIN plain p WHERE p.s IS NOT NULL "
             "ORDER BY d, id LIMIT 20");
}
