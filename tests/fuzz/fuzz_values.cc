// Any value wherever SQL takes one: vectors, queries, options, names, texts of statements. Vectors that
// are accepted are finite, at distance 0 from themselves, and read back as the same vector. JSON is
// accepted as SQLite accepts it. A value that SQLite's JSON functions wrote finds the row that has it. Every
// error says so in UTF-8.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "sql/host/json.h"

#include "tests/fuzz/fuzz_database.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using warplite::fuzzing::database;
using warplite::fuzzing::Input;
using warplite::fuzzing::require;

constexpr const char* kStatements[] = {
    "SELECT vec_f32(?1)", "SELECT vec_int8(?1)", "SELECT vec_bit(?1)", "SELECT vec_f16(?1)",
    "SELECT vec_length(?1), vec_type(?1)", "SELECT vec_to_json(?1)", "SELECT vec_normalize(?1)",
    "SELECT vec_distance_l2(?1, ?1), vec_distance_l1(?1, ?1), vec_distance_ip(?1, ?1)",
    "SELECT vec_distance_cosine(?1, ?1)", "SELECT vec_distance_hamming(vec_bit(?1), vec_bit(?1))",
    "SELECT vec_sparse(?1)", "SELECT vec_distance_ip(vec_sparse(?1), ?1), vec_to_json(vec_sparse(?1))",
    "SELECT warp_csr(?1, x'05000000', x'0000803f'), warp_csr(zeroblob(8), ?1, ?1)",
    "SELECT * FROM warp_knn_arrays('t', 'z', ?1, 3)", "SELECT rowid FROM t WHERE z MATCH ?1 AND k = 2",
    "INSERT INTO t(z) VALUES (?1)",
    "SELECT vec_add(?1, ?1), vec_sub(?1, ?1)", "SELECT vec_slice(?1, 0, 1), vec_slice(?1, 1, 3)",
    "SELECT vec_quantize_binary(?1)", "SELECT vec_quantize_int8(?1, 'unit')",
    "SELECT edit_distance(?1, 'some text'), edit_distance(?1, ?1)",
    "SELECT * FROM warp_knn_search('t', 'f', ?1, 3, '{}')",
    "SELECT * FROM warp_knn_search('t', 'f', '[1,2]', 3, ?1)",
    "SELECT * FROM warp_knn_search(?1, ?1, '[1,2]', 3)",
    "SELECT * FROM warp_knn_arrays('t', 'f', ?1, 3)", "SELECT * FROM warp_knn_arrays('t', 'b', ?1, 3)",
    "SELECT * FROM warp_knn_arrays('t', 'h', ?1, ?1, '{\"type\":\"float32\"}')",
    "SELECT * FROM warp_knn_arrays('t', 'h', zeroblob(16), 3, ?1)",
    "SELECT * FROM warp_range_search('t', 'b', ?1, 3)",
    "SELECT * FROM warp_knn_join('t', 'f', 'SELECT 1, x FROM given', 3)",
    "INSERT INTO t(f) VALUES (?1)", "INSERT INTO t(h) VALUES (?1)", "INSERT INTO t(g) VALUES (?1)", "INSERT INTO t(i) VALUES (?1)",
    "INSERT INTO t(b) VALUES (?1)", "INSERT INTO t(n, x, s, y) VALUES (?1, ?1, ?1, ?1)",
    "SELECT rowid FROM t WHERE f MATCH ?1 AND k = 2", "SELECT rowid FROM t WHERE i MATCH ?1",
    "SELECT rowid FROM t WHERE s LIKE ?1 AND s GLOB ?1 AND n < ?1 AND x >= ?1 AND y IS NOT ?1",
    "SELECT rowid FROM t WHERE f MATCH '[1,2]' AND k = ?1", "INSERT INTO t(t) VALUES (?1)",
    "SELECT * FROM warp_match_count('t', ?1, 3)", "SELECT rowid FROM t WHERE t MATCH ?1",
    "SELECT * FROM warp_match_count('t', '{\"n\":1}', 3, ?1)", "SELECT * FROM warp_match_count(?1, '{}', 1)",
    "SELECT * FROM warp_match_count('t', json_object('n', json(?1), 's', ?1, 'x', json(?1)), 3)",
    "SELECT * FROM warp_match_join('t', 'SELECT x, x FROM given', 3)",
    "SELECT * FROM warp_match_join('t', ?1, 3)", "SELECT * FROM warp_knn_join('t', 'f', ?1, 3)",
    "SELECT * FROM warp_range_join('t', 'e', 'SELECT x, x FROM given', 1)",
    "SELECT * FROM warp_document_join('t', 'w', 'SELECT x, x FROM given', 3, ?1)",
    "SELECT * FROM warp_document_search('t', 'w', ?1, 3)", "SELECT rowid FROM t WHERE e MATCH ?1 AND k = 2",
    "SELECT warp_config(?1)", "SELECT warp_import_vec0(?1)", "SELECT * FROM warp_vectors_file(?1)",
    "SELECT * FROM warp_vectors_file('/nowhere/' || ?1 || '.npy')",
    "SELECT warp_model('m', ?1)", "SELECT warp_use_model('m', 'e', ?1)", "SELECT rowid FROM m WHERE e MATCH '[1,2]' AND k = 2 AND nprobe = 2",
    "SELECT warp_use_model('m', 'r', ?1)", "SELECT rowid FROM m WHERE r MATCH '[1,2]' AND k = 2 AND nprobe = 2",
};

