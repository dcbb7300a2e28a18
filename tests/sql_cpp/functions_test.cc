// Scalar and table-valued functions against brute force, real ground truth and files cut short.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>


#include "compute/edit_distance.h"
#include "tests/support/sql_session.h"

namespace warplite {
namespace {

using testing::check_error;
using testing::contains;
using testing::SqlResult;
using testing::SqlSession;
using Rows = std::vector<std::string>;

// --- edit distance ---------------------------------------------------------

std::size_t plain_edit_distance(const std::u32string& a, const std::u32string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string utf8(const std::u32string& points) {
  std::string text;
  for (const char32_t c : points) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xc0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 63));
    } else if (c < 0x10000) {
      text += static_cast<char>(0xe0 | c >> 12);
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    } else {
      text += static_cast<char>(0xf0 | c >> 18);
      text += static_cast<char>(0x80 | (c >> 12 & 63));
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    }
  }
  return text;
}

TEST_CASE("edit distance equals the textbook's, across block edges and scripts") {
  const std::u32string alphabet = U"abcæ\u00f8\u4e2d\U0001f600";
  std::mt19937 random(3);
  for (const std::size_t longest : {4u, 63u, 64u, 65u, 130u, 300u}) {
    for (int round = 0; round < 150; ++round) {
      const std::size_t letters = 1 + random() % alphabet.size();
      const auto draw = [&] {
        std::u32string text(random() % (longest + 1), U'a');
        for (char32_t& c : text) c = alphabet[random() % letters];
        return text;
      };
      const std::u32string a = draw();
      std::u32string b = draw();
      if (round % 2 == 0) {  // a few edits away
        b = a;
        for (int edits = 0; edits < 5 && !b.empty(); ++edits) b.erase(random() % b.size(), 1);
        b.insert(random() % (b.size() + 1), U"xyz");
      }
      REQUIRE(compute::edit_distance(utf8(a), utf8(b), nullptr) == plain_edit_distance(a, b));
    }
  }
}

TEST_CASE("edit distance: a byte outside valid UTF-8 is a character") {
  CHECK(compute::edit_distance("a\xff", "a\xfe", nullptr) == 1);
  CHECK(compute::edit_distance("\xc3", "\xc3\xa9", nullptr) == 1);  // a lead byte is not é
  CHECK(compute::edit_distance("\xe4\xb8", "", nullptr) == 2);
  CHECK(compute::edit_distance("\xed\xa0\x80", "", nullptr) == 3);  // a surrogate
  CHECK(compute::edit_distance("\xc0\x80", "", nullptr) == 2);      // overlong
  CHECK(compute::edit_distance("\xff", "\x7f", nullptr) == 1);
}

TEST_CASE("a long edit distance is interrupted") {
  const SqlSession session(":memory:");
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    sqlite3_interrupt(session.db());
  });
  const SqlResult result = session.run(
      "SELECT edit_distance(hex(randomblob(2000000)), hex(randomblob(2000000)))");
  stop.join();
  CHECK(result.code == SQLITE_INTERRUPT);
}

// --- what sqlite-vec returns -----------------------------------------------

TEST_CASE("vec functions return the bytes that users of sqlite-vec know") {
  const SqlSession session(":memory:");
  const auto value = [&](const std::string& expression) {
    return session.must_run("SELECT " + expression)[0];
  };
  CHECK(value("vec_to_json(vec_quantize_int8('[-1,-0.999,-0.5,0,0.003,0.5,0.999,1]','unit'))") ==
        "[-128,-127,-64,0,0,63,126,126]");
  CHECK(value("vec_to_json(vec_quantize_int8('[-2,2]','unit'))") == "[-128,127]");
  CHECK(value("hex(vec_quantize_binary('[1,-1,0,1,1,1,1,1]'))") == "F9");
  CHECK(value("vec_to_json(vec_bit(x'0F'))") == "[1,1,1,1,0,0,0,0]");
  CHECK(value("vec_to_json('[0.1,-2,123456.789]')") == "[0.100000,-2.000000,123456.789063]");
  CHECK(value("hex(vec_add(vec_int8('[100]'), vec_int8('[100]')))") == "C8");
  CHECK(value("hex(vec_normalize('[3,4]'))") == "9A99193FCDCC4C3F");
  CHECK(value("typeof(vec_distance_l1(vec_int8('[1]'), vec_int8('[3]')))") == "integer");
  CHECK(session.must_run("SELECT rowid, value FROM vec_each('[1,2.5]')") == Rows{"0|1.0", "1|2.5"});
  CHECK(session.must_run("SELECT vec_f32(NULL), vec_length(NULL), vec_distance_l2(NULL, '[1]'), "
                         "vec_add('[1]', NULL), vec_normalize('[0,0]')") ==
        Rows{"NULL|NULL|NULL|NULL|NULL"});
}

