#include "tests/support/fakes/fault_scenarios.h"

#include <fstream>
#include <iterator>

namespace warplite::testing {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<Scenario> kRows{
    {"search",
     {"SELECT word, distance, note FROM t WHERE e MATCH '[9,0,0,0]' AND n IN (1, 2) AND k = 7"}},
    {"stream",
     {"SELECT count(*), max(distance) FROM t WHERE e MATCH '[9,0,0,0]' AND s LIKE '%9%'",
      "SELECT word FROM t WHERE e MATCH '[9,0,0,0]' AND n % 2 = 1 ORDER BY distance LIMIT 3 OFFSET "
      "2"}},
    {"range",
     {"SELECT word, distance FROM t WHERE e MATCH '[9,0,0,0]' AND distance <= 3.5",
      "SELECT word FROM t WHERE e MATCH '[9,0,0,0]' AND distance > 2 AND distance < 5 ORDER BY "
      "distance DESC"}},
    {"filters",
     {"SELECT count(*) FROM t WHERE n > 1 AND s GLOB 's[1-3]*' AND note IS NOT NULL",
      "SELECT word FROM t WHERE e MATCH '[9,0,0,0]' AND rowid IN (SELECT rowid FROM t WHERE n = 2) "
      "AND k = 3",
      "SELECT count(*) FROM t WHERE s BETWEEN 's10' AND 's20' OR s IS NULL OR n IN (1, 3)"}},
    {"joins",
     {"SELECT q.id, t.word FROM q JOIN t ON t.e MATCH q.e AND t.k = 2",
      "SELECT t.word FROM t JOIN q ON q.id = t.n WHERE t.e MATCH '[1,0,0,0]' ORDER BY distance "
      "LIMIT 3",
      "SELECT q.id, s.rowid, s.rank FROM q, warp_knn_search('t', 'e', q.e, 2) s"}},
    {"functions",
     {"SELECT rowid, distance, rank FROM warp_knn_search('t', 'e', '[1,1,1,1]', 5)",
      "SELECT rowid FROM warp_range_search('t', 'e', '[1,1,1,1]', 5, '{\"device\":\"cpu\"}')"}},
    {"arrays",
     {"SELECT k, hex(rowids), hex(distances) FROM warp_knn_arrays('t', 'e', zeroblob(48), 5)"}},
    {"arrays of tables",
     {"CREATE VIRTUAL TABLE v USING warp(e FLOAT[4], n INTEGER)",
      "INSERT INTO v(e) SELECT e FROM t WHERE n = 3",
      "SELECT k, hex(rowids), hex(distances) FROM warp_knn_arrays('t', 'e', zeroblob(48), 5, "
      "'{\"also\":[\"v\"]}')",
      "DROP TABLE v"}},
    {"function joins",
     {"SELECT * FROM warp_knn_join('t', 'e', 'SELECT rowid, e FROM t WHERE n = 7', 3)",
      "SELECT * FROM warp_range_join('t', 'e', 'SELECT id, e FROM q', 3)"}},
    {"graph", {"SELECT count(*), sum(neighbor) FROM warp_knn_graph('t', 'e', 2)"}},
    {"clusters", {"SELECT cluster, hex(centroid), size FROM warp_kmeans('t', 'e', 3)"}},
    {"insert",
     {"INSERT INTO t VALUES ('a', '[1,1,1,1]', 1, 'a', 'a'), ('b', '[2,2,2,2]', 2, 'b', 'b')",
      "INSERT OR REPLACE INTO t VALUES ('w70', '[0,0,0,1]', 0, 'new', 'new')",
      "INSERT OR IGNORE INTO t VALUES ('w70', '[0,0,0,1]', 0, 'new', 'new')"}},
    {"change",
     {"UPDATE t SET e = '[3,3,3,3]', note = 'moved' WHERE word = 'w3'", "DELETE FROM t WHERE n = 4",
      "UPDATE t SET word = 'other' WHERE word = 'late'"}},
    {"transaction",
     {"BEGIN", "DELETE FROM t WHERE n = 1", "SAVEPOINT s",
      "INSERT INTO t SELECT word || 'x', e, n, s, note FROM t WHERE n = 2", "ROLLBACK TO s",
      "INSERT INTO t(word, e) VALUES ('last', '[0,0,0,0]')", "COMMIT"}},
    {"savepoints",
     {"SAVEPOINT a", "INSERT INTO t(word, e) VALUES ('one', '[0,0,0,0]')", "SAVEPOINT b",
      "UPDATE t SET n = n + 1 WHERE n = 7", "INSERT INTO t(t) VALUES ('optimize')", "ROLLBACK TO b",
      "RELEASE a"}},
    {"optimize", {"INSERT INTO t(t) VALUES ('optimize')"}},
    {"rebuild", {"INSERT INTO t(t) VALUES ('rebuild')"}},
    {"check", {"INSERT INTO t(t) VALUES ('integrity-check')"}},
    {"rename", {"ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t"}},
    // SQLite rolls back after some failures, while a statement of the renamed table still runs.
    {"rename twice in a transaction",
     {"BEGIN", "DELETE FROM t WHERE rowid = (SELECT min(rowid) FROM t)", "ALTER TABLE t RENAME TO u",
      "ALTER TABLE u RENAME TO t", "COMMIT"}},
    {"tables",
     {"CREATE VIRTUAL TABLE v USING warp(e FLOAT[2], s TEXT COLLATE NOCASE, +n)",
      "INSERT INTO v VALUES ('[1,2]', 'x', 1)", "DROP TABLE v"}},
    {"introspection",
     {"SELECT word FROM t WHERE e MATCH '[1,1,1,1]' AND k = 1",
      "SELECT count(*) > 0 FROM warp_devices()", "SELECT count(*) >= 0 FROM warp_residency()",
      "SELECT count(*) FROM warp_explain()", "SELECT warp_config('threads') >= 0",
      "SELECT warp_config('progress', 0)",
      "EXPLAIN QUERY PLAN SELECT * FROM t WHERE e MATCH '[1,1,1,1]' AND n = 3"}},
};

const std::vector<Scenario> kContent{
    {"search",
     {"SELECT rowid, distance, note FROM x WHERE e MATCH '[30,0]' AND k = 4",
      "SELECT rowid FROM x WHERE e MATCH '[30,0]' AND y = 2 ORDER BY distance LIMIT 3",
      "SELECT rowid FROM hand WHERE e MATCH '[30,0]' AND k = 4"}},
    {"texts",
     {"SELECT rowid, distance FROM x WHERE s MATCH 's12' AND k = 4",
      "SELECT rowid FROM hand WHERE s MATCH 's12' AND distance <= 1"}},
    {"scans",
     {"SELECT count(*) FROM x", "SELECT rowid, note FROM x WHERE y = 3",
      "SELECT x.rowid, c.note FROM x JOIN c ON c.id = x.rowid WHERE x.rowid < 9",
      "SELECT count(*), max(s) FROM hand"}},
    {"write",
     {"INSERT INTO c VALUES (600, 600, '[1,2]', 'new', 1, 'n'), (601, 601, '[1,3]', 'new', 1, 'n')",
      "UPDATE c SET e = '[0,0]', s = 'moved' WHERE y = 3", "DELETE FROM c WHERE y = 4",
      "INSERT OR REPLACE INTO c(id, code, e) VALUES (602, 6, '[1,1]')"}},
    {"transaction",
     {"BEGIN", "UPDATE c SET y = y + 1", "SAVEPOINT s", "DELETE FROM c WHERE id < 20",
      "ROLLBACK TO s", "COMMIT"}},
    {"create",
     {"CREATE VIRTUAL TABLE z USING warp(content=c, e FLOAT[2], y INTEGER, +code)",
      "DROP TABLE z"}},
    {"rename",
     {"ALTER TABLE x RENAME TO z", "ALTER TABLE z RENAME TO x", "ALTER TABLE c RENAME TO d",
      "ALTER TABLE d RENAME TO c"}},
    {"rebuild",
     {"INSERT INTO x(x) VALUES ('rebuild')", "INSERT INTO hand(hand) VALUES ('rebuild')"}},
    {"optimize", {"INSERT INTO x(x) VALUES ('optimize')", "INSERT INTO x(x) VALUES ('train')"}},
    {"check", {"INSERT INTO x(x) VALUES ('integrity-check')"}},
    {"follow", {"INSERT INTO x(rowid) VALUES (3)", "INSERT INTO hand(rowid) VALUES (500)"}},
};

const std::vector<Scenario> kSegments{
    {"search", {"SELECT id, distance FROM t WHERE e MATCH vec_int8('[9,0,1,2]') AND k = 5"}},
    {"filters",
     {"SELECT count(*), sum(id) FROM t WHERE n = 3",
      "SELECT id FROM t WHERE e MATCH vec_int8('[9,0,1,2]') AND n BETWEEN 2 AND 4 AND k = 7"}},
    {"change", {"UPDATE t SET n = 9 WHERE id % 5000 = 1", "DELETE FROM t WHERE id BETWEEN 20 AND 8180"}},
    {"optimize", {"DELETE FROM t WHERE id % 3 = 0", "INSERT INTO t(t) VALUES ('optimize')"}},
    {"large transaction",
     {"BEGIN", "INSERT INTO w SELECT id, zeroblob(2560), n FROM t WHERE id <= 4000", "SAVEPOINT s",
      "DELETE FROM w WHERE id % 1000 = 3",
      "INSERT INTO w SELECT id, zeroblob(2560), n FROM t WHERE id BETWEEN 4001 AND 6000",
      "ROLLBACK TO s", "INSERT INTO w(w) VALUES ('optimize')", "COMMIT",
      "SELECT count(*), sum(n) FROM w WHERE n <> 2"}},
};

}  // namespace