sqlite3* prepared() {
  static sqlite3* const db = [] {
    require(warplite::fuzzing::run(database(),
        "CREATE VIRTUAL TABLE t USING warp(f FLOAT[2], h FLOAT16[2], g BFLOAT16[2], i INT8[2], b BIT[8], "
        "n INTEGER, x REAL, s TEXT, y BOOLEAN, w TEXT index=words, e TEXT distance=edit, z SPARSE[300]);"
        "INSERT INTO t VALUES ('[1,2]', '[1,2]', '[1,2]', '[1,2]', x'01', 1, 1.5, 'one', 1, 'two words', 'near', '{\"7\":1}');"
        "CREATE TABLE given(x);"
        // Too few rows to learn from unasked: a model that is accepted codes them.
        "CREATE VIRTUAL TABLE m USING warp(e FLOAT[2] index=ivfflat(lists=2), r FLOAT[2] index=ivfrabitq(lists=2));"
        "CREATE VIRTUAL TABLE learnt USING warp(e FLOAT[2] index=ivfflat(lists=2), r FLOAT[2] index=ivfrabitq(lists=2));"
        "INSERT INTO m WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 40) "
        "SELECT '[' || i || ',' || (i % 7) || ']', '[' || (i % 5) || ',' || i || ']' FROM c;"
        "INSERT INTO learnt SELECT e, r FROM m; INSERT INTO learnt(learnt) VALUES ('train');"
        "INSERT INTO m(m) VALUES ('optimize')"), "the set-up failed");
    return database();
  }();
  return db;
}

void bind(sqlite3_stmt* statement, const std::string& bytes, bool text) {
  const int size = static_cast<int>(bytes.size());
  if (text) {
    sqlite3_bind_text(statement, 1, bytes.data(), size, SQLITE_STATIC);
  } else {
    sqlite3_bind_blob(statement, 1, bytes.data(), size, SQLITE_STATIC);
  }
}

// Runs one statement on the value; true when it succeeded.
bool try_statement(sqlite3* db, const char* sql, const std::string& bytes, bool text) {
  sqlite3_stmt* statement = nullptr;
  require(sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) == SQLITE_OK, sql);
  bind(statement, bytes, text);
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
  }
  if (code != SQLITE_DONE) warplite::fuzzing::check_message(db);
  sqlite3_finalize(statement);
  return code == SQLITE_DONE;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Beyond what SQLite takes for JSON, infinity and numbers without a digit before the point are read;
// less than that, surrogates without their other half, keys that come twice and too many levels are not.
void check_json(sqlite3* db, const std::string& text) {
  if (has(text, std::string_view("\0", 1))) return;
  std::string problem;
  try {
    warplite::sql::Json::parse(text);
  } catch (const warplite::sql::JsonError& error) {
    problem = error.what();
  }
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, "SELECT json_valid(?1)", -1, &statement, nullptr);
  bind(statement, text, true);
  const bool valid = sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) != 0;
  sqlite3_finalize(statement);
  const bool more = has(text, "Inf") || has(text, ".");
  const bool less = has(problem, "comes twice") || has(problem, "levels") || has(text, "\\u");
  require(problem.empty() ? valid || more : !valid || less, "JSON: " + problem + "\n" + text);
}