TEST_CASE("vec functions refuse by name what they cannot do") {
  const SqlSession session(":memory:");
  check_error(session, "SELECT vec_distance_l2('[1,2]', vec_int8('[1,2]'))",
              {"vec_distance_l2", "float32[2]", "int8[2]"});
  check_error(session, "SELECT vec_add('[1]', '[1,2]')", {"vec_add", "float32[1]", "float32[2]"});
  check_error(session, "SELECT vec_distance_hamming('[1]', '[2]')", {"bit vectors", "float32"});
  check_error(session, "SELECT vec_distance_cosine(vec_bit(x'00'), vec_bit(x'00'))", {"got bit"});
  check_error(session, "SELECT vec_add('[3e38]', '[3e38]')", {"vec_add", "float32"});
  check_error(session, "SELECT vec_int8(vec_f32('[1]'))", {"vec_int8", "a vector of float32"});
  check_error(session, "SELECT vec_f32(x'0000c07f')", {"vec_f32", "NaN as element [0]"});
  check_error(session, "SELECT vec_slice('[1,2]', 1, 3)", {"vec_slice", "start 1 and end 3"});
  check_error(session, "SELECT vec_f16('[65520]')", {"float16", "65520"});
}

// --- warp_config -----------------------------------------------------------

TEST_CASE("warp_config refuses to act from a view") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIEW v AS SELECT warp_config('threads', 1)");
  check_error(session, "SELECT * FROM v", {"unsafe"});
  session.must_run("CREATE VIEW r AS SELECT warp_config('threads') AS n");
  CHECK(session.must_run("SELECT n > 0 FROM r") == Rows{"1"});
}

// --- searches --------------------------------------------------------------

// 300 rows with ties; e is NULL for every 50th.
void fill(const SqlSession& session) {
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(e FLOAT[3], b BIT[8]);"
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300)"
      "INSERT INTO t(rowid, e, b) SELECT i, iif(i % 50 = 0, NULL, '[' || (i * 7 % 10) || ',' ||"
      " (i * 3 % 8) || ',' || (i % 5) || ']'), CAST(char(i % 128) AS BLOB) FROM c");
}

