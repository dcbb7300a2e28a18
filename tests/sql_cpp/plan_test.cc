// Which plan answers which statement, read from EXPLAIN QUERY PLAN, and that no plan
// changes an answer: the order of FROM, the collation, the number of terms.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sql_session.h"

using namespace warplite;
using testing::SqlSession;

namespace {

using Rows = std::vector<std::string>;

Rows sorted(Rows rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

// What EXPLAIN QUERY PLAN says of one table, after "INDEX ".
std::string plan_of(const SqlSession& db, const std::string& sql, const std::string& table = "p") {
  for (const std::string& row : db.must_run("EXPLAIN QUERY PLAN " + sql)) {
    const std::size_t at = row.find("SCAN " + table + " VIRTUAL TABLE INDEX ");
    if (at != std::string::npos) return row.substr(row.find("INDEX ") + 6);
  }
  return "none";
}

// The table at the outermost level, by EXPLAIN QUERY PLAN.
bool is_outermost(const SqlSession& db, const std::string& sql, const std::string& table) {
  const Rows rows = db.must_run("EXPLAIN QUERY PLAN " + sql);
  return rows.at(0).find(" " + table + " ") != std::string::npos ||
         rows.at(0).ends_with(" " + table);
}

// Twenty rows on a line: row i has the vector [i], year 2000 + i and venue A, B, C or NULL in turn.
void fill(const SqlSession& db) {
  db.must_run(
      "CREATE VIRTUAL TABLE p USING warp(id INTEGER PRIMARY KEY, e FLOAT[1], year INTEGER, "
      "score REAL, venue TEXT, flag BOOLEAN, +notes TEXT);"
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20) "
      "INSERT INTO p SELECT i, '[' || i || ']', 2000 + i, i / 2.0, "
      "  CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'A' WHEN 2 THEN 'B' ELSE 'C' END, i % 2, "
      "  'note ' || i FROM c;"
      "CREATE TABLE q(id INTEGER PRIMARY KEY, e TEXT, year INTEGER);"
      "INSERT INTO q VALUES (1, '[0]', 2002), (2, '[9]', 2010), (3, '[30]', 2001);"
      "CREATE TABLE a(paper INTEGER, name TEXT, country TEXT);"
      "INSERT INTO a VALUES (1, 'x', 'NO'), (2, 'y', 'SE'), (2, 'z', 'NO'), (19, 'w', 'NO');");
}

std::string whole_plan_of(const SqlSession& db, const std::string& sql) {
  std::string all;
  for (const std::string& row : db.must_run("EXPLAIN QUERY PLAN " + sql)) all += row + "\n";
  return all;
}

bool uses_sorter(const SqlSession& db, const std::string& sql) {
  return whole_plan_of(db, sql).find("TEMP B-TREE") != std::string::npos;
}

}  // namespace

