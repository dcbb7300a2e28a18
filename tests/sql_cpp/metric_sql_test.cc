// Metric indexes through SQL: vectors and texts within a radius, against answers that came with the
// data; what warp_explain() says of it; rows that change.
#include <doctest/doctest.h>
#include <string>
#include <vector>

#include "tests/support/data_tables.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

std::string one(const SqlSession& session, const std::string& sql) {
  return session.must_run(sql).at(0);
}

// On the device that is chosen, and then on the CPU.
void check_within(const SqlSession& session, const std::string& column, const std::string& radius,
                  const std::string& device = "auto") {
  INFO(radius, " ", device);
  const std::string found = "(SELECT query_id AS q, rowid AS row, distance FROM warp_range_join("
                            "'t', '" + column + "', 'SELECT id, v FROM q', " + radius +
                            ", '{\"device\":\"" + device + "\"}'))";
  const std::string expected = "(SELECT * FROM truth WHERE distance <= " + radius + ")";
  CHECK(one(session, "SELECT count(*) FROM " + found) ==
        one(session, "SELECT count(*) FROM " + expected));
  CHECK(one(session, "SELECT count(*) FROM " + found + " f JOIN " + expected +
                         " e USING (q, row) WHERE abs(f.distance - e.distance) < 1e-6") ==
        one(session, "SELECT count(*) FROM " + expected));
  if (device == "auto") check_within(session, column, radius, "cpu");
}

// Evaluations of the search that came last, in percent of what brute force compares.
double evaluated(const SqlSession& session) {
  return std::stod(one(session, "SELECT 100.0 * distances / pairs FROM warp_explain()"));
}

}  // namespace

TEST_CASE("metric indexes in SQL: patches of photographs within three radii") {
  const std::vector<std::string> truth = data_lines("patch20_range_gt.tsv");
  if (truth.empty()) return;
  for (const std::string index : {"flat", "list_of_clusters(size=64)", "sss(alpha=0.4)"}) {
    INFO(index);
    const SqlSession session(":memory:");
    session.must_run("CREATE VIRTUAL TABLE t USING warp(v FLOAT[20] index=" + index + ");"
                     "CREATE TABLE q(id INTEGER PRIMARY KEY, v BLOB);"
                     "CREATE TABLE truth(q INTEGER, row INTEGER, distance REAL); BEGIN");
    session.must_run("INSERT INTO t(rowid, v) SELECT rowid, vector FROM warp_vectors_file('" +
                     data_path("patch20_base.fvecs") + "');"
                     "INSERT INTO q SELECT rowid, vector FROM warp_vectors_file('" +
                     data_path("patch20_query.fvecs") + "')");
    insert_lines(session, "truth", truth, 1, {0, 1, 2});
    session.must_run("COMMIT; INSERT INTO t(t) VALUES ('optimize')");
    for (const std::string radius : {"0.099201", "0.2411", "0.6725"}) {
      check_within(session, "v", radius);
      if (index == "flat") {
        CHECK(evaluated(session) == 100);
      } else if (radius == "0.099201" || (radius == "0.2411" && index[0] == 'l')) {
        CHECK(one(session, "SELECT method FROM warp_explain()") == "index");
        CHECK(evaluated(session) < 10);
      }
    }
    // One query at a time: by MATCH, by its nearest.
    CHECK(one(session, "SELECT group_concat(rowid) FROM (SELECT t.rowid FROM t WHERE v MATCH "
                       "(SELECT v FROM q WHERE id = 0) AND distance <= 0.6725 ORDER BY distance)") ==
          one(session, "SELECT group_concat(row) FROM (SELECT row FROM truth WHERE q = 0 "
                       "ORDER BY distance)"));
    CHECK(one(session, "SELECT group_concat(rowid) FROM (SELECT t.rowid FROM t WHERE v MATCH "
                       "(SELECT v FROM q WHERE id = 0) ORDER BY distance LIMIT 5)") ==
          one(session, "SELECT group_concat(row) FROM (SELECT row FROM truth WHERE q = 0 "
                       "ORDER BY distance LIMIT 5)"));
  }
}

