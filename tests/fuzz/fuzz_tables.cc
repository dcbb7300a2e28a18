#include "tests/fuzz/fuzz_tables.h"

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace warplite::fuzzing {
namespace {

// Rows of `values` for i from 1 on, sealed, with a model where there may be one, some deleted,
// and a few in the tail.
std::string filled(const std::string& name, const std::string& arguments, int rows,
                   const std::string& values, bool learns = false) {
  const auto insert = [&](int from, int to) {
    return "WITH RECURSIVE c(i) AS (SELECT " + std::to_string(from) +
           " UNION ALL SELECT i + 1 FROM c WHERE i < " + std::to_string(to) + ") INSERT INTO " +
           name + " SELECT " + values + " FROM c;";
  };
  const auto command = [&](const std::string& word) {
    return "INSERT INTO " + name + "(" + name + ") VALUES ('" + word + "');";
  };
  std::string sql = "CREATE VIRTUAL TABLE " + name + " USING warp(" + arguments + ");";
  sql += insert(1, rows / 2) + command("optimize") + (learns ? command("train") : "");
  sql += "DELETE FROM " + name + " WHERE rowid % 11 = 0;";
  // A second segment, and then the tail.
  return sql + insert(rows / 2 + 1, rows) + command("optimize") + insert(rows + 1, rows + 4);
}

// What any table is asked.
std::vector<std::string> with_commands(const std::string& name, const std::string& set,
                                       std::initializer_list<const char*> reads) {
  std::vector<std::string> all(reads.begin(), reads.end());
  all.insert(all.begin(), {"SELECT * FROM " + name, "SELECT * FROM " + name + " WHERE rowid = 7",
                           "SELECT count(*), max(rowid) FROM " + name});
  for (const char* command : {"integrity-check", "optimize", "train"}) {
    all.push_back("INSERT INTO " + name + "(" + name + ") VALUES ('" + command + "')");
  }
  const std::string update = "UPDATE " + name + " SET " + set;
  all.insert(all.begin() + 4, update + " WHERE rowid % 5 = 0");
  for (const std::string& last :
       {update + " WHERE rowid > (SELECT max(rowid) FROM " + name + ") - 3",
        "DELETE FROM " + name + " WHERE rowid % 3 = 0", "SELECT * FROM " + name,
        "INSERT INTO " + name + "(" + name + ") VALUES ('rebuild')", "SELECT * FROM " + name,
        "INSERT INTO " + name + "(" + name + ") VALUES ('integrity-check')"}) {
    all.push_back(last);
  }
  return all;
}

FuzzTable plain_table(const char* name, int rows) {
  const std::string t = name;
  return {
      name,
      filled(t, "id INTEGER PRIMARY KEY, e FLOAT[4], n INTEGER, s TEXT, x REAL, y BOOLEAN, +note",
             rows,
             "i * 2 + i / 50, CASE WHEN i % 9 THEN '[' || i || ',0,0,1]' END, nullif(i % 5, 0),"
             " 's' || (i % 7), i / 4.0, i % 2, 'note' || i"),
      with_commands(t, "n = n + 1, e = '[1,2,3,4]'", {})};
}

// An ordinary table, searched in every way that needs no index.
FuzzTable searched_table(const char* name, int rows) {
  FuzzTable table = plain_table(name, rows);
  const std::string t = name;
  table.statements.insert(
      table.statements.begin() + 3,
      {"SELECT id, distance FROM " + t + " WHERE e MATCH '[5,0,0,0]' AND n >= 2 AND k = 9",
       "SELECT id FROM " + t + " WHERE s LIKE 's1%' AND x < 30 AND y = 1",
       "SELECT id, note FROM " + t + " WHERE s = 's3' OR s IN ('s1', 's4', 's5', 's6', 's7')",
       "SELECT id FROM " + t + " WHERE e MATCH '[5,0,0,0]' AND distance < 20",
       "SELECT * FROM warp_match_count('" + t + "', '{\"n\":[1,3],\"s\":\"s1\",\"x\":[2,8]}', 5)",
       "SELECT * FROM warp_kmeans('" + t + "', 'e', 3)",
       "SELECT * FROM warp_knn_join('" + t + "', 'e', 'SELECT id, e FROM " + t +
           " WHERE n = 1', 2)",
       "SELECT rowids, distances FROM warp_knn_arrays('" + t + "', 'e', zeroblob(48), 5)",
       "SELECT * FROM warp_range_join('" + t + "', 'e', 'SELECT id, e FROM " + t +
           " WHERE n = 1', 3)",
       "SELECT * FROM warp_match_join('" + t +
           "', 'SELECT id, json_object(''n'', n, ''s'', s) FROM " + t + " WHERE n = 1', 2)",
       "SELECT id FROM " + t +
           " WHERE e MATCH '[5,0,0,0]' AND n % 2 = 1 ORDER BY distance LIMIT 70",
       "SELECT count(*) FROM warp_residency()", "SELECT count(*) FROM warp_explain()",
       "INSERT INTO " + t +
           " VALUES (3, '[1,1,1,1]', 1, 's1', 1.5, 1, 'x'), (4001, NULL, NULL, NULL, NULL, NULL, "
           "7)",
       "SAVEPOINT p", "UPDATE " + t + " SET s = s || 'y', note = 1 WHERE n = 2",
       "SELECT id, distance FROM " + t + " WHERE e MATCH '[5,0,0,0]' AND s LIKE '%y' AND k = 9",
       "ROLLBACK TO p", "RELEASE p"});
  return table;
}

FuzzTable keys_table() {
  return {"keys",
          filled("keys", "word TEXT PRIMARY KEY, h INT8[3], p INTEGER PARTITION KEY", 120,
                 "'w' || i, '[1,2,' || (i % 100) || ']', i % 3"),
          with_commands("keys", "p = p + 1",
                        {"SELECT rowid, p FROM keys WHERE word = 'w77'",
                         "SELECT rowid FROM keys WHERE h MATCH '[1,2,3]' AND p = 2 AND k = 4",
                         "INSERT OR REPLACE INTO keys VALUES ('w5', '[1,1,1]', 1)",
                         "INSERT INTO keys VALUES ('w6', '[1,1,1]', 1)"})};
}

// Sparse vectors; some are NULL, some have no entries.
FuzzTable sparse_table() {
  const char* const insert =
      "CASE WHEN i % 9 THEN '[[' || (i % 7) || ',' || i || '],[' || (7 + i % 80) || ',-0.5]]' "
      "WHEN i % 2 THEN '{}' END, i % 5";
  return {"sparse", filled("sparse", "z SPARSE[90], n INTEGER", 400, insert),
          with_commands("sparse", "n = n + 1, z = '{\"3\":1, \"89\":2}'",
                        {"SELECT rowid, distance FROM sparse WHERE z MATCH '{\"3\":1}' AND k = 9",
                         "SELECT rowid FROM sparse WHERE z MATCH '[[3,1],[9,-1]]' AND n = 2 AND k = 99",
                         "SELECT rowid FROM sparse WHERE z MATCH '{\"3\":1}' AND distance < -40",
                         "SELECT vec_to_json(z), vec_length(z) FROM sparse",
                         // So many queries that postings are made.
                         "SELECT count(*) FROM warp_knn_join('sparse', 'z', "
                         "'SELECT rowid, z FROM sparse', 2)",
                         "SELECT count(*) FROM warp_range_join('sparse', 'z', "
                         "'SELECT rowid, z FROM sparse', -9)"})};
}

// Vectors with an index, of kinds that learn a model or not. `more`: elements after the eighth.
FuzzTable vectors_table(const char* name, const std::string& arguments, bool learns,
                        const std::string& more = "", int rows = 400) {
  const std::string vector = "'[' || (i % 13) || ',' || (i % 120) || ',2,3,' || (i % 7) ||"
                             " ',0,' || (i % 3) || ',1" + more + "]'";
  const std::string t = name, query = "'[1,5,2,3,1,0,1,1" + more + "]'";
  const std::string match = " FROM " + t + " WHERE v MATCH " + query;
  FuzzTable table{name, filled(t, arguments, rows, vector + ", i % 5", learns),
                  with_commands(t, "n = n + 1, v = '[1,2,3,4,5,6,7,8" + more + "]'", {})};
  table.statements.insert(table.statements.begin() + 3,
                          {"SELECT rowid, distance" + match + " AND k = 9",
                           "SELECT rowid" + match + " AND n = 2 AND k = 30",
                           "SELECT rowid" + match + " AND distance < 40",
                           "SELECT * FROM warp_knn_search('" + t +
                               "', 'v', " + query + ", 5, '{\"device\":\"cpu\"}')",
                           "SELECT count(*) FROM warp_knn_graph('" + t + "', 'v', 2)"});
  return table;
}

std::vector<FuzzTable> vectors_tables() {
  return {
      vectors_table("flatlists", "v FLOAT[8] index=ivfflat(lists=4), n INTEGER", true),
      vectors_table("fewerlists", "v FLOAT[8] index=ivfflat(lists=2), n INTEGER", true),
      vectors_table("pq", "v FLOAT16[8] index=ivfpq(lists=4, m=4, opq=1), n INTEGER", true),
      vectors_table("codes", "v FLOAT[8] index=ivfpq(lists=4, m=4, bits=4), n INTEGER, store=codes",
                    true),
      vectors_table("rabitq", "v FLOAT16[9] distance=cosine index=ivfrabitq(lists=4), n INTEGER",
                    true, ",7"),
      vectors_table("signs",
                    "v FLOAT[9] index=ivfrabitq(lists=3, bits=1), n INTEGER, store=codes", true,
                    ",7"),
      // So many lists that they are in groups.
      vectors_table("groups",
                    "v FLOAT[8] distance=ip index=ivfrabitq(lists=520, bits=7, rotate=0), n INTEGER",
                    true, "", 1100),
      vectors_table("approximate", "v INT8[9] index=approximate(recall=0.9), n INTEGER", true,
                    ",7"),
      vectors_table("lsh", "v FLOAT[8] index=lsh(m=8), n INTEGER", true),
      vectors_table("simhash", "v FLOAT[8] distance=cosine index=lsh(m=64), n INTEGER", true),
      vectors_table("rbh", "v FLOAT[8] distance=l1 index=lsh(m=8, buckets=100000), n INTEGER",
                    true),
      vectors_table("whole", "v INT8[8] distance=ip index=ivfflat(lists=4), n INTEGER", true),
      vectors_table("clusters", "v FLOAT[8] index=list_of_clusters(size=4), n INTEGER", false),
      vectors_table("pivots", "v FLOAT16[8] distance=l1 index=sss(alpha=0.4), n INTEGER", false),
      vectors_table("parts", "v FLOAT[8] distance=cosine, n INTEGER PARTITION KEY", false),
  };
}

FuzzTable texts_table() {
  return {
      "texts",
      filled("texts",
             "g TEXT index=ngram(n=2), w TEXT index=words, d TEXT distance=edit,"
             " c TEXT distance=edit index=list_of_clusters(size=4), p TEXT distance=edit index=sss",
             160,
             "'gram ' || (i * 7919 % 1000), 'word' || (i % 9) || ' and ' || i,"
             " nullif('d' || (i % 17), 'd5'), 'text' || (i * 31 % 50), 'pivot' || (i * 37 % 50)"),
      with_commands("texts", "d = d || 'x'",
                    {"SELECT * FROM warp_sequence_search('texts', 'g', 'gram 71', 3)",
                     "SELECT * FROM warp_document_search('texts', 'w', 'word3 and 7', 3)",
                     "SELECT * FROM warp_range_search('texts', 'd', 'd1', 1)",
                     "SELECT * FROM warp_range_search('texts', 'c', 'text3', 1)",
                     "SELECT rowid FROM texts WHERE p MATCH 'pivot3' AND k = 3",
                     "SELECT * FROM warp_sequence_join('texts', 'g', 'SELECT rowid, g FROM texts "
                     "WHERE rowid < 9', 2)",
                     "SELECT * FROM warp_document_join('texts', 'w', 'SELECT rowid, w FROM texts "
                     "WHERE rowid < 9', 2)",
                     "SELECT count(*) FROM texts WHERE g GLOB 'gram 1*' AND w > 'word4'"})};
}

FuzzTable counts_table() {
  return {
      "counts",
      filled("counts", "n INTEGER index=match, s TEXT index=match, b BIT[16]", 300,
             "nullif(i % 12, 3), 's' || (i % 30), CAST(char(1 + i % 100, 1 + i % 27) AS BLOB)"),
      with_commands("counts", "n = n + 1",
                    {"SELECT * FROM warp_match_count('counts', '{\"n\":[2,5],\"s\":\"s4\"}', 9)",
                     "SELECT rowid FROM counts WHERE b MATCH x'0f0f' AND k = 3"})};
}

FuzzTable content_table() {
  return {
      "content",
      "CREATE TABLE rows(id INTEGER PRIMARY KEY, v BLOB, n INTEGER, s TEXT);"
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200) INSERT INTO "
      "rows"
      " SELECT i, vec_f32('[' || i || ',0,0,1]'), i % 5, 's' || (i % 9) FROM c;"
      "CREATE VIRTUAL TABLE content USING warp(v FLOAT[4] index=ivfflat(lists=4), n INTEGER, s "
      "TEXT,"
      " content=rows);"
      "INSERT INTO content(content) VALUES ('rebuild');"
      "UPDATE rows SET n = 7 WHERE id % 50 = 0; DELETE FROM rows WHERE id % 40 = 0",
      {"SELECT * FROM content",
       "SELECT rowid, distance FROM content WHERE v MATCH '[5,0,0,0]' AND k = 9",
       "SELECT rowid FROM content WHERE v MATCH '[5,0,0,0]' AND n = 3 AND k = 9",
       "SELECT * FROM warp_match_count('content', '{\"n\":[2,3],\"s\":\"s4\"}', 9)",
       "UPDATE rows SET n = n + 1 WHERE id % 7 = 0", "DELETE FROM rows WHERE id % 5 = 0",
       "INSERT INTO content(content) VALUES ('integrity-check')",
       "INSERT INTO content(content) VALUES ('optimize')", "SELECT * FROM content",
       "INSERT INTO content(content) VALUES ('rebuild')", "SELECT * FROM content"}};
}

FuzzTable found_table() {
  return {
      "found",
      "CREATE TABLE papers(id INTEGER PRIMARY KEY, title TEXT, words TEXT, near TEXT, year "
      "INTEGER, note);"
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 120) INSERT INTO "
      "papers"
      " SELECT i, 'gram ' || (i * 7919 % 1000), 'word' || (i % 9) || ' and ' || i, 'd' || (i % "
      "17), i % 12,"
      " 'note' || i FROM c;"
      "CREATE VIRTUAL TABLE found USING warp(content=papers, title TEXT index=ngram(n=2),"
      " words TEXT index=words, near TEXT distance=edit, year INTEGER index=match, +note);"
      "INSERT INTO found(found) VALUES ('optimize');"
      "UPDATE papers SET year = 7 WHERE id % 50 = 0; DELETE FROM papers WHERE id % 40 = 0",
      {"SELECT * FROM found", "SELECT * FROM warp_sequence_search('found', 'title', 'gram 71', 3)",
       "SELECT * FROM warp_document_search('found', 'words', 'word3 and 7', 3)",
       "SELECT rowid, note FROM found WHERE near MATCH 'd1' AND k = 4",
       "SELECT * FROM warp_match_count('found', '{\"year\":[2,3]}', 9)",
       "UPDATE papers SET title = title || 'x' WHERE id % 7 = 0",
       "DELETE FROM papers WHERE id % 5 = 0",
       "INSERT INTO papers(title, near) VALUES ('new', 'd2')",
       "INSERT INTO found(rowid) VALUES (9)", "INSERT INTO found(found) VALUES ('integrity-check')",
       "INSERT INTO found(found) VALUES ('optimize')", "SELECT * FROM found",
       "INSERT INTO found(found) VALUES ('rebuild')",
       "INSERT INTO found(found) VALUES ('integrity-check')"}};
}