TEST_CASE("plan: one table") {
  const SqlSession db(":memory:");
  fill(db);
  struct Case {
    const char* where;
    const char* plan;
  };
  const Case cases[] = {
      {"e MATCH '[1]' AND k = 3", "1:knn(e flat) k"},
      {"e MATCH '[1]' AND year >= 2005 AND venue IN ('A','B') AND k = 10",
       "1:knn(e flat) filter(year>=,venue IN) k"},
      {"e MATCH '[1]' AND year BETWEEN 2003 AND 2005 AND k = 10",
       "1:knn(e flat) filter(year>=,year<=) k"},
      {"k = 3 AND venue IS NULL AND e MATCH '[1]'", "1:knn(e flat) filter(venue IS NULL) k"},
      {"e MATCH '[1]' AND venue IS NOT NULL AND k = 3", "1:knn(e flat) filter(venue IS NOT NULL) "
                                                        "k"},
      {"e MATCH '[1]' AND venue IS 'A' AND k = 3", "1:knn(e flat) filter(venue IS) k"},
      {"e MATCH '[1]' AND venue IS NOT 'A' AND k = 3", "1:knn(e flat) filter(venue IS NOT) k"},
      {"e MATCH '[1]' AND venue <> 'A' AND k = 3", "1:knn(e flat) filter(venue<>) k"},
      {"e MATCH '[1]' AND venue LIKE '%a' AND k = 3", "1:knn(e flat) filter(venue LIKE) k"},
      {"e MATCH '[1]' AND venue GLOB '*A' AND k = 3", "1:knn(e flat) filter(venue GLOB) k"},
      {"e MATCH '[1]' AND year LIKE '%7' AND k = 3", "1:knn(e flat) filter(year LIKE) k"},
      // SQLite adds the range of a prefix, and turns this OR into IN.
      {"e MATCH '[1]' AND venue GLOB 'A*' AND k = 3",
       "1:knn(e flat) filter(venue>=,venue<,venue GLOB) k"},
      {"e MATCH '[1]' AND (id = 3 OR id = 4)", "1:knn(e flat) filter(rowid IN)"},
      {"e MATCH '[1]' AND rowid IN (1, 2, 3) AND k = 3", "1:knn(e flat) filter(rowid IN) k"},
      {"e MATCH '[1]' AND id > 5 AND k = 3", "1:knn(e flat) filter(rowid>) k"},
      {"e MATCH '[1]' AND venue = 'a' COLLATE NOCASE AND k = 3",
       "1:knn(e flat) filter(venue= COLLATE NOCASE) k"},
      {"e MATCH '[1]' AND k = 3 AND nprobe = 4", "1:knn(e flat) k nprobe"},
      {"e MATCH '[1]' AND recall = 0.5 AND k = 3", "1:knn(e flat) k recall"},
      {"e MATCH '[1]' AND k = 3 AND distance < 2", "1:knn(e flat) distance< k"},
      {"e MATCH '[1]' AND distance <= 2", "2:range(e flat) distance<="},
      {"e MATCH '[1]' AND distance BETWEEN 1 AND 2 AND year = 2001",
       "2:range(e flat) filter(year=) distance>= distance<="},
      {"e MATCH '[1]' AND distance > 2", "1:knn(e flat) distance>"},
      // What is left to SQLite.
      {"e MATCH '[1]' AND venue = 5 AND k = 3", "1:knn(e flat) k"},
      {"e MATCH '[1]' AND year + 1 = 2002 AND k = 3", "1:knn(e flat) k"},
      {"e MATCH '[1]' AND notes = 'note 1' AND k = 3", "1:knn(e flat) k"},
      {"e MATCH '[1]' AND venue NOT IN ('A') AND k = 3", "1:knn(e flat) k"},
      {"e MATCH '[1]' AND e IS NOT NULL AND k = 3", "1:knn(e flat) k"},
      {"id = 5", "3:rowid="},
      {"rowid = 5 AND year > 3", "3:rowid="},
      {"year = 2005", "0:scan filter(year=)"},
      {"1", "0:scan"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.where);
    CHECK(plan_of(db, std::string("SELECT id FROM p WHERE ") + c.where) == c.plan);
  }
}

TEST_CASE("plan: a text key is looked up, except under another collation") {
  const SqlSession db(":memory:");
  db.must_run(
      "CREATE VIRTUAL TABLE p USING warp(doi TEXT PRIMARY KEY, e FLOAT[1], n INTEGER);"
      "INSERT INTO p VALUES ('a', '[1]', 1), ('A', '[2]', 2), ('5', '[3]', 3), ('05', '[4]', 4);"
      "CREATE TABLE o(doi TEXT PRIMARY KEY, n INTEGER);"
      "INSERT INTO o VALUES ('a', 1), ('A', 2), ('5', 3), ('05', 4);"
      "CREATE TABLE v(value); INSERT INTO v VALUES ('a'), (5), ('5'), (5.0), (NULL), (x'35');"
      "CREATE TABLE w(value INTEGER); INSERT INTO w VALUES (5), ('a');");
  CHECK(plan_of(db, "SELECT n FROM p WHERE doi = 'a'") == "4:key(doi)");
  CHECK(plan_of(db, "SELECT n FROM p WHERE doi = ?") == "4:key(doi)");
  CHECK(plan_of(db, "SELECT n FROM p WHERE doi = 'a' COLLATE NOCASE") ==
        "0:scan filter(doi= COLLATE NOCASE)");
  CHECK(plan_of(db, "SELECT n FROM p WHERE e MATCH '[0]' AND doi = 'a' AND k = 1") ==
        "1:knn(e flat) filter(doi=) k");
  for (const char* query :
       {"SELECT n FROM $ WHERE doi = 'a'", "SELECT n FROM $ WHERE doi = 'a' COLLATE NOCASE",
        "SELECT n FROM $ WHERE doi = 5", "SELECT n FROM $ WHERE doi = x'35'",
        "SELECT n FROM $ WHERE doi = 'zz'", "SELECT n FROM $ WHERE doi IN ('a', '05', 5)",
        "SELECT n, quote(value) FROM v JOIN $ ON doi = value",
        "SELECT n, quote(value) FROM w JOIN $ ON doi = value",
        "SELECT n, quote(value) FROM $ CROSS JOIN w ON doi = value"}) {
    CAPTURE(query);
    std::string warp = query, ordinary = query;
    warp.replace(warp.find('$'), 1, "p");
    ordinary.replace(ordinary.find('$'), 1, "o");
    CHECK(sorted(db.must_run(warp)) == sorted(db.must_run(ordinary)));
  }
}