TEST_CASE("metric indexes in SQL: DNA within 24 edits, and the nearest ten") {
  const std::vector<std::string> texts = data_lines("dna64_20k.txt");
  const std::vector<std::string> queries = data_lines("dna64_queries.tsv");
  const std::vector<std::string> within = data_lines("dna64_gt_r24_20k.tsv");
  const std::vector<std::string> nearest = data_lines("dna64_gt_top10_20k.tsv");
  if (texts.empty() || queries.empty() || within.empty() || nearest.empty()) return;
  for (const std::string index : {"", "index=list_of_clusters", "index=sss"}) {
    INFO(index);
    const SqlSession session(":memory:");
    session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, "
                     "s TEXT distance=edit " + index + ");"
                     "CREATE TABLE q(id INTEGER PRIMARY KEY, v TEXT);"
                     "CREATE TABLE truth(q INTEGER, row INTEGER, distance REAL);"
                     "CREATE TABLE top(q INTEGER, row INTEGER, distance REAL); BEGIN");
    insert_lines(session, "t", texts, 0, {kLine, 0});
    insert_lines(session, "q", queries, 1, {0, 3});
    insert_lines(session, "truth", within, 1, {0, 1, 2});
    insert_lines(session, "top", nearest, 1, {0, 1, 2});
    session.must_run("COMMIT; INSERT INTO t(t) VALUES ('optimize')");
    check_within(session, "s", "24");
    CHECK(one(session, "SELECT count(*) FROM (SELECT q.id, t.id, t.distance FROM q CROSS JOIN t "
                       "WHERE t.s MATCH q.v AND t.k = 10 EXCEPT SELECT * FROM top)") == "0");
  }
}

TEST_CASE("metric indexes in SQL: Spanish words within three edits") {
  const std::vector<std::string> words = data_lines("words_es.txt");
  const std::vector<std::string> queries = data_lines("words_es_queries.tsv");
  const std::vector<std::string> truth = data_lines("words_es_gt_r3.tsv");
  if (words.empty() || queries.empty() || truth.empty()) return;
  for (const std::string index : {"list_of_clusters(size=32)", "sss(alpha=0.5)"}) {
    INFO(index);
    const SqlSession session(":memory:");
    session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, "
                     "word TEXT distance=edit index=" + index + ");"
                     "CREATE TABLE q(id INTEGER PRIMARY KEY, v TEXT);"
                     "CREATE TABLE truth(q INTEGER, row INTEGER, distance REAL); BEGIN");
    insert_lines(session, "t", words, 0, {kLine, 0});
    insert_lines(session, "q", queries, 1, {0, 1});
    insert_lines(session, "truth", truth, 1, {0, 1, 2});
    session.must_run("COMMIT; INSERT INTO t(t) VALUES ('optimize')");
    for (const std::string radius : {"0", "1", "2", "3"}) check_within(session, "word", radius);
    check_within(session, "word", "1");
    CHECK(one(session, "SELECT method FROM warp_explain()") != "brute force");
    CHECK(evaluated(session) < 15);
  }
}

