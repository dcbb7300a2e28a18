// Searches by edit distance over every row, beside the distances of SQL's edit_distance().
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/sql_session.h"

using warplite::testing::SqlSession;

namespace {

using Random = std::mt19937_64;

// Some of them longer than texts of tiles are, some just as long.
std::string some_text(Random& random, std::size_t row) {
  const std::size_t length = row % 300 == 7    ? 4090 + random() % 14
                             : row % 1000 == 9 ? 6000 + random() % 100
                                               : random() % 24;
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    const auto letter = random() % 6;
    text += letter == 5 ? "é" : std::string(1, static_cast<char>('a' + letter));
  }
  return text;
}

// `plain` has what `t` has.
void insert_rows(const SqlSession& session, std::size_t first, std::size_t rows) {
  Random random(first + 1);
  for (const char* table : {"t", "plain"}) {
    Random same = random;
    std::string sql = "BEGIN; INSERT INTO " + std::string(table) + " VALUES ";
    for (std::size_t row = first; row < first + rows; ++row) {
      const std::string text = row % 11 == 4 ? "NULL" : "'" + some_text(same, row) + "'";
      sql += (row == first ? "(" : ",(") + std::to_string(row) + "," + text + "," +
             std::to_string(row % 5) + ")";
    }
    session.must_run(sql + "; COMMIT");
  }
}

void check_same(const SqlSession& session, const std::string& found, const std::string& expected) {
  INFO(found);
  CHECK(session.must_run(found) == session.must_run(expected));
}

void check_query(const SqlSession& session, const std::string& query) {
  const std::string distance = "edit_distance(name, '" + query + "')";
  const std::string match = "SELECT id, CAST(distance AS INTEGER) FROM t WHERE name MATCH '" +
                            query + "'";
  const std::string plain = "SELECT id, " + distance + " FROM plain WHERE name IS NOT NULL";
  const std::string order = " ORDER BY " + distance + ", id";
  for (const std::string& filter : {std::string(), std::string(" AND a = 3"),
                                    std::string(" AND id % 97 = 5 AND a <= 1"),
                                    std::string(" AND id BETWEEN 300 AND 320")}) {
    check_same(session, match + filter + " AND distance <= 4 ORDER BY distance, id",
               plain + filter + " AND " + distance + " <= 4" + order);
    check_same(session, match + filter + " AND distance BETWEEN 3 AND 6 ORDER BY distance, id",
               plain + filter + " AND " + distance + " BETWEEN 3 AND 6" + order);
    check_same(session, match + filter + " AND distance > 4000 ORDER BY distance, id",
               plain + filter + " AND " + distance + " > 4000" + order);
    // A second fetch goes on after the first.
    check_same(session, match + filter + " ORDER BY distance LIMIT 60 OFFSET 45",
               plain + filter + order + " LIMIT 60 OFFSET 45");
  }
  check_same(session, match + " AND a = 2 AND k = 25", plain + " AND a = 2" + order + " LIMIT 25");
  check_same(session, match + " AND k = 10000", plain + order);
  check_same(session,
             "SELECT rowid, distance, certified FROM warp_sequence_search('t', 'name', '" + query +
                 "', 20)",
             "SELECT id, " + distance + ", 1 FROM plain WHERE name IS NOT NULL" + order +
                 " LIMIT 20");
}

void check_queries(const SqlSession& session) {
  Random random(77);
  std::string some_long, longer;
  for (std::size_t i = 0; i < 4100; ++i) some_long += static_cast<char>('a' + random() % 5);
  for (std::size_t i = 0; i < 200; ++i) longer += static_cast<char>('a' + random() % 5);
  for (const std::string& query : {std::string(), std::string("a"), std::string("abcéd"),
                                   std::string("ééaabbccddxyz"), longer}) {
    check_query(session, query);
  }
  check_same(session,
             "SELECT id, CAST(distance AS INTEGER) FROM t WHERE name MATCH '" + some_long +
                 "' AND k = 8",
             "SELECT id, edit_distance(name, '" + some_long +
                 "') d FROM plain WHERE name IS NOT NULL ORDER BY d, id LIMIT 8");
}

}  // namespace

TEST_CASE("edit search: every row, sealed, not sealed and deleted, long texts among them") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, name TEXT index=ngram(n=3), "
      "a INTEGER); CREATE TABLE plain(id INTEGER PRIMARY KEY, name TEXT, a INTEGER)");
  insert_rows(session, 0, 700);
  check_queries(session);
  session.must_run("INSERT INTO t(t) VALUES ('optimize')");
  check_queries(session);
  insert_rows(session, 700, 600);
  for (const char* table : {"t", "plain"}) {
    session.must_run("DELETE FROM " + std::string(table) + " WHERE id % 7 = 2; UPDATE " + table +
                     " SET name = 'abc' || a WHERE id % 13 = 5");
  }
  check_queries(session);
}

TEST_CASE("edit search: characters are those of the column, tiles are kept") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE f USING warp(id INTEGER PRIMARY KEY, "
      "name TEXT index=ngram(n=3, fold=1, normalize=nfc));"
      "CREATE VIRTUAL TABLE u USING warp(id INTEGER PRIMARY KEY, name TEXT index=ngram(n=3));");
  for (const char* table : {"f", "u"}) {
    session.must_run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                     "WHERE i < 500) INSERT INTO " +
                     std::string(table) + " SELECT i, CASE i % 3 WHEN 0 THEN 'ÉCOLE' WHEN 1 THEN "
                     "'école' ELSE 'e' || char(769) || 'cole' END FROM n;" +
                     "INSERT INTO " + table + "(" + table + ") VALUES ('optimize')");
  }
  const std::string count = " WHERE name MATCH 'école' AND distance <= ";
  const auto all = [&](const char* table, const char* radius) {
    return session.must_run("SELECT count(*) FROM " + std::string(table) + count + radius)[0];
  };
  for (int round = 0; round < 2; ++round) {
    CHECK(all("f", "0") == "500");
    CHECK(all("u", "0") == "167");
    CHECK(all("u", "2") == "334");
    CHECK(all("u", "4") == "334");
    CHECK(all("u", "5") == "500");
  }
  CHECK(session.must_run("SELECT count(*) FROM warp_residency() WHERE owner LIKE "
                         "'main.u segment % characters of column 0'") ==
        std::vector<std::string>{"1"});
}