TEST_CASE("knn search and join equal brute force in SQL") {
  const SqlSession session(":memory:");
  fill(session);
  for (const int k : {0, 1, 7, 294, 1000}) {
    const std::string n = std::to_string(k);
    CHECK(session.must_run("SELECT rowid, distance, rank FROM "
                           "warp_knn_search('t', 'e', '[4,4,2]', " + n + ")") ==
          session.must_run("SELECT rowid, vec_distance_l2(e, '[4,4,2]'), row_number() OVER "
                           "(ORDER BY vec_distance_l2(e, '[4,4,2]'), rowid) AS n FROM t "
                           "WHERE e IS NOT NULL ORDER BY n LIMIT " + n));
    CHECK(session.must_run("SELECT * FROM warp_knn_join('t', 'e', 'SELECT rowid, e FROM t WHERE "
                           "rowid % 40 IN (1, 10)', " + n + ")") ==
          session.must_run("SELECT q.rowid, s.rowid, s.distance, s.rank FROM t q, "
                           "warp_knn_search('t', 'e', q.e, " + n + ") s "
                           "WHERE q.rowid % 40 IN (1, 10) ORDER BY q.rowid, s.rank"));
  }
  CHECK(session.must_run("SELECT * FROM warp_range_search('t', 'e', '[4,4,2]', 3)") ==
        session.must_run("SELECT rowid, vec_distance_l2(e, '[4,4,2]') AS d FROM t WHERE d <= 3 "
                         "ORDER BY d, rowid"));
  CHECK(session.must_run("SELECT * FROM warp_range_join('t', 'b', 'SELECT ''x'', x''0f'' UNION ALL "
                         "SELECT ''none'', NULL UNION ALL SELECT 2, x''80''', 1)") ==
        session.must_run("SELECT * FROM (SELECT 'x', rowid, vec_distance_hamming(vec_bit(b), "
                         "vec_bit(x'0f')) AS d FROM t WHERE d <= 1 ORDER BY d, rowid) UNION ALL "
                         "SELECT * FROM (SELECT 2, rowid, vec_distance_hamming(vec_bit(b), "
                         "vec_bit(x'80')) AS d FROM t WHERE d <= 1 ORDER BY d, rowid)"));
}

TEST_CASE("an ORDER BY that the rows obey costs no sort, any other is honoured") {
  const SqlSession session(":memory:");
  fill(session);
  const auto sorts = [&](const std::string& sql) {
    for (const std::string& row : session.must_run("EXPLAIN QUERY PLAN " + sql)) {
      if (contains(row, "TEMP B-TREE")) return true;
    }
    return false;
  };
  const std::string search = "SELECT s.rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 20) s";
  CHECK(!sorts(search + " ORDER BY rank"));
  CHECK(!sorts(search + " ORDER BY distance"));
  CHECK(!sorts(search + " ORDER BY distance, s.rowid"));
  CHECK(sorts(search + " ORDER BY distance DESC"));
  CHECK(sorts(search + " ORDER BY s.rowid"));
  const Rows joined = session.must_run(
      "SELECT s.rank FROM (SELECT e FROM t WHERE rowid < 5) q, "
      "warp_knn_search('t', 'e', q.e, 3) s ORDER BY s.rank");
  CHECK(joined == Rows{"1", "1", "1", "1", "2", "2", "2", "2", "3", "3", "3", "3"});
}

TEST_CASE("arguments come from any table of a join, and a missing one is named") {
  const SqlSession session(":memory:");
  fill(session);
  session.must_run("CREATE TABLE q(id, v, k); INSERT INTO q VALUES (1, '[1,1,1]', 2), "
                   "(2, NULL, NULL), (3, '[9,7,4]', 1)");
  const Rows expected = session.must_run(
      "SELECT 1, rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 2) UNION ALL "
      "SELECT 3, rowid FROM warp_knn_search('t', 'e', '[9,7,4]', 1)");
  CHECK(session.must_run("SELECT q.id, s.rowid FROM q, warp_knn_search('t', 'e', q.v, q.k) s "
                         "ORDER BY q.id, s.rank") == expected);
  CHECK(session.must_run("SELECT q.id, s.rowid FROM warp_knn_search('t', 'e', q.v, q.k) s, q "
                         "ORDER BY q.id, s.rank") == expected);
  CHECK(session.must_run("SELECT q.id, count(s.rowid) FROM q LEFT JOIN "
                         "warp_knn_search('t', 'e', q.v, q.k) s GROUP BY q.id") ==
        Rows{"1|2", "2|0", "3|1"});
  CHECK(session.must_run("SELECT 1, rowid FROM warp_knn_search WHERE \"table\" = 't' AND "
                         "\"column\" = 'e' AND query = '[1,1,1]' AND k = 2 AND "
                         "(rank = 1 OR rank = 2)") == Rows{expected[0], expected[1]});
  CHECK(session.must_run("SELECT k, \"table\", options FROM "
                         "warp_knn_search('t', 'e', '[1,1,1]', 1)") == Rows{"1|t|NULL"});
  // The inner loop of a join is asked again with the same arguments, row by row.
  const std::string calls[] = {"warp_knn_search('t', 'e', '[1,1,1]', 30)",
                               "warp_range_search('t', 'e', '[1,1,1]', 3)",
                               "warp_knn_join('t', 'e', 'VALUES (1, ''[1,1,1]''), (2, NULL)', 30)",
                               "warp_range_join('t', 'e', 'VALUES (1, ''[1,1,1]'')', 3)"};
  for (const std::string& call : calls) {
    session.must_run("DROP TABLE IF EXISTS once; CREATE TABLE once AS SELECT * FROM " + call);
    const std::string join = " s ON s.rowid = p.rowid ORDER BY p.rowid";
    CHECK(session.must_run("SELECT p.rowid, s.distance FROM t p LEFT JOIN " + call + join) ==
          session.must_run("SELECT p.rowid, s.distance FROM t p LEFT JOIN (SELECT \"rowid\", "
                           "distance FROM once)" + join));
  }
  check_error(session, "SELECT * FROM warp_knn_search('t', 'e', '[1,1,1]')",
              {"warp_knn_search", "argument k is missing"});
  check_error(session, "SELECT * FROM warp_knn_search", {"argument table is missing"});
  check_error(session, "SELECT * FROM warp_knn_search('t', 'e', '[1,1,1]', NULL)", {"k: ", "NULL"});
  check_error(session, "SELECT * FROM warp_knn_search('t', 'e', '[1,1,1]', 1.5)", {"k: ", "1.5"});
}