std::string counting(int n) {
  return "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < " +
         std::to_string(n) + ") ";
}

World rows_world() {
  return {"rows",
          "CREATE VIRTUAL TABLE t USING warp(word TEXT PRIMARY KEY, e FLOAT[4], n INTEGER, s TEXT, "
          "+note);" +
              counting(300) +
              "INSERT INTO t SELECT 'w' || x, '[' || x || ',0,0,1]', x % 5, 's' || x, 'note' || x "
              "FROM c;"
              "INSERT INTO t(t) VALUES ('optimize');"
              "DELETE FROM t WHERE n = 4 AND rowid < 100;"
              "INSERT INTO t VALUES ('late', '[0,0,0,0]', 7, 'tail', 'x');"
              "CREATE TABLE q(id INTEGER PRIMARY KEY, e); INSERT INTO q VALUES (1, '[9,0,0,0]'), "
              "(2, '[70,0,0,0]')",
          "SELECT count(*), sum(n), group_concat(substr(word, 1, 2)) FROM t;"
          "SELECT word, distance, note FROM t WHERE e MATCH '[0,0,0,0]' AND k = 12;"
          "SELECT word, note FROM t WHERE word = 'w70';"
          "SELECT count(*) FROM t WHERE e MATCH '[0,0,0,0]' AND n = 3",
          "BEGIN; INSERT INTO t VALUES ('next', '[0,0,0,0]', 1, 's', 'n');"
          "UPDATE t SET n = 99 WHERE word = 'next'; DELETE FROM t WHERE word = 'next'; COMMIT;"
          "INSERT INTO t(t) VALUES ('integrity-check')",
          kRows};
}