TEST_CASE("plan: ORDER BY rowid needs no sort in either direction") {
  const SqlSession db(":memory:");
  fill(db);
  for (const std::string order : {"id", "rowid, year", "id DESC", "rowid DESC, year"}) {
    CHECK_FALSE(uses_sorter(db, "SELECT year FROM p WHERE year > 3 ORDER BY " + order));
  }
  CHECK(uses_sorter(db, "SELECT year FROM p ORDER BY year DESC, id"));
  db.must_run("CREATE TABLE r(id INTEGER PRIMARY KEY, e BLOB)");
  db.must_run("CREATE VIRTUAL TABLE c USING warp(e FLOAT[1], content=r, content_rowid=id)");
  CHECK_FALSE(uses_sorter(db, "SELECT rowid FROM c ORDER BY rowid"));
  CHECK(uses_sorter(db, "SELECT rowid FROM c ORDER BY rowid DESC"));
}

TEST_CASE("plan: ORDER BY distance needs no sort, DESC does") {
  const SqlSession db(":memory:");
  fill(db);
  const auto sorts = [&](const std::string& order) {
    return uses_sorter(db, "SELECT id FROM p WHERE e MATCH '[1]' ORDER BY " + order + " LIMIT 3");
  };
  CHECK_FALSE(sorts("distance"));
  CHECK_FALSE(sorts("distance, rowid"));
  CHECK_FALSE(sorts("distance ASC, id ASC"));
  CHECK(sorts("distance DESC"));
  CHECK(sorts("distance, id DESC"));
  CHECK(sorts("distance, year"));
  CHECK(sorts("year"));
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[7]' ORDER BY distance DESC LIMIT 2") ==
        Rows{"20", "19"});
  CHECK(db.must_run("SELECT DISTINCT distance FROM p WHERE e MATCH '[7]' ORDER BY distance LIMIT "
                    "3") ==
        Rows{"0.0", "1.0", "2.0"});
  CHECK(db.must_run("SELECT distance, count(*) FROM p WHERE e MATCH '[7]' GROUP BY distance "
                    "ORDER BY distance LIMIT 2") == Rows{"0.0|1", "1.0|2"});
}

TEST_CASE("plan: MATCH feeds on a table to its left, in either order of FROM") {
  const SqlSession db(":memory:");
  fill(db);
  const Rows expected{"1|1", "1|2", "2|8", "2|9", "3|19", "3|20"};
  for (const char* from : {"q JOIN p ON p.e MATCH q.e AND p.k = 2",
                           "p JOIN q ON p.e MATCH q.e AND p.k = 2",
                           "p, q WHERE p.e MATCH q.e AND p.k = 2",
                           "q LEFT JOIN p ON p.e MATCH q.e AND p.k = 2"}) {
    CAPTURE(from);
    CHECK(sorted(db.must_run(std::string("SELECT q.id, p.id FROM ") + from)) == expected);
  }
  // A filter on the table that feeds MATCH is known in time.
  CHECK(sorted(db.must_run("SELECT q.id, p.id FROM p, q WHERE p.e MATCH q.e AND p.k = 2 "
                           "AND p.year > q.year AND q.id < 3")) ==
        Rows{"1|3", "1|4", "2|11", "2|12"});
}