TEST_CASE("query_sql is one read-only SELECT of two columns") {
  const SqlSession session(":memory:");
  fill(session);
  const auto join = [](const std::string& sql) {
    std::string quoted;
    for (const char c : sql) quoted.append(c == '\'' ? 2 : 1, c);
    return "SELECT count(*) FROM warp_knn_join('t', 'e', '" + quoted + "', 1)";
  };
  const Rows accepted{
      "SELECT 1, '[1,2,3]'", "VALUES (1, '[1,2,3]'), (2, '[3,4,5]')",
      "-- a comment\n /* ; */ WITH c AS (SELECT 1) SELECT 1, '[1,2,3]' FROM c ; -- end"};
  for (const std::string& sql : accepted) {
    INFO(sql);
    CHECK(session.run(join(sql)).ok());
  }
  const Rows refused{
      "", ";", "SELECT 1", "SELECT 1,2,3", "SELECT 1,?", "SELECT 1,'[1,2,3]'; SELECT 2,2",
      "DELETE FROM t", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "VACUUM",
      "ATTACH ':memory:' AS x", "DETACH main", "PRAGMA user_version = 5", "EXPLAIN SELECT 1, 2",
      "CREATE TABLE x(y)", "INSERT INTO q VALUES (1, 2) RETURNING 1, 2",
      "WITH c AS (SELECT 1) DELETE FROM q"};
  session.must_run("CREATE TABLE q(a, b)");
  for (const std::string& sql : refused) {
    check_error(session, join(sql), {"warp_knn_join: query_sql", "read-only", "two columns"});
  }
  CHECK(session.must_run("PRAGMA user_version") == Rows{"0"});
  CHECK(session.must_run("SELECT count(*) FROM q") == Rows{"0"});
  session.must_run("CREATE VIEW v AS SELECT * FROM warp_knn_join('t', 'e', 'SELECT 1, NULL', 1)");
  check_error(session, "SELECT * FROM v", {"unsafe"});
}

