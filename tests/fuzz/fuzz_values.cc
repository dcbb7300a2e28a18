// Blobs and JSON text as vectors: every scalar function, INSERT and MATCH. What is accepted is
// finite, at distance 0 from itself, and reads back as the same vector.
#include <string>

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
    "SELECT vec_add(?1, ?1), vec_sub(?1, ?1)", "SELECT vec_slice(?1, 0, 1), vec_slice(?1, 1, 3)",
    "SELECT vec_quantize_binary(?1)", "SELECT vec_quantize_int8(?1, 'unit')",
    "SELECT edit_distance(?1, 'some text'), edit_distance(?1, ?1)",
    "SELECT * FROM warp_knn_search('t', 'f', ?1, 3, '{}')",
    "SELECT * FROM warp_knn_search('t', 'f', '[1,2]', 3, ?1)",
    "SELECT * FROM warp_knn_search(?1, ?1, '[1,2]', 3)",
    "SELECT * FROM warp_range_search('t', 'b', ?1, 3)",
    "SELECT * FROM warp_knn_join('t', 'f', 'SELECT 1, x FROM given', 3)",
    "INSERT INTO t(f) VALUES (?1)", "INSERT INTO t(h) VALUES (?1)", "INSERT INTO t(i) VALUES (?1)",
    "INSERT INTO t(b) VALUES (?1)", "INSERT INTO t(n, x, s, y) VALUES (?1, ?1, ?1, ?1)",
    "SELECT rowid FROM t WHERE f MATCH ?1 AND k = 2", "SELECT rowid FROM t WHERE i MATCH ?1",
    "SELECT rowid FROM t WHERE s LIKE ?1 AND s GLOB ?1 AND n < ?1 AND x >= ?1 AND y IS NOT ?1",
    "SELECT rowid FROM t WHERE f MATCH '[1,2]' AND k = ?1", "INSERT INTO t(t) VALUES (?1)",
};

sqlite3* prepared() {
  static sqlite3* const db = [] {
    require(warplite::fuzzing::run(database(),
        "CREATE VIRTUAL TABLE t USING warp(f FLOAT[2], h FLOAT16[2], i INT8[2], b BIT[8], "
        "n INTEGER, x REAL, s TEXT, y BOOLEAN);"
        "INSERT INTO t VALUES ('[1,2]', '[1,2]', '[1,2]', x'01', 1, 1.5, 'one', 1);"
        "CREATE TABLE given(x)"), "the set-up failed");
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
  sqlite3_finalize(statement);
  return code == SQLITE_DONE;
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
  const bool text = (input.byte() & 1) != 0;
  const std::string bytes = input.rest();
  warplite::fuzzing::run(db, "SAVEPOINT fuzz; DELETE FROM given");
  try_statement(db, "INSERT INTO given VALUES (?1)", bytes, text);
  bool stored = false;
  for (const char* sql : kStatements) {
    const bool done = try_statement(db, sql, bytes, text);
    stored = stored || (done && sql[0] == 'I');
  }
  if (stored) check_stored_vectors(db);
  warplite::fuzzing::run(db, "ROLLBACK TO fuzz; RELEASE fuzz");
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"1[1,2]",
          "1[1.5e3, -2.25]",
          "1[0,1,0,1,1,1,0,0]",
          "1[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
          "1[1e39,-1e-46]",
          "1[[1],{\"a\":null},true]",
          "1{\"device\":\"cpu\",\"refine\":4}",
          "1t",
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