World content_world() {
  const std::string rows = "id INTEGER PRIMARY KEY, code UNIQUE, e, s TEXT, y INTEGER, note";
  return {"content",
          "CREATE TABLE c(" + rows + ");" + counting(120) +
              "INSERT INTO c SELECT x, x, '[' || x || ',0]', 's' || (x * 7919 % 997), x % 5, "
              "'note' || x FROM c;"
              "CREATE TABLE parent(id INTEGER PRIMARY KEY);"
              "CREATE VIRTUAL TABLE x USING warp(content=c, content_rowid=id, e FLOAT[2] "
              "index=ivfflat(lists=2), s TEXT index=ngram(n=2), y INTEGER, +note);"
              "INSERT INTO x(x) VALUES ('train');"
              "CREATE VIRTUAL TABLE hand USING warp(content=c, sync=manual, e FLOAT[2], s TEXT "
              "distance=edit);"
              "INSERT INTO hand(hand) VALUES ('rebuild');"
              "INSERT INTO c VALUES (500, 500, '[1,1]', 'late', 1, 'x'); DELETE FROM c WHERE id % "
              "40 = 0",
          "SELECT count(*), sum(y), group_concat(s || coalesce(note, '')), sum(code) FROM c;"
          "SELECT count(*), sum(y), group_concat(s) FROM x;"
          "SELECT rowid FROM x WHERE e MATCH '[9,0]' AND distance < 4;"
          "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
          "BEGIN; INSERT INTO c(id, e, s) VALUES (1000, '[1,1]', 'next'); UPDATE c SET s = 'other' "
          "WHERE id = 1000;"
          "DELETE FROM c WHERE id = 1000; COMMIT; INSERT INTO x(x) VALUES ('integrity-check');"
          "SELECT rowid FROM x WHERE e MATCH '[1,1]' AND k = 3; SELECT rowid FROM x WHERE s MATCH "
          "'s12' AND k = 3;"
          "SELECT count(*) FROM hand",
          kContent};
}