TEST_CASE("table names resolve as SQLite resolves them") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(e FLOAT[1]); INSERT INTO t(rowid, e) VALUES (1, '[1]');"
      "ATTACH ':memory:' AS other; CREATE VIRTUAL TABLE other.t USING warp(e FLOAT[1]);"
      "INSERT INTO other.t(rowid, e) VALUES (2, '[1]');"
      "CREATE VIRTUAL TABLE other.\"odd \"\"name.x\" USING warp(e FLOAT[1]);"
      "INSERT INTO other.\"odd \"\"name.x\"(rowid, e) VALUES (3, '[1]');"
      "CREATE TABLE plain(x); CREATE VIEW seen AS SELECT 1");
  const auto found = [&](const std::string& name) {
    return session.must_run("SELECT rowid FROM warp_knn_search('" + name + "', 'e', '[1]', 1)")[0];
  };
  CHECK(found("t") == "1");
  CHECK(found("MAIN.T") == "1");
  CHECK(found("other.t") == "2");
  CHECK(found("[other].`t`") == "2");
  CHECK(found("\"odd \"\"name.x\"") == "3");
  session.must_run("CREATE VIRTUAL TABLE temp.t USING warp(e FLOAT[1]);"
                   "INSERT INTO temp.t(rowid, e) VALUES (4, '[1]')");
  CHECK(found("t") == "4");
  session.must_run("DROP TABLE temp.t; DROP TABLE main.t");
  CHECK(found("t") == "2");
  session.must_run("ALTER TABLE other.t RENAME TO renamed");
  CHECK(found("renamed") == "2");
  const auto refused = [&](const std::string& name, const std::string& why) {
    check_error(session, "SELECT * FROM warp_knn_search('" + name + "', 'e', '[1]', 1)", {why});
  };
  refused("t", "no such warp table: t");
  refused("nowhere.t", "no such warp table: nowhere.t");
  refused("plain", "plain is a table, not a warp table");
  refused("seen", "seen is a view, not a warp table");
  refused("a.b.c", "expected a table's name");
  refused("\"t", "expected a table's name");
  refused("", "expected a table's name");
}

TEST_CASE("functions see what another connection did to the schema") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "warplite_functions_test.db").string();
  std::filesystem::remove(path);
  {
    const SqlSession reader(path), writer(path);
    const std::string one = "SELECT distance FROM warp_knn_search('t', 'e', '[1]', 1)";
    check_error(reader, one, {"no such warp table"});
    writer.must_run("CREATE VIRTUAL TABLE t USING warp(e FLOAT[1]);"
                    "INSERT INTO t(e) VALUES ('[7]')");
    CHECK(reader.must_run(one) == Rows{"6.0"});
    writer.must_run("DROP TABLE t; CREATE VIRTUAL TABLE t USING warp(x INTEGER, e FLOAT[2]);"
                    "INSERT INTO t(e) VALUES ('[1,2]')");
    check_error(reader, one, {"t.e", "FLOAT[2]"});
    CHECK(reader.must_run("SELECT distance FROM warp_knn_search('t', 'e', '[1,5]', 1)") ==
          Rows{"3.0"});
    writer.must_run("DROP TABLE t");
    CHECK(!reader.run(one).ok());
  }
  std::filesystem::remove(path);
}

// A text that is a constant of the statement is read once, and others are read each time.
TEST_CASE("distances of texts, in constants, parameters and columns") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE TABLE q(id INTEGER PRIMARY KEY, v); INSERT INTO q VALUES (1, '[1,0]'), (2, '[0,2]'),"
      "(3, vec_f32('[3,0]')), (4, '[4,4]')");
  CHECK(session.must_run("SELECT vec_distance_l1(v, '[1,1]'), vec_distance_l1('[0,1]', v), "
                         "vec_distance_l1(v, v), vec_to_json(vec_add('[1,0]', v)) FROM q ORDER BY id") ==
        Rows{"1.0|2.0|0.0|[2.000000,0.000000]", "2.0|1.0|0.0|[1.000000,2.000000]",
             "3.0|4.0|0.0|[4.000000,0.000000]", "6.0|7.0|0.0|[5.000000,4.000000]"});
  CHECK(session.must_run("SELECT count(*) FROM q a, q b WHERE vec_distance_l1(a.v, b.v) = 0") == Rows{"4"});
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(session.db(), "SELECT sum(vec_distance_l1(v, ?)) FROM q", -1, &statement, nullptr) ==
          SQLITE_OK);
  for (const auto& [query, sum] : {std::pair("[0,0]", 14.0), std::pair("[1,0]", 12.0), std::pair("[0,0]", 14.0)}) {
    sqlite3_bind_text(statement, 1, query, -1, SQLITE_STATIC);
    REQUIRE(sqlite3_step(statement) == SQLITE_ROW);
    CHECK(sqlite3_column_double(statement, 0) == sum);
    sqlite3_reset(statement);
  }
  sqlite3_finalize(statement);
  CHECK(!session.run("SELECT vec_distance_l1(v, '[1,2,3]') FROM q").ok());
  CHECK(!session.run("SELECT vec_distance_l1(v, 'x') FROM q").ok());
}

