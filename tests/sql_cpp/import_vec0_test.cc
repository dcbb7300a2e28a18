// warp_import_vec0 on shadow tables as sqlite-vec wrote them (tests/vec0/*.sql), whole and damaged.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/database.h"
#include "tests/support/sql_session.h"

namespace warplite {
namespace {

using testing::check_error;
using testing::SqlResult;
using testing::SqlSession;
using Rows = std::vector<std::string>;

std::string script(const std::string& name) {
  std::ifstream file(std::string(WARPLITE_SOURCE_DIR) + "/tests/vec0/" + name + ".sql");
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Vec0Session : SqlSession {
  explicit Vec0Session(const std::string& table, const std::string& path = ":memory:")
      : SqlSession(path) {
    must_run(script(table));
  }
};

Rows tables(const SqlSession& session) {
  return session.must_run("SELECT name FROM sqlite_schema ORDER BY name");
}

const Rows kDocs = {"-20|1|b|0000803F0000803F|01FF00|01|2001|0.5|0|short|n1|0100|1",
                    "-10|0|a|000000400000803F|02FE00|02|2002|1.0|0|twelve bytes|n2|0200|2",
                    "20|1|b|0000A0400000803F|05FB00|05|2005|2.5|0|now a title of more than twelve "
                    "bytes|NULL|0500|5",
                    "30|0|a|0000C0400000803F|06FA00|06|2006|3.0|1|xxxxxxxxxxxxx|n6|0600|NULL",
                    "40|1|b|0000E0400000803F|07F900|07|2007|3.5|0||n7|0700|7",
                    "50|0|a|000000410000803F|08F800|08|2008|4.0|0|short|n8||8",
                    "60|NULL|b|000010410000803F|09F700|09|2009|4.5|1|twelve bytes|n9|0900|9",
                    "70|0|a|000020410000803F|0AF600|0A|2010|5.0|0|thirteen byte|NULL|0A00|10",
                    "80|1|b|000030410000803F|0BF500|0B|2011|5.5|0|short again|n11|0B00|11",
                    "90|0|a|000080BF000080BF|0CF400|0C|2012|6.0|1|Zoë|n12||NULL",
                    "100|1|b|000050410000803F|0DF300|0D|2013|6.5|0|xxxxxxxxxxxxx|n13|0D00|13",
                    "110|0|a|000060410000803F|0EF200|0E|2014|7.0|0||n14|0E00|14",
                    "130|0|a|000080410000803F|10F000|10|2016|8.0|0|twelve bytes|n16||16",
                    "140|1|b|000088410000803F|11EF00|11|2017|8.5|0|thirteen byte|n17|1100|17",
                    "150|0|a|000090410000803F|12EE00|12|2018|9.0|1|a title that is longer than "
                    "twelve bytes|n18|1200|NULL",
                    "160|1|b|000098410000803F|13ED00|13|2019|9.5|0|Zoë|n19|1300|19",
                    "170|0|a|0000A0410000803F|14EC00|14|2020|10.0|0|xxxxxxxxxxxxx|NULL||20",
                    "180|1|b|0000A8410000803F|15EB00|15|2021|10.5|1||n21|1500|21",
                    "190|0|a|0000B0410000803F|16EA00|16|2022|11.0|0|short|n22|1600|22"};

std::string docs_query(const std::string& table) {
  return "SELECT id, tenant, kind, hex(e), hex(q), hex(b), year, rating, open, title, notes, "
         "iif(raw IS NULL, '', hex(raw)), count FROM " +
         table + " ORDER BY id";
}

TEST_CASE("every kind of column of a vec0 table, deleted rows, several chunks") {
  const Vec0Session session("docs");
  CHECK(session.must_run("SELECT warp_import_vec0('docs')") == Rows{"19"});
  CHECK(session.must_run(docs_query("docs_warp")) == kDocs);
  session.must_run("INSERT INTO docs_warp(docs_warp) VALUES ('integrity-check')");
  // What vec0 answers: these rows in this order.
  CHECK(session.must_run(
            "SELECT id, round(distance, 5) FROM docs_warp WHERE e MATCH '[1, 0]' AND k = 4") ==
        Rows{"190|0.00103", "180|0.00113", "170|0.00125", "160|0.00138"});
  CHECK(
      session.must_run(
          "SELECT id FROM docs_warp WHERE e MATCH '[1, 0]' AND k = 2 AND tenant = 1 AND kind = 'b' "
          "AND open = 0 AND title = 'thirteen byte'") == Rows{"140"});
  CHECK(session.must_run(
            "SELECT id, distance FROM docs_warp WHERE b MATCH vec_bit(x'01') AND k = 1") ==
        Rows{"-20|0.0"});
  CHECK(session.must_run("SELECT id, round(distance, 3) FROM docs_warp WHERE q MATCH "
                         "vec_int8('[1,-1,0]') AND k = 2") == Rows{"-20|0.0", "-10|1.414"});
}

TEST_CASE("a vec0 table with a TEXT PRIMARY KEY; the rowids stay") {
  const Vec0Session session("words");
  CHECK(session.must_run("SELECT warp_import_vec0('main.words', 'kept')") == Rows{"8"});
  CHECK(session.must_run(
            "SELECT rowid, word, vec_to_json(e), meaning FROM kept ORDER BY rowid LIMIT 3") ==
        Rows{"1|one|[0.000000,0.000000]|ONE", "3|three|[2.000000,2.000000]|THREE",
             "4|Its|[3.000000,3.000000]|ITS"});
  CHECK(session.must_run("SELECT rowid FROM kept WHERE word = 'Zoë'") == Rows{"5"});
  CHECK(session.must_run("SELECT word FROM kept WHERE e MATCH '[1, 1]' AND k = 2") ==
        Rows{"one", "three"});
}

TEST_CASE("a vec0 table of sqlite-vec 0.1.1") {
  const Vec0Session session("old");
  CHECK(session.must_run("SELECT warp_import_vec0('OLD')") == Rows{"9"});
  CHECK(session.must_run(
            "SELECT group_concat(rowid), group_concat(vec_to_json(vec_slice(e, 0, 1)), '') FROM "
            "(SELECT rowid, e FROM OLD_warp ORDER BY rowid)") ==
        Rows{"0,2,6,8,10,12,14,16,18|[0.000000][1.000000][3.000000][4.000000][5.000000][6.000000]"
             "[7.000000][8.000000][9.000000]"});
}

TEST_CASE("a vec0 table that sqlite-vec wrote is refused in words, converted in place, or dropped") {
  const testing::TemporaryFile file;
  { const Vec0Session session("docs", file.path()); }
  const SqlSession session(file.path());
  const Rows before = tables(session);
  for (const char* sql : {"SELECT * FROM docs", "SELECT count(*) FROM docs WHERE year = 1",
                          "INSERT INTO docs(id) VALUES (1)", "DELETE FROM docs",
                          "ALTER TABLE docs RENAME TO other",
                          "SELECT * FROM warp_knn_search('docs', 'e', '[1,1]', 1)"}) {
    check_error(session, sql, {"docs", "sqlite-vec", "SELECT warp_import_vec0('docs', 'docs')"});
  }
  session.must_run("BEGIN; DROP TABLE docs");
  CHECK(session.must_run("SELECT count(*) FROM sqlite_master WHERE name LIKE 'docs%'") == Rows{"0"});
  session.must_run("ROLLBACK");
  CHECK(tables(session) == before);

  session.must_run("BEGIN");
  CHECK(session.must_run("SELECT warp_import_vec0('docs', 'docs')") == Rows{"19"});
  CHECK(session.must_run(docs_query("docs")) == kDocs);
  session.must_run("ROLLBACK");
  CHECK(tables(session) == before);
  check_error(session, "SELECT * FROM docs", {"sqlite-vec"});

  CHECK(session.must_run("SELECT warp_import_vec0('docs', 'main.DOCS')") == Rows{"19"});
  CHECK(session.must_run(docs_query("docs")) == kDocs);
  CHECK(session.must_run("SELECT count(*) FROM sqlite_master WHERE name LIKE 'docs_chunks%'") ==
        Rows{"0"});
  check_error(session, "SELECT warp_import_vec0('docs', 'docs')", {"docs"});
  const SqlSession again(file.path());
  CHECK(again.must_run(docs_query("docs")) == kDocs);
  CHECK(again.must_run("PRAGMA integrity_check") == Rows{"ok"});
}

TEST_CASE("views and triggers that name a table go on when it is converted in place") {
  const testing::TemporaryFile file;
  { const Vec0Session session("words", file.path()); }
  const SqlSession session(file.path());
  session.must_run(
      "CREATE TABLE texts(word TEXT, e);"
      "CREATE TRIGGER fill AFTER INSERT ON texts BEGIN "
      "INSERT INTO words(word, e) VALUES (new.word, new.e); END;"
      "CREATE TEMP TRIGGER count_up AFTER DELETE ON texts BEGIN "
      "DELETE FROM words WHERE word = old.word; END;"
      "CREATE VIEW near AS SELECT word FROM words WHERE e MATCH '[1, 1]' AND k = 2");
  for (const char* legacy : {"0", "1"}) {
    session.must_run(std::string("BEGIN; PRAGMA legacy_alter_table = ") + legacy);
    CHECK(session.must_run("SELECT warp_import_vec0('words', 'words')") == Rows{"8"});
    CHECK(session.must_run("PRAGMA legacy_alter_table") == Rows{legacy});
    session.must_run("INSERT INTO texts VALUES ('new', '[1, 1]')");
    CHECK(session.must_run("SELECT word FROM near") == Rows{"new", "one"});
    session.must_run("DELETE FROM texts");
    CHECK(session.must_run("SELECT word FROM near") == Rows{"one", "three"});
    session.must_run("ROLLBACK");
  }
}

TEST_CASE("from and into other schemas") {
  const testing::TemporaryFile file;
  { const Vec0Session session("docs", file.path()); }
  const SqlSession session(":memory:");
  session.must_run("ATTACH '" + file.path() + "' AS source; CREATE TABLE docs(a)");
  check_error(session, "SELECT warp_import_vec0('docs')", {"expected a vec0 table", "a table"});
  CHECK(session.must_run("SELECT warp_import_vec0('source.docs', 'main.\"my docs\"')") ==
        Rows{"19"});
  CHECK(session.must_run(docs_query("main.\"my docs\"")) == kDocs);
  CHECK(session.must_run("SELECT warp_import_vec0('source.docs', 'temp.copy')") == Rows{"19"});
  CHECK(session.must_run("SELECT warp_import_vec0('source.docs')") == Rows{"19"});
  CHECK(session.must_run("SELECT count(*) FROM source.docs_warp") == Rows{"19"});
}

TEST_CASE("an import is all or nothing, and part of its transaction") {
  const Vec0Session session("docs");
  const Rows before = tables(session);
  session.must_run("CREATE TEMP TABLE t(a); INSERT INTO t(rowid) VALUES (77)");
  session.must_run("BEGIN; SELECT warp_import_vec0('docs')");
  CHECK(session.must_run("SELECT count(*), last_insert_rowid() FROM docs_warp") == Rows{"19|77"});
  session.must_run("ROLLBACK");
  CHECK(tables(session) == before);

  session.must_run("UPDATE docs_vector_chunks00 SET vectors = x'00' WHERE rowid = 3");
  session.must_run("BEGIN; INSERT INTO t VALUES (1)");
  check_error(session, "SELECT warp_import_vec0('docs')", {"docs_vector_chunks00", "chunk 3"});
  CHECK(tables(session) == before);
  CHECK(session.must_run("SELECT count(*) FROM t; COMMIT") == Rows{"2"});
  check_error(session, "SELECT warp_import_vec0('docs')", {"docs_vector_chunks00", "chunk 3"});
  CHECK(tables(session) == before);
  CHECK(sqlite3_get_autocommit(session.db()) != 0);
}

void interrupt_now(sqlite3_context* context, int, sqlite3_value**) {
  sqlite3_interrupt(sqlite3_context_db_handle(context));
}

TEST_CASE("an import that is interrupted leaves nothing and no transaction") {
  const Vec0Session session("docs");
  const Rows before = tables(session);
  // Reading row 100 of the +columns interrupts.
  session.must_run("ALTER TABLE docs_auxiliary RENAME TO kept");
  CHECK(sqlite3_create_function_v2(session.db(), "interrupt_now", 0, SQLITE_UTF8, nullptr,
                                   interrupt_now, nullptr, nullptr, nullptr) == SQLITE_OK);
  session.must_run(
      "CREATE VIEW docs_auxiliary AS SELECT rowid, value00, value01, "
      "CASE rowid WHEN 100 THEN interrupt_now() ELSE value02 END AS value02 FROM kept");
  const Rows changed = tables(session);
  const SqlResult result = session.run("SELECT warp_import_vec0('docs')");
  CHECK(result.code == SQLITE_INTERRUPT);
  CHECK(sqlite3_get_autocommit(session.db()) != 0);
  CHECK(tables(session) == changed);
  session.must_run("DROP VIEW docs_auxiliary; ALTER TABLE kept RENAME TO docs_auxiliary");
  CHECK(tables(session) == before);
  CHECK(session.must_run("SELECT warp_import_vec0('docs')") == Rows{"19"});
}

TEST_CASE("inside a statement that writes an import is refused") {
  const Vec0Session session("docs");
  session.must_run("CREATE TABLE t(a)");
  check_error(session, "INSERT INTO t SELECT warp_import_vec0('docs')", {"in progress"});
  CHECK(session.must_run("SELECT count(*) FROM t") == Rows{"0"});
}

TEST_CASE("what is no vec0 table, or no table") {
  const Vec0Session session("docs");
  session.must_run(
      "CREATE TABLE plain(a); CREATE VIEW seen AS SELECT 1 AS a; "
      "CREATE VIRTUAL TABLE w USING warp(e FLOAT[1])");
  check_error(session, "SELECT warp_import_vec0('nothing')",
              {"warp_import_vec0", "nothing", "there is not"});
  check_error(session, "SELECT warp_import_vec0('main.nothing')", {"nothing", "there is not"});
  check_error(session, "SELECT warp_import_vec0('plain')", {"plain", "a table"});
  check_error(session, "SELECT warp_import_vec0('seen')", {"seen", "a view"});
  check_error(session, "SELECT warp_import_vec0('w')", {"module warp"});
  check_error(session, "SELECT warp_import_vec0(NULL)", {"expected a table's name, got NULL"});
  check_error(session, "SELECT warp_import_vec0('docs', x'00')",
              {"expected a table's name", "1 byte"});
  check_error(session, "SELECT warp_import_vec0('docs', 'plain')", {"plain", "already exists"});
  for (const char* names : {"'docs', 'nowhere.docs'", "'nowhere.docs'"}) {
    check_error(session, "SELECT warp_import_vec0(" + std::string(names) + ")",
                {"there is no schema nowhere", "double quotes"});
  }
  check_error(session, "SELECT warp_import_vec0('a.b.c')", {"schema.table"});
  session.must_run("CREATE VIEW tricky AS SELECT warp_import_vec0('docs')");
  check_error(session, "SELECT * FROM tricky", {"unsafe use of warp_import_vec0"});
}

TEST_CASE("columns that a warp table cannot have are refused by name") {
  const Vec0Session session("docs");
  const auto declare = [&](const std::string& columns) {
    session.must_run(
        "PRAGMA writable_schema = on; UPDATE sqlite_schema SET sql = "
        "'CREATE VIRTUAL TABLE docs using vec0(" +
        columns +
        ")' WHERE name = 'docs'; "
        "PRAGMA writable_schema = RESET");
  };
  const Rows before = tables(session);
  declare("e float[2], matches integer");
  check_error(session, "SELECT warp_import_vec0('docs')", {"matches"});
  declare("e float[2] indexed by ivf(nlist=4)");
  check_error(session, "SELECT warp_import_vec0('docs')", {"indexed"});
  declare("e float[2]); DROP TABLE docs_info; --");
  check_error(session, "SELECT warp_import_vec0('docs')", {"expected one statement"});
  CHECK(tables(session) == before);
}

// Statements that damage the shadow tables of docs, and what the error has to say.
struct Damage {
  const char* sql;
  Rows parts;
};

TEST_CASE("damaged shadow tables are errors that name the table and what was expected") {
  const Damage damages[] = {
      {"DROP TABLE docs_chunks", {"docs_chunks", "sqlite-vec"}},
      {"DROP TABLE docs_metadatatext03", {"docs_metadatatext03", "sqlite-vec"}},
      {"DROP TABLE docs_auxiliary", {"docs_auxiliary", "sqlite-vec"}},
      {"UPDATE docs_chunks SET size = 7 WHERE chunk_id = 2",
       {"docs_chunks", "chunk 2", "multiple of 8", "7"}},
      {"UPDATE docs_chunks SET size = -8", {"docs_chunks", "multiple of 8", "-8"}},
      {"UPDATE docs_chunks SET size = 1 << 60", {"docs_chunks", "multiple of 8"}},
      {"UPDATE docs_chunks SET size = 16", {"docs_chunks", "validity", "2 bytes", "1 byte"}},
      {"UPDATE docs_chunks SET rowids = 5", {"docs_chunks", "rowids", "64 bytes", "the integer 5"}},
      {"UPDATE docs_chunks SET validity = x'ff' WHERE chunk_id = 1",
       {"docs_rowids", "chunk 1", "row 0", "offset 1"}},
      {"UPDATE docs_chunks SET validity = x'bc' WHERE chunk_id = 1",
       {"docs_rowids has 19 rows", "docs_chunks has 18"}},
      {"DELETE FROM docs_vector_chunks01 WHERE rowid = 2",
       {"docs_vector_chunks01", "chunk 2", "no row"}},
      {"UPDATE docs_vector_chunks02 SET vectors = x'0102'",
       {"docs_vector_chunks02", "b: expected a BLOB of 8 bytes", "2 bytes"}},
      {"UPDATE docs_metadatachunks00 SET data = x''",
       {"docs_metadatachunks00", "year", "64 bytes"}},
      {"UPDATE docs_metadatachunks02 SET data = zeroblob(64)",
       {"docs_metadatachunks02", "open", "1 bytes"}},
      {"DELETE FROM docs_metadatatext03 WHERE rowid = 150",
       {"docs_metadatatext03", "row 150", "title", "40 bytes", "NULL"}},
      {"UPDATE docs_metadatatext03 SET data = 'short' WHERE rowid = 150",
       {"docs_metadatatext03", "row 150", "'short'"}},
      {"UPDATE docs_metadatachunks03 SET data = CAST(x'ffffffff' || substr(data, 5) AS BLOB) WHERE "
       "rowid = 1",
       {"docs_metadatachunks03", "row -20", "title"}},
      {"DELETE FROM docs_auxiliary WHERE rowid = 60", {"docs_auxiliary", "row 60"}},
      {"UPDATE docs_rowids SET chunk_offset = 5 WHERE rowid = 40",
       {"docs_rowids", "row 40", "offset 3"}},
      {"DELETE FROM docs_rowids WHERE rowid = 40", {"docs_rowids", "row 40"}},
      {"INSERT INTO docs_rowids VALUES (999, NULL, 1, 1)",
       {"docs_rowids has 20 rows", "docs_chunks has 19"}},
      // NaN, which vec0 stores and no warp table takes.
      {"UPDATE docs_vector_chunks00 SET vectors = CAST(x'0000c07f' || substr(vectors, 5) AS BLOB) "
       "WHERE rowid = 3",
       {"row 60", "docs_warp.e", "NaN"}},
  };
  for (const Damage& damage : damages) {
    const Vec0Session session("docs");
    session.must_run(damage.sql);
    const Rows before = tables(session);
    check_error(session, "SELECT warp_import_vec0('docs')", damage.parts);
    CHECK(tables(session) == before);
  }
}

}  // namespace
}  // namespace warplite
