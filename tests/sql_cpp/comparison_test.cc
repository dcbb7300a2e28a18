// Comparisons of every column with every kind of operand: collations, affinities, NULL.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/sql_session.h"

using namespace warplite;
using testing::SqlSession;

using Rows = std::vector<std::string>;

TEST_CASE("Comparisons agree with an ordinary table") {
  const SqlSession db(":memory:");
  db.must_run(
      "CREATE VIRTUAL TABLE p USING warp(id INTEGER PRIMARY KEY, e FLOAT[1], i INTEGER, r REAL, "
      "t TEXT, b BOOLEAN);"
      "CREATE TABLE o(id INTEGER PRIMARY KEY, i INTEGER, r REAL, t TEXT, b BOOLEAN);"
      "INSERT INTO o VALUES (1, 5, 5.0, '5', 1), (2, 10, 2.5, '10', 0), (3, NULL, NULL, NULL, "
      "NULL),"
      " (4, -3, -0.5, '5.0', 1), (5, 9007199254740993, 9007199254740992.0, 'abc', 0),"
      " (6, 0, 0.0, 'ABC ', 1), (7, 7, 1e300, '', 0), (8, 2020, 2020.0, ' 5', 1);"
      "INSERT INTO p SELECT id, '[1]', i, r, t, b FROM o;"
      "CREATE TABLE n(v INTEGER); INSERT INTO n VALUES (5), (10), (NULL), ('abc'), (2.5);"
      "CREATE TABLE x(v TEXT); INSERT INTO x VALUES ('5'), ('10'), (NULL), ('abc'), ('5.0');"
      "CREATE TABLE y(v BLOB); INSERT INTO y VALUES (5), ('5'), (x'35'), (NULL), (2.5), ('abc');"
      "CREATE TABLE z(v TEXT COLLATE NOCASE); INSERT INTO z VALUES ('ABC'), ('abc '), ('5');");
  const char* const operands[] = {"5",     "'5'",    "5.0",  "'5.0'", "NULL",
                                  "'abc'", "x'35'",  "-0.5", "1e400", "9007199254740992.0",
                                  "'ABC' COLLATE NOCASE", "'abc' COLLATE RTRIM", "2020", "' 5'"};
  const char* const operators[] = {"=", "<>", "<", "<=", ">", ">=", "IS", "IS NOT", "LIKE", "GLOB"};
  const char* const columns[] = {"id", "rowid", "i", "r", "t", "b"};
  for (const char* column : columns) {
    for (const char* op : operators) {
      for (const char* operand : operands) {
        const std::string where = std::string(column) + ' ' + op + ' ' + operand;
        CAPTURE(where);
        const Rows expected = db.must_run("SELECT id FROM o WHERE " + where + " ORDER BY id");
        CHECK(db.must_run("SELECT id FROM p WHERE " + where + " ORDER BY id") == expected);
        CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[0]' AND " + where + " ORDER BY id") ==
              expected);
      }
      for (const char* other : {"n", "x", "y", "z"}) {
        const std::string tail =
            std::string(" CROSS JOIN $ ON $.") + column + ' ' + op + ' ' + other + ".v ";
        const auto joined = [&](std::string table) {
          std::string sql = std::string("SELECT ") + other + ".rowid, $.id FROM " + other + tail +
                            (table == "p" ? "WHERE $.e MATCH '[0]' " : "") + "ORDER BY 1, 2";
          for (std::size_t at; (at = sql.find('$')) != std::string::npos;) sql.replace(at, 1,
              table);
          return db.must_run(sql);
        };
        CAPTURE(tail);
        // A number kept in a text that is no number only SQLite tells from the text.
        if (std::string(other) == "n" && std::string(column) == "t") continue;
        CHECK(joined("p") == joined("o"));
      }
    }
    const std::string in = std::string(column) + " IN (5, '10', 2.5, NULL, 'abc')";
    CAPTURE(in);
    CHECK(db.must_run("SELECT id FROM p WHERE " + in + " ORDER BY id") ==
          db.must_run("SELECT id FROM o WHERE " + in + " ORDER BY id"));
    for (const char* other : {"n", "x", "y", "z"}) {
      const std::string where = std::string(column) + " IN (SELECT v FROM " + other + ")";
      CAPTURE(where);
      CHECK(db.must_run("SELECT id FROM p WHERE " + where + " ORDER BY id") ==
            db.must_run("SELECT id FROM o WHERE " + where + " ORDER BY id"));
    }
  }
}