TEST_CASE("a table that the authorizer refuses is refused each time") {
  const SqlSession session(":memory:");
  fill(session);
  const std::string one = "SELECT rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 1)";
  session.must_run(one);
  sqlite3_set_authorizer(
      session.db(),
      [](void*, int action, const char* table, const char*, const char*, const char*) {
        return action == SQLITE_READ && std::string(table) == "t" ? SQLITE_DENY : SQLITE_OK;
      },
      nullptr);
  for (int i = 0; i < 3; ++i) CHECK(!session.run(one).ok());
  sqlite3_set_authorizer(session.db(), nullptr, nullptr);
  session.must_run(one);
}

// More queries than one batch, of which the first has nothing within the radius, and more hits than are kept.
TEST_CASE("a range join answers its queries some at a time, and again from the start") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE r USING warp(e FLOAT[1], s SPARSE[5], w TEXT distance=edit);"
      "CREATE TABLE q(id INTEGER PRIMARY KEY, e, s, w);"
      "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 2999)"
      "INSERT INTO q SELECT i, '[' || (i % 1000) || ']', '{\"2\":' || (i % 1000 + 1) || '}',"
      "  substr('abcdefghij', 1, i % 10) FROM c;"
      "INSERT INTO r(rowid, e, s, w) SELECT id, e, s, w FROM q");
  const auto join = [](const char* column, const char* from, double radius) {
    return "warp_range_join('r', '" + std::string(column) + "', 'SELECT id, " + column + " FROM q" + from +
           "', " + std::to_string(radius) + ")";
  };
  CHECK(session.must_run("SELECT count(*), count(DISTINCT query_id), sum(distance) FROM " +
                         join("e", "", 1)) == Rows{"26982|3000|17982.0"});
  CHECK(session.must_run("SELECT count(*), sum(distance > 2) FROM " + join("w", " WHERE id < 700", 0)) ==
        Rows{"210000|0"});
  CHECK(session.must_run("SELECT count(*) FROM " + join("s", "", -900000)) ==
        session.must_run("SELECT count(*) FROM q a JOIN q b ON (a.id % 1000 + 1) * (b.id % 1000 + 1) >= 900000"));
  CHECK(session.must_run("SELECT count(*) FROM (SELECT 1 AS x UNION ALL SELECT 2) CROSS JOIN " +
                         join("e", "", 1)) == Rows{"53964"});
  CHECK(session.must_run("SELECT count(*) FROM " + join("e", " WHERE id > 300", 0.5)) == Rows{"8097"});
}