TEST_CASE("plan: with k, what another table decides joins afterwards") {
  const SqlSession db(":memory:");
  fill(db);
  for (const char* from : {"a JOIN p ON p.id = a.paper", "p JOIN a ON p.id = a.paper"}) {
    CAPTURE(from);
    const std::string sql = std::string("SELECT name FROM ") + from;
    CHECK(sorted(db.must_run(sql + " WHERE p.e MATCH '[0]' AND p.k = 3")) == Rows{"x", "y", "z"});
    CHECK(is_outermost(db, sql + " WHERE p.e MATCH '[0]' AND p.k = 3", "p"));
    // Without k the cursor goes on until SQLite has what it wants.
    CHECK(db.must_run(sql + " WHERE p.e MATCH '[0]' AND country = 'NO' ORDER BY p.distance "
                            "LIMIT 3") == Rows{"x", "z", "w"});
    CHECK(db.must_run(sql + " WHERE p.e MATCH '[0]' AND country = 'NO' ORDER BY p.distance "
                            "LIMIT 1 OFFSET 2") == Rows{"w"});
  }
  // To the right of a CROSS or LEFT JOIN everything to the left is known.
  CHECK(sorted(db.must_run("SELECT name FROM a CROSS JOIN p ON p.id = a.paper WHERE p.e MATCH "
                           "'[0]' "
                           "AND p.k = 1")) == Rows{"w", "x", "y", "z"});
  CHECK(sorted(db.must_run("SELECT name, p.id FROM a LEFT JOIN p ON p.id = a.paper AND "
                           "p.e MATCH '[0]' AND p.k = 1")) ==
        Rows{"w|19", "x|1", "y|2", "z|2"});
  // A correlated sub-query filters.
  CHECK(db.must_run("SELECT name FROM a WHERE EXISTS (SELECT 1 FROM p WHERE p.e MATCH '[0]' AND "
                    "p.k = 1 AND p.id = a.paper) ORDER BY name") == Rows{"w", "x", "y", "z"});
}

TEST_CASE("plan: other tables keep their indexes") {
  const SqlSession db(":memory:");
  fill(db);
  db.must_run("CREATE TABLE big(id INTEGER PRIMARY KEY, paper INTEGER, other INTEGER);"
              "CREATE INDEX big_paper ON big(paper); CREATE TABLE third(id INTEGER PRIMARY KEY, "
              "t)");
  for (const char* sql :
       {"SELECT 1 FROM p JOIN big ON big.paper = p.id JOIN third ON third.id = big.other "
        "WHERE p.e MATCH '[1]' AND p.year > 2000 + 1 AND p.k = 3",
        "SELECT 1 FROM third JOIN big ON third.id = big.other JOIN p ON big.paper = p.id "
        "WHERE p.e MATCH ? AND p.year > ? AND p.venue IN (?, ?) ORDER BY p.distance LIMIT 3"}) {
    const std::string all = whole_plan_of(db, sql);
    CAPTURE(all);
    CHECK(all.find("SCAN p VIRTUAL TABLE INDEX 1:knn") < all.find("SEARCH big USING"));
    CHECK(all.find("(paper=?)") != std::string::npos);
    CHECK(all.find("SEARCH third USING INTEGER PRIMARY KEY") != std::string::npos);
  }
}

TEST_CASE("plan: a table without an index gets one where k results are joined with it") {
  const SqlSession db(":memory:");
  fill(db);
  db.must_run("CREATE TABLE big(paper INTEGER, other INTEGER)");
  for (const char* k : {"1000", "?"}) {
    const std::string all = whole_plan_of(
        db, std::string("SELECT big.other FROM p JOIN big ON big.paper = p.id "
                        "WHERE p.e MATCH '[1]' AND p.k = ") + k);
    CAPTURE(all);
    CHECK(all.find("AUTOMATIC") != std::string::npos);
  }
}

TEST_CASE("plan: without MATCH the cheaper side of a join is outermost") {
  const SqlSession db(":memory:");
  fill(db);
  const char* const by_rowid = "SELECT p.id, p.e FROM p JOIN a ON p.id = a.paper";
  CHECK(plan_of(db, by_rowid) == "3:rowid=");
  CHECK(is_outermost(db, by_rowid, "a"));
  // Also after a statement that searched the same columns.
  db.must_run("SELECT id, e FROM p WHERE e MATCH '[1]' LIMIT 1");
  CHECK(plan_of(db, by_rowid) == "3:rowid=");
  const char* const by_year = "SELECT p.id, q.id FROM p JOIN q ON p.year = q.year";
  CHECK(sorted(db.must_run(by_year)) == Rows{"10|2", "1|3", "2|1"});
  CHECK(plan_of(db, "SELECT a.name FROM a JOIN q ON q.id = a.paper JOIN p ON p.id = q.id") ==
        "3:rowid=");
}