World segments_world() {
  const auto rows = [](const char* ids) {
    return counting(8192) + "INSERT INTO t SELECT " + ids + ", vec_int8('[' || (x % 100) || ',' || (x % 7) || "
           "',1,2]'), x % 5 FROM c;";
  };
  return {"segments",
          "PRAGMA page_size = 16384;"
          "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e INT8[4], n INTEGER);"
          "CREATE VIRTUAL TABLE w USING warp(id INTEGER PRIMARY KEY, e FLOAT[640], n INTEGER);" +
              rows("x") + rows("x + 8192") + "INSERT INTO t VALUES (20000, vec_int8('[1,1,1,1]'), 3)",
          "SELECT count(*), sum(n), sum(id) FROM t; SELECT count(*), sum(n), sum(id) FROM w;"
          "SELECT id FROM t WHERE e MATCH vec_int8('[9,0,1,2]') AND k = 3",
          "BEGIN; INSERT INTO t(id, n) VALUES (30000, 1); DELETE FROM t WHERE id = 30000;"
          "INSERT INTO w(id, n) VALUES (30000, 1); DELETE FROM w WHERE id = 30000; COMMIT;"
          "INSERT INTO t(t) VALUES ('integrity-check'); INSERT INTO w(w) VALUES ('integrity-check')",
          kSegments};
}

World imports_world() {
  return {"imports",
          file_text(std::string(WARPLITE_SOURCE_DIR) + "/tests/vec0/docs.sql"),
          "SELECT count(*) FROM sqlite_schema WHERE type = 'table'",
          "SELECT 1",
          {{"import",
            {"SELECT warp_import_vec0('docs')", "SELECT count(*) FROM docs_warp",
             "DROP TABLE docs_warp"}},
           {"vectors",
            {"SELECT rowid, length(vector) FROM warp_vectors_file('" +
             std::string(WARPLITE_SOURCE_DIR) + "/examples/data/glove10k.fvecs') LIMIT 3"}}}};
}

}  // namespace warplite::testing