TEST_CASE("the option filter leaves what SQLite says, whether a scan tests it or SQLite does") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE t USING warp(n INTEGER, r REAL, s TEXT, e FLOAT[1]);"
                   "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 12000) "
                   "INSERT INTO t(rowid, n, r, s, e) SELECT x, x % 100, x / 7.0, "
                   "CASE x % 5 WHEN 0 THEN NULL ELSE char(97 + x % 26) || x END, '[' || x || ']' FROM c;"
                   "DELETE FROM t WHERE rowid % 97 = 0");
  const auto quoted = [](const std::string& text) {
    std::string literal = "'";
    for (const char c : text) literal.append(c == '\'' ? 2 : 1, c);
    return literal + "'";
  };
  const auto found = [&](const std::string& filter) {
    return session.must_run("SELECT count(*), sum(rowid) FROM warp_knn_join('t', 'e', 'SELECT 1, ''[0]''', 20000, "
                            "json_object('filter', " + quoted(filter) + "))");
  };
  for (const std::string filter :
       {"n < 30", "n < 30 AND n > 20", "n IN (3, 4, 99)", "n = 3 OR n = 5", "n + 0 < 30", "1", "0", "n < NULL",
        "r >= 3.5 AND r < 900", "s > 'm'", "s LIKE 'a%'", "s IS NULL", "s IS NOT NULL", "n = '3'",
        "rowid BETWEEN 5 AND 700", "rowid = 5", "n < (SELECT 7)", "n < 1e18", "abs(n) < 3", "n BETWEEN 3 AND r",
        "n < (SELECT count(*) FROM t WHERE n < 1)", "rowid IN (SELECT rowid FROM t WHERE n = 7)"}) {
    CAPTURE(filter);
    const auto expected = session.must_run("SELECT count(*), sum(rowid) FROM t WHERE " + filter);
    CHECK(found(filter) == expected);
    CHECK(found("CASE WHEN " + filter + " THEN 1 END") == expected);
  }
  // A function of the caller's that scans the table itself, before SQLite finds that no row passes.
  sqlite3_create_function(session.db(), "no", 0, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                          [](sqlite3_context* context, int, sqlite3_value**) {
                            sqlite3_exec(sqlite3_context_db_handle(context), "SELECT rowid FROM t WHERE n < 50",
                                         nullptr, nullptr, nullptr);
                            sqlite3_result_int(context, 0);
                          }, nullptr, nullptr);
  CHECK(found("no() AND n < 3") == std::vector<std::string>{"0|NULL"});
  CHECK(found("n <= no()") == session.must_run("SELECT count(*), sum(rowid) FROM t WHERE n = 0"));
}

TEST_CASE("a commit that changes the tail alone costs no look at the segments") {
  const std::string path =
      (std::filesystem::temp_directory_path() / "warplite_functions_test.db").string();
  std::filesystem::remove(path);
  {
    const SqlSession reader(path), writer(path);
    writer.must_run("CREATE VIRTUAL TABLE t USING warp(e FLOAT[1]);"
                    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000) "
                    "INSERT INTO t(e) SELECT '[' || x || ']' FROM c");
    std::size_t looks = 0;
    sqlite3_trace_v2(reader.db(), SQLITE_TRACE_STMT,
                     [](unsigned, void* count, void* statement, void*) {
                       const char* text = sqlite3_sql(static_cast<sqlite3_stmt*>(statement));
                       if (contains(text, "t_segments")) ++*static_cast<std::size_t*>(count);
                       return 0;
                     }, &looks);
    const std::string nearest = "SELECT rowid FROM t WHERE e MATCH '[0]' AND k = 1";
    CHECK(reader.must_run(nearest) == Rows{"1"});
    const std::size_t first = looks;
    CHECK(first > 0);
    writer.must_run("INSERT INTO t(rowid, e) VALUES (30000, '[0.5]')");
    CHECK(reader.must_run(nearest) == Rows{"30000"});
    writer.must_run("DELETE FROM t WHERE rowid = 30000");
    CHECK(reader.must_run(nearest) == Rows{"1"});
    CHECK(looks == first);
    writer.must_run("DELETE FROM t WHERE rowid = 1");
    CHECK(reader.must_run(nearest) == Rows{"2"});
    CHECK(looks > first);
  }
  std::filesystem::remove(path);
}

TEST_CASE("a table may change or go while its results are read") {
  for (const std::string change : {"DELETE FROM t", "ALTER TABLE t RENAME TO u", "DROP TABLE t"}) {
    const SqlSession session(":memory:");
    fill(session);
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(session.db(),
                               "SELECT s.rowid FROM warp_knn_search('t', 'e', '[1,1,1]', 50) s", -1,
                               &statement, nullptr) == SQLITE_OK);
    int rows = 0;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      if (++rows == 5) session.run(change);
    }
    INFO(change);
    CHECK(sqlite3_finalize(statement) == SQLITE_OK);
    CHECK(rows == 50);
  }
}

}  // namespace
}  // namespace warplite