TEST_CASE("plan: branches of an OR") {
  const SqlSession db(":memory:");
  fill(db);
  // Each branch with its own search.
  CHECK(sorted(db.must_run("SELECT id FROM p WHERE (e MATCH '[1]' AND k = 2) OR "
                           "(e MATCH '[20]' AND k = 1)")) == Rows{"1", "2", "20"});
  // k around the OR belongs to each; the table as a whole is offered without a MATCH.
  CHECK(sorted(db.must_run("SELECT id FROM p WHERE k = 2 AND (e MATCH '[1]' OR e MATCH '[20]') "
                           "AND year > 2001")) == Rows{"19", "2", "20", "3"});
  CHECK(sorted(db.must_run("SELECT q.id, p.id FROM q, p WHERE (p.e MATCH q.e OR p.e MATCH '[20]') "
                           "AND p.k = 1")) == Rows{"1|1", "1|20", "2|20", "2|9", "3|20"});
  // A branch that cannot run by itself is no error where another plan can.
  CHECK(db.must_run("SELECT id FROM p WHERE distance < 3 OR k = 2 OR year = 2005") == Rows{"5"});
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[7]' AND (distance < 1 OR year = 2002)") ==
        Rows{"7", "2"});
  // OR beside MATCH: two look-ups look cheap, but are not an answer.
  CHECK(plan_of(db, "SELECT id FROM p WHERE e MATCH '[1]' AND (id = 3 OR year = 2004)") ==
        "1:knn(e flat)");
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[4]' AND (id = 3 OR year = 2004) "
                    "ORDER BY distance") == Rows{"4", "3"});
  CHECK(sorted(db.must_run("SELECT q.id, p.id FROM q, p WHERE p.e MATCH q.e AND "
                           "(p.id = 3 OR p.year = 2009) AND p.k = 3")) == Rows{"1|3", "2|9"});
  const char* const among_others =
      "SELECT p.id FROM q, p WHERE p.e MATCH q.e AND p.year > ? AND p.score < ? AND p.k = 3 AND "
      "(p.id = ? OR p.venue = ?)";
  CHECK(plan_of(db, among_others) == "1:knn(e flat) filter(year>,score<) k");
  CHECK(sorted(db.must_run("SELECT id FROM p WHERE (e MATCH '[1]' AND k = 2) OR id = 9 OR year = "
                           "2012")) ==
        Rows{"1", "12", "2", "9"});
  // Without k every row with a vector matches.
  CHECK(db.must_run("SELECT count(*) FROM p WHERE e MATCH '[1]' OR id = 3") == Rows{"20"});
}

TEST_CASE("plan: misuse is named") {
  const SqlSession db(":memory:");
  fill(db);
  const auto message = [&](const std::string& sql) { return db.run(sql).message; };
  const auto contains = [](const std::string& text, const char* part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(message("SELECT id FROM p WHERE NOT e MATCH '[1]'"), "MATCH on p.e"));
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1]' OR notes = 'x'"), "MATCH on p.e"));
  CHECK(contains(message("SELECT e MATCH '[1]' FROM p"), "MATCH on p.e"));
  CHECK(contains(message("SELECT p.id FROM a LEFT JOIN p ON p.id = a.paper WHERE p.e MATCH '[1]'"),
                 "LEFT, RIGHT or FULL JOIN"));
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1]' AND e MATCH '[2]'"), "one MATCH"));
  CHECK(contains(message("SELECT id FROM p WHERE venue MATCH 'A'"), "p.venue: MATCH needs a "
                                                                    "vector"));
  CHECK(contains(message("SELECT id FROM p WHERE notes MATCH 'A'"), "p.notes: MATCH needs a "
                                                                    "vector"));
  CHECK(contains(message("SELECT id FROM p WHERE p MATCH '{}' AND k = 3"), "match counts"));
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1]' AND k = 'x'"), "p: k must be"));
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1]' AND k = NULL"), "got NULL"));
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1]' AND k = 3 AND nprobe = 0"),
                 "p: nprobe must be"));
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1,2]' AND k = 3"), "p.e"));
  for (const auto& [where, reason] :
       {std::pair{"k = 3", "p: k needs a MATCH"},
        std::pair{"distance < 3", "p: distance needs a MATCH"},
        std::pair{"nprobe = 1 AND id = 4", "p: nprobe needs a MATCH"},
        std::pair{"k = 3 AND (id = 4 OR year = 2005)", "p: k needs a MATCH"},
        std::pair{"e MATCH '[1]' AND k < 3", "p: k takes one ="},
        std::pair{"e MATCH '[1]' AND k = 3 AND k = 3", "p: k takes one ="},
        std::pair{"e MATCH '[1]' AND k IN (1, 2)", "p: k takes one ="},
        std::pair{"recall = 1 AND id = 4", "p: recall needs a MATCH"},
        std::pair{"e MATCH '[1]' AND recall >= 0.9", "p: recall takes one ="},
        std::pair{"e MATCH '[1]' AND nprobe > 1", "p: nprobe takes one ="}}) {
    CAPTURE(where);
    CHECK(contains(message(std::string("SELECT id FROM p WHERE ") + where), reason));
  }
  // An order of tables in which MATCH lacks its vector is no misuse; one that never has it is.
  CHECK(contains(message("SELECT 1 FROM p x, p y WHERE x.e MATCH y.e AND y.e MATCH x.e"),
                 "no query solution"));
  // A MATCH within an OR asks another question than the search that found the row.
  CHECK(contains(message("SELECT id FROM p WHERE e MATCH '[1]' AND (e MATCH '[2]' OR notes = 'x')"),
                 "MATCH"));
}