// A table with the index, one without, and the same changes to both.
TEST_CASE("metric indexes in SQL: rows that come, change and go within a transaction") {
  for (const std::string index : {"list_of_clusters(size=8)", "sss(alpha=0.3)"}) {
    for (const std::string distance : {"l2", "l1", "cosine"}) {
      INFO(index, " ", distance);
      const SqlSession session(":memory:");
      const std::string number = "(abs(random()) % 1000 / 100.0)";
      const std::string vector = "'[' || " + number + " || ',' || " + number + " || ',' || " +
                                 number + " || ']'";
      for (const auto& [table, kind] : {std::pair<std::string, std::string>{"a", index},
                                        {"b", "flat"}}) {
        session.must_run("CREATE VIRTUAL TABLE " + table + " USING warp(v FLOAT[3] distance=" +
                         distance + " index=" + kind + ", s TEXT distance=edit " +
                         (table == "a" ? "index=" + index : "") + ", n INTEGER)");
      }
      session.must_run("CREATE TABLE change(id INTEGER PRIMARY KEY, v, s)");
      const auto insert = [&](int first, int last) {
        session.must_run(
            "DELETE FROM change; WITH RECURSIVE i(i) AS (SELECT " + std::to_string(first) +
            " UNION ALL SELECT i + 1 FROM i WHERE i < " + std::to_string(last) + ") INSERT INTO "
            "change SELECT i, " + vector + ", printf('%x', abs(random()) % 100000) FROM i;"
            "INSERT OR REPLACE INTO a(rowid, v, s, n) SELECT id, v, s, id % 7 FROM change;"
            "INSERT OR REPLACE INTO b(rowid, v, s, n) SELECT id, v, s, id % 7 FROM change");
      };
      const auto same = [&] {
        const std::string radius = distance == "cosine" ? "0.03" : "1.5";
        const auto answers = [&](const std::string& table) {
          return std::vector<std::vector<std::string>>{
              session.must_run("SELECT query_id, rowid, distance FROM warp_range_join('" + table +
                               "', 'v', 'SELECT id, v FROM change', " + radius + ")"),
              session.must_run("SELECT query_id, rowid, distance, rank FROM warp_knn_join('" +
                               table + "', 'v', 'SELECT id, v FROM change', 7)"),
              session.must_run("SELECT query_id, rowid, distance FROM warp_range_join('" + table +
                               "', 's', 'SELECT id, s FROM change', 1)"),
              session.must_run("SELECT rowid, distance FROM " + table + " WHERE v MATCH (SELECT v "
                               "FROM change) AND n IN (1, 2) ORDER BY distance LIMIT 20"),
              session.must_run("SELECT rowid, distance FROM " + table + " WHERE s MATCH (SELECT s "
                               "FROM change) AND n < 5 AND k = 20")};
        };
        CHECK(answers("a") == answers("b"));
      };
      insert(1, 1200);
      session.must_run("INSERT INTO a(a) VALUES ('optimize')");
      same();
      session.must_run("BEGIN");
      insert(1150, 1300);
      session.must_run("DELETE FROM a WHERE rowid % 5 = 0; DELETE FROM b WHERE rowid % 5 = 0;"
                       "UPDATE a SET v = '[1,2,3]', s = 'abc' WHERE rowid % 97 = 1;"
                       "UPDATE b SET v = '[1,2,3]', s = 'abc' WHERE rowid % 97 = 1");
      same();
      session.must_run("SAVEPOINT one; DELETE FROM a WHERE n = 3; DELETE FROM b WHERE n = 3");
      same();
      session.must_run("ROLLBACK TO one");
      same();
      session.must_run("ROLLBACK");
      same();
      session.must_run("INSERT INTO a(a) VALUES ('rebuild')");
      same();
    }
  }
}

// Where there is no room for a column's rows, an index of them would be made for one search.
TEST_CASE("metric indexes in SQL: what does not stay in memory gets no index") {
  for (const std::string index : {"list_of_clusters", "sss"}) {
    INFO(index);
    const SqlSession session(":memory:");
    session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, v FLOAT[2] index=" +
                     index + ", s TEXT distance=edit index=" + index + ");"
                     "WITH RECURSIVE i(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM i WHERE i < "
                     "19999) INSERT INTO t(v, s) SELECT printf('[%d,%d]', i % 100, i / 100), "
                     "printf('%08d', i * 7919) FROM i;"
                     "INSERT INTO t(t) VALUES ('optimize')");
    const std::string vectors =
        "SELECT count(*) FROM t WHERE v MATCH '[7,7]' AND distance <= 1";
    const std::string texts =
        "SELECT count(*) FROM warp_range_join('t', 's', 'SELECT id, s FROM t LIMIT 64', 1)";
    const std::string method = "SELECT method FROM warp_explain()";
    session.must_run("SELECT warp_config('cpu_memory_limit', '60000')");
    for (int i = 0; i < 3; ++i) {
      CHECK(one(session, vectors) == "5");
      CHECK(one(session, method) == "brute force");
      CHECK(one(session, texts) != "0");
      CHECK(one(session, method) == "brute force");
    }
    session.must_run("SELECT warp_config('cpu_memory_limit', '0')");
    CHECK(one(session, vectors) == "5");
    CHECK(one(session, method) == "index");
    CHECK(one(session, texts) != "0");
    CHECK(one(session, method) != "brute force");
  }
}
