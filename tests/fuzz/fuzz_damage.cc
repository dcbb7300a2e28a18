// Bytes written into shadow tables behind the module's back: every query gives the answer of
// the undamaged table, or an error. +columns hold values as the user gave them, without a
// checksum, so their table is not compared.
#include <sqlite3.h>

#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/fuzz/fuzz_database.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using warplite::fuzzing::answer;
using warplite::fuzzing::database;
using warplite::fuzzing::Input;
using warplite::fuzzing::require;
using warplite::fuzzing::run;

constexpr const char* kSetUp =
    "CREATE VIRTUAL TABLE t USING warp(word TEXT PRIMARY KEY, e FLOAT[4], h INT8[3], n INTEGER, s TEXT, x REAL,"
    " v FLOAT[4] index=ivfflat(lists=4), r FLOAT[3] index=ivfrabitq(lists=4, refine=0), z SPARSE[500]);"
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1200) "
    "INSERT INTO t SELECT 'w' || i, CASE WHEN i % 9 THEN '[' || i || ',0,0,1]' END, '[1,2,' || (i % 100) || ']',"
    " nullif(i % 5, 0), 's' || (i % 40), i / 4.0,"
    " CASE WHEN i % 7 THEN '[' || (i % 50) || ',' || i || ',2,3]' END, '[' || (i % 31) || ',3,' || i || ']',"
    " CASE WHEN i % 8 THEN '[[' || (i % 7) || ',' || i || '],[' || (7 + i % 400) || ',2]]' END FROM c;"
    "INSERT INTO t(t) VALUES ('optimize');"
    "INSERT INTO t(t) VALUES ('train');"
    "DELETE FROM t WHERE rowid % 50 = 0;"
    "INSERT INTO t VALUES ('late', '[0,0,0,0]', '[0,0,0]', 7, 'tail', 0.5, '[5,8,2,3]', '[5,3,8]', '{\"3\":5}'),"
    " ('later', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

constexpr std::array<const char*, 9> kQueries = {
    "SELECT group_concat(rowid || word || ifnull(n, '') || ifnull(s, '') || ifnull(x, '')) FROM t",
    "SELECT group_concat(rowid || ':' || distance) FROM (SELECT rowid, distance FROM t WHERE e MATCH '[5,0,0,0]' AND k = 40)",
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM t WHERE h MATCH '[1,2,3]' AND n >= 2 AND s LIKE 's1%' AND k = 30)",
    "SELECT rowid || n FROM t WHERE word = 'w77'",
    "SELECT count(*) || ':' || sum(n) || ':' || count(e) FROM t WHERE x > 3.25",
    "SELECT group_concat(rowid || ':' || distance) FROM (SELECT rowid, distance FROM t WHERE v MATCH '[5,90,2,3]' AND k = 30 AND nprobe = 1)",
    "SELECT group_concat(rowid) FROM (SELECT rowid FROM t WHERE v MATCH '[5,90,2,3]' AND n >= 2 AND k = 300 AND nprobe = 2)",
    "SELECT group_concat(rowid || ':' || distance) FROM (SELECT rowid, distance FROM t WHERE r MATCH '[5,3,90]' AND k = 30 AND nprobe = 2)",
    "SELECT group_concat(rowid || ':' || distance) FROM (SELECT rowid, distance FROM t WHERE z MATCH '{\"3\":1,\"90\":2}' AND k = 40)",
};

struct Place {
  const char* table;
  const char* column;
};
constexpr Place kPlaces[] = {{"t_blocks", "data"}, {"t_segments", "info"}, {"t_state", "record"},
                             {"t_tail", "v0"},     {"t_tail", "c1"}, {"t_tail", "c4"},       {"t_tail", "flush"}};

std::vector<std::string> answers(sqlite3* db) {
  std::vector<std::string> all;
  for (const char* query : kQueries) all.push_back(answer(db, query));
  return all;
}

struct Undamaged {
  std::vector<unsigned char> image;
  std::vector<std::string> answers;
};

const Undamaged& undamaged() {
  static const Undamaged it = [] {
    Undamaged made;
    require(run(database(), kSetUp), "the set-up failed");
    made.answers = answers(database());
    sqlite3_int64 size = 0;
    unsigned char* bytes = sqlite3_serialize(database(), "main", &size, 0);
    made.image.assign(bytes, bytes + size);
    sqlite3_free(bytes);
    return made;
  }();
  return it;
}

// The input's bytes replace a stretch of one value, or all of it.
void damage(sqlite3* db, Input input) {
  const Place& place = kPlaces[input.byte() % std::size(kPlaces)];
  const unsigned row = input.byte(), how = input.byte(), at = input.byte() * 256 + input.byte();
  const std::string column = place.column, table = place.table;
  std::string value = "?1";
  if (how % 4 != 0) {
    const std::string start = std::to_string(how % 4 == 1 ? at % 96 : at);
    value = "CAST(substr(" + column + ", 1, " + start + ") || ?1 || substr(" + column + ", 1 + " + start +
            " + length(?1)) AS BLOB)";
  }
  const std::string sql = "UPDATE " + table + " SET " + column + " = " + value + " WHERE id = (SELECT id FROM " +
                          table + " ORDER BY id LIMIT 1 OFFSET " + std::to_string(row) +
                          " % (SELECT count(*) FROM " + table + "))";
  sqlite3_stmt* statement = nullptr;
  require(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK, sqlite3_errmsg(db));
  const std::string bytes = input.rest();
  sqlite3_bind_blob(statement, 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
  sqlite3_step(statement);
  sqlite3_finalize(statement);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto& expected = undamaged().answers;
  sqlite3* db = warplite::fuzzing::copy_of(undamaged().image);
  damage(db, Input(data, size));
  warplite::engine::Residency::instance().clear();
  const auto got = answers(db);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool good = got[i] == expected[i] || got[i].rfind("error: ", 0) == 0;
    require(good, std::string("a wrong answer to ") + kQueries[i] + "\n" + got[i] + "\n" + expected[i]);
  }
  run(db, "INSERT INTO t(t) VALUES ('integrity-check')");
  run(db, "INSERT INTO t(t) VALUES ('optimize')");
  run(db, "INSERT INTO t VALUES ('new', '[1,1,1,1]', NULL, NULL, NULL, NULL, NULL, '[1,1,1]')");
  run(db, "INSERT INTO t(t) VALUES ('train')");
  run(db, "INSERT INTO t(t) VALUES ('rebuild')");
  sqlite3_close(db);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (int place = 0; place < 6; ++place) {
    for (int how = 0; how < 4; ++how) {
      std::string seed = {static_cast<char>(place), 0, static_cast<char>(how), 0, 24};
      seeds.push_back(seed + std::string("\x01\x00\x00\x00", 4));
      seeds.push_back(seed + std::string(88, '\0'));
      seeds.push_back(seed + std::string(300, '\xff'));
    }
  }
  return seeds;
}