TEST_CASE("plan: MATCH and filters beyond the sixteenth constraint") {
  const SqlSession db(":memory:");
  fill(db);
  std::string where;
  for (int i = 0; i < 24; ++i) where += "year <> " + std::to_string(2001 + i % 5) + " AND ";
  CHECK(db.must_run("SELECT id, distance FROM p WHERE " + where + "e MATCH '[1]' AND k = 2") ==
        Rows{"6|5.0", "7|6.0"});
  CHECK(db.must_run("SELECT id FROM p WHERE " + where + "e MATCH '[1]' AND venue IN ('A') AND k "
                                                        "= 2") ==
        Rows{"9", "13"});
  CHECK(db.must_run("SELECT id FROM p WHERE " + where + "e MATCH '[1]' AND nprobe = 2 AND "
                    "distance < 7 AND k = '3'") == Rows{"6", "7"});
  for (int i = 0; i < 24; ++i) where += "year <> " + std::to_string(2001 + i % 5) + " AND ";
  CHECK(db.must_run("SELECT id FROM p WHERE " + where + "venue IN ('A', 'B') AND e MATCH '[1]' "
                    "ORDER BY distance LIMIT 2") == Rows{"6", "9"});
}

TEST_CASE("plan: IN takes the whole list, also with k") {
  const SqlSession db(":memory:");
  fill(db);
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[0]' AND venue IN ('B', 'C') AND k = 3") ==
        Rows{"2", "3", "6"});
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[0]' AND id IN (SELECT paper FROM a) AND k "
                    "= 9") ==
        Rows{"1", "2", "19"});
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[0]' AND id IN (SELECT paper FROM a) AND "
                    "venue IN ('A', 'C') AND k = 2") == Rows{"1", "19"});
  CHECK(db.must_run("SELECT id FROM p WHERE id IN (3, 1, 99, 3)") == Rows{"1", "3"});
  // Row values are SQLite's: they are applied to the k rows.
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[0]' AND (year, venue) IN (VALUES (2001, "
                    "'A'), "
                    "(2009, 'A')) AND k = 3") == Rows{"1"});
}

TEST_CASE("plan: distance bounds") {
  const SqlSession db(":memory:");
  fill(db);
  const auto ids = [&](const std::string& where) {
    std::string all;
    for (const std::string& row :
         db.must_run("SELECT id FROM p WHERE e MATCH '[0]' AND " + where)) {
      all += row + " ";
    }
    return all;
  };
  CHECK(ids("distance <= 3") == "1 2 3 ");
  CHECK(ids("distance < 3") == "1 2 ");
  CHECK(ids("distance > 18") == "19 20 ");
  CHECK(ids("distance >= 19") == "19 20 ");
  CHECK(ids("distance = 7") == "7 ");
  CHECK(ids("distance BETWEEN 3 AND 5 AND distance <> 4") == "3 5 ");
  CHECK(ids("distance > 4.5 AND k = 2") == "5 6 ");
  CHECK(ids("distance > '4.5' AND k = 2") == "5 6 ");
  CHECK(ids("distance > 4 AND distance > 6 AND distance >= 5 AND k = 1") == "7 ");
  CHECK(ids("distance < 9223372036854775807 AND k = 1") == "1 ");
  CHECK(ids("distance <= NULL") == "");
  CHECK(ids("distance < 'far' AND k = 1") == "1 ");
  CHECK(ids("distance > 'far'") == "");
  CHECK(ids("distance IN (3, 4)") == "3 4 ");
  CHECK(ids("distance < -1") == "");
}