// Rows with a real that 15 digits tell, and a text, find themselves by what json_object() makes of them.
void check_found_by_json(sqlite3* db) {
  const std::string lost = warplite::fuzzing::answer(
      db, "SELECT count(*) FROM t o WHERE (abs(x) = 9e999 OR CAST(printf('%!.15g', x) AS REAL) = x) AND s IS NOT NULL AND NOT EXISTS "
          "(SELECT 1 FROM warp_match_count('t', json_object('rowid', o.rowid, 'x', o.x, 's', o.s), 1) "
          "WHERE matches = 3 AND rowid = o.rowid)");
  require(lost == "0", "not found by its JSON: " + lost);
}

void check_stored_vectors(sqlite3* db) {
  for (const char* column : {"f", "h", "i", "b"}) {
    const std::string name = column;
    const std::string wrong = warplite::fuzzing::answer(
        db, "SELECT count(*) FROM t o WHERE " + name + " IS NOT NULL AND 0 IS NOT "
            "(SELECT distance FROM t WHERE " + name + " MATCH o." + name + " AND rowid = o.rowid AND k = 1)");
    require(wrong == "0", name + ": not at distance 0 from itself: " + wrong);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sqlite3* db = prepared();
  Input input(data, size);
  const unsigned how = input.byte();
  const bool text = (how & 1) != 0;
  std::string bytes = input.rest();
  if ((how & 0x40) != 0) {  // its beginning many times over, as deep nesting is
    const std::string beginning = bytes.substr(0, 1 + bytes.size() % 9);
    for (int i = 0; i < 20000; ++i) bytes.insert(bytes.end(), beginning.begin(), beginning.end());
  }
  if (text) check_json(db, bytes);
  warplite::fuzzing::run(db, "SAVEPOINT fuzz; DELETE FROM given");
  try_statement(db, "INSERT INTO given VALUES (?1)", bytes, text);
  bool stored = false;
  for (const char* sql : kStatements) {
    const bool done = try_statement(db, sql, bytes, text);
    stored = stored || (done && sql[0] == 'I');
  }
  if (stored) check_stored_vectors(db);
  if (stored) check_found_by_json(db);
  warplite::fuzzing::run(db, "ROLLBACK TO fuzz; RELEASE fuzz");
  return 0;
}

namespace {

// A seed that is what an index has learnt.
std::string model_seed(const std::string& column) {
  sqlite3_stmt* statement = nullptr;
  const std::string sql = "SELECT warp_model('learnt', '" + column + "')";
  sqlite3_prepare_v2(prepared(), sql.c_str(), -1, &statement, nullptr);
  require(sqlite3_step(statement) == SQLITE_ROW, "no model");
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, 0));
  std::string seed = "0" + std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
  sqlite3_finalize(statement);
  return seed;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {model_seed("e"), model_seed("r"),
          "1[1,2]",
          "1[1.5e3, -2.25]",
          "1[0,1,0,1,1,1,0,0]",
          "1[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
          "1[1e39,-1e-46]",
          "1[[1],{\"a\":null},true]",
          "1{\"device\":\"cpu\",\"refine\":4}",
          "1{\"n\":[1,2],\"x\":[[-1.5e3,9.0e+999],Inf,null],\"s\":[\"one\",null]}",
          "1{\"S\":{\"value\":\"\\ud83d\\ude00\\n\xff\",\"weight\":3},\"y\":true,\"rowid\":1}",
          "1SELECT 1, '{\"n\":1}'",
          "1SELECT x, x FROM warp_match_join('t', (SELECT x FROM given), 1), given",
          "1no such \xff\xfe.t\x1b[31m",
          "1/dev/zero\xff.fvecs",
          "q[",
          "q{\"n\":",
          "1-Inf",
          "1 9.0e+999",
          "1t",
          "1{\"7\":0.5,\"299\":-2e3}",
          "1[[7,0.5],[8,1e39]]",
          std::string("0\7\0\0\0\0\0\x80\x3f", 9),
          "1one%_*?[a-z]",
          "1integrity-check",
          "112",
          "1-7.5e2",
          std::string("0\0\0\x80\x3f\0\0\0\x40", 9),
          std::string("0\0\0\x80\x7f\0\0\xc0\x7f", 9),
          std::string("0\x00\x3c\x00\x7c", 5),
          "0\x7f",
          "0"};
}
