// When a metric index gives way to brute force, by what warp_explain() says; answers are the same.
#include <doctest/doctest.h>
#include <string>

#include "tests/support/sql_session.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

// Rows and 40 queries that are all about as far from each other: 64 random coordinates.
void fill(const SqlSession& session, const std::string& table, const std::string& index) {
  const std::string vector =
      "(WITH RECURSIVE d(d, x) AS (SELECT 1, (i * 7919 + 13) % 65521 UNION ALL "
      "SELECT d + 1, (x * 16807 + d * 31 + i) % 65521 FROM d WHERE d < 64) "
      "SELECT json_group_array(x / 65521.0) FROM d)";
  session.must_run(
      "CREATE VIRTUAL TABLE " + table + " USING warp(v FLOAT[64] index=" + index + ");"
      "WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 9000) "
      "INSERT INTO " + table + "(v) SELECT " + vector + " FROM i;"
      "INSERT INTO " + table + "(" + table + ") VALUES ('optimize')");
}

}  // namespace

TEST_CASE("metric indexes: a batch that an index does not help is compared by brute force") {
  const SqlSession session(":memory:");
  fill(session, "flat", "flat");
  for (const std::string index : {"list_of_clusters", "sss"}) {
    fill(session, "t", index);
    for (const std::string queries : {"8", "20", "63", "200"}) {
      INFO(index, " ", queries);
      const auto ask = [&](const std::string& table) {
        return session.must_run("SELECT query_id, rowid, distance, rank FROM warp_knn_join('" +
                                table + "', 'v', 'SELECT rowid, v FROM flat LIMIT " + queries +
                                "', 10, '{\"device\":\"cpu\"}')");
      };
      const auto expected = ask("flat");
      CHECK(ask("t") == expected);
      CHECK(session.must_run("SELECT indexed * 4 < pairs, distances < 1.3 * pairs "
                             "FROM warp_explain()") ==
            session.must_run("SELECT 1, 1"));
    }
    session.must_run("DROP TABLE t");
  }
}