TEST_CASE("plan: views and triggers work with trusted_schema off") {
  const SqlSession db(":memory:");
  fill(db);
  db.must_run(
      "PRAGMA trusted_schema = off;"
      "CREATE VIEW near AS SELECT id, distance FROM p WHERE e MATCH '[5]' AND k = 2;"
      "CREATE TABLE log(id); CREATE TABLE ask(e);"
      "CREATE TRIGGER ask_insert AFTER INSERT ON ask BEGIN "
      "  INSERT INTO log SELECT id FROM p WHERE p.e MATCH new.e AND k = 1; END;");
  CHECK(db.must_run("SELECT * FROM near") == Rows{"5|0.0", "4|1.0"});
  db.must_run("INSERT INTO ask VALUES ('[12.4]'), ('[3]')");
  CHECK(db.must_run("SELECT id FROM log") == Rows{"12", "3"});
}

TEST_CASE("plan: a table is searched with its own rows") {
  const SqlSession db(":memory:");
  fill(db);
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH (SELECT e FROM p WHERE id = 7) AND k = 2") ==
        Rows{"7", "6"});
  CHECK(sorted(db.must_run("SELECT a.id, b.id FROM p a JOIN p b ON b.e MATCH a.e AND b.k = 2 AND "
                           "b.id <> a.id WHERE a.id IN (1, 9)")) ==
        Rows{"1|2", "1|3", "9|10", "9|8"});
}

TEST_CASE("plan: an inner loop that asks the same again") {
  const SqlSession db(":memory:");
  fill(db);
  CHECK(db.must_run("SELECT a.name, p.id FROM a CROSS JOIN p WHERE p.e MATCH '[5]' AND p.k = 2 AND "
                    "a.country = 'NO' ORDER BY a.name, p.distance, p.id") ==
        Rows{"w|5", "w|4", "x|5", "x|4", "z|5", "z|4"});
  // The same question after a write has another answer.
  CHECK(db.must_run("SELECT count(*), sum(near) FROM (SELECT (SELECT group_concat(id) FROM "
                    "(SELECT id "
                    "FROM p WHERE p.e MATCH '[5]' AND k = 1)) AS near FROM a)") == Rows{"4|20"});
  db.must_run("UPDATE p SET e = '[100]' WHERE id = 5");
  CHECK(db.must_run("SELECT id FROM p WHERE e MATCH '[5]' AND k = 1") == Rows{"4"});
}

TEST_CASE("plan: UPDATE FROM a search") {
  const SqlSession db(":memory:");
  fill(db);
  db.must_run("UPDATE p SET year = q.year + 1000 FROM q WHERE p.e MATCH q.e AND p.k = 1");
  CHECK(db.must_run("SELECT id, year, notes FROM p WHERE year > 3000 ORDER BY id") ==
        Rows{"1|3002|note 1", "9|3010|note 9", "20|3001|note 20"});
}

TEST_CASE("plan: a cursor keeps its rows while the table changes") {
  const SqlSession db(":memory:");
  fill(db);
  db.must_run("INSERT INTO p(id, e, year) SELECT id + 100, '[' || (id + 100) || ']', 1 FROM p "
              "WHERE e MATCH '[0]' ORDER BY distance");
  CHECK(db.must_run("SELECT count(*), max(id) FROM p") == Rows{"40|120"});
  db.must_run("INSERT INTO p(id, e) SELECT id + 1000, '[' || id || ']' FROM p");
  CHECK(db.must_run("SELECT count(*) FROM p") == Rows{"80"});
  db.must_run("DELETE FROM p WHERE e MATCH '[0]' AND k = 70");
  CHECK(db.must_run("SELECT count(*) FROM p") == Rows{"10"});
  db.must_run("UPDATE p SET year = 7 WHERE e MATCH '[0]' AND k = 5");
  CHECK(db.must_run("SELECT count(*) FROM p WHERE year = 7") == Rows{"5"});
}