// A table of sqlite-vec, whose shadow tables are damaged as well, and one of its name for what
// imports it.
FuzzTable imports_table() {
  std::ifstream docs(WARPLITE_SOURCE_DIR "/tests/vec0/docs.sql");
  return {"imports",
          std::string(std::istreambuf_iterator<char>(docs), {}) +
              ";PRAGMA writable_schema = off; CREATE VIRTUAL TABLE imports USING warp(e FLOAT[2])",
          {"SELECT warp_import_vec0('docs')", "SELECT * FROM docs_warp",
           "INSERT INTO docs_warp(docs_warp) VALUES ('integrity-check')",
           "DROP TABLE IF EXISTS docs_warp", "SELECT warp_import_vec0('docs', 'made')",
           "SELECT count(*) FROM sqlite_schema"}};
}

std::vector<FuzzTable> make_tables() {
  std::vector<FuzzTable> all = {searched_table("a", 200), searched_table("b", 40), keys_table(),
                                sparse_table()};
  for (FuzzTable& table : vectors_tables()) all.push_back(std::move(table));
  for (FuzzTable (*make)() :
       {texts_table, counts_table, content_table, found_table, imports_table}) {
    all.push_back(make());
  }
  return all;
}

}  // namespace

const std::vector<FuzzTable>& fuzz_tables() {
  static const std::vector<FuzzTable> tables = make_tables();
  return tables;
}

}  // namespace warplite::fuzzing
