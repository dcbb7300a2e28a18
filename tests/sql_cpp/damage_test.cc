// Shadow tables that were changed behind the module's back: every query gives the answer of the
// undamaged table or an error with a message; never a crash, a hang or a wrong row.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <random>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

constexpr int kMutations = 2000;

constexpr const char* kSetUp =
    "CREATE VIRTUAL TABLE t USING warp(word TEXT PRIMARY KEY, e FLOAT[4], h INT8[3], b BIT[16], "
    "  n INTEGER, s TEXT, x REAL, y BOOLEAN, p INTEGER PARTITION KEY, +note);"
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2500) "
    "INSERT INTO t(rowid, word, e, h, b, n, s, x, y, p, note) SELECT i * 2 + i / 1000, 'w' || i, "
    "  CASE WHEN i % 9 THEN '[' || i || ',0,0,1]' END, '[1,2,' || (i % 100) || ']', "
    "  CAST(char(1 + i % 100, 1 + i % 27) AS BLOB), nullif(i % 5, 0), 's' || (i % 40), i / 4.0, i % 2, "
    "  i % 3, 'note' || i FROM c;"
    "INSERT INTO t(t) VALUES ('optimize');"
    "DELETE FROM t WHERE rowid % 50 = 0;"
    "INSERT INTO t VALUES ('late', '[0,0,0,0]', '[0,0,0]', x'0000', 7, 'tail', 0.5, 1, 1, 'x');"
    "INSERT INTO t VALUES ('later', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

constexpr const char* kByKey = "SELECT rowid, n, s FROM t WHERE word = 'w77'";

const char* const kQueries[] = {
    "SELECT rowid, word, hex(e), hex(h), hex(b), n, s, x, y, p FROM t ORDER BY rowid",
    "SELECT rowid, word, distance FROM t WHERE e MATCH '[5,0,0,0]' AND k = 40",
    "SELECT rowid, distance FROM t WHERE h MATCH '[1,2,3]' AND n >= 2 AND s LIKE 's1%' AND k = 30",
    "SELECT rowid, distance FROM t WHERE b MATCH x'0f0f' AND p = 2 AND distance <= 5",
    kByKey,
    "SELECT count(*), sum(n), count(e), min(s), max(x), sum(y) FROM t WHERE x > 3.25",
    "SELECT rowid FROM t WHERE rowid IN (2, 100, 102, 4000) AND s IS NOT NULL ORDER BY rowid",
};

// +columns and keys are kept as they came, without a checksum: their tables are damaged too, but
// no query looks at a +column, and the lookup by key is left out when the keys were damaged.
struct Place {
  const char* table;
  const char* column;
};
const Place kPlaces[] = {
    {"t_blocks", "data"}, {"t_blocks", "data"}, {"t_blocks", "data"},  {"t_blocks", "id"},
    {"t_segments", "info"}, {"t_segments", "info"}, {"t_segments", "id"}, {"t_state", "record"},
    {"t_state", "id"},    {"t_tail", "id"},     {"t_tail", "flush"},   {"t_tail", "row"},
    {"t_tail", "sum"},    {"t_tail", "v0"},     {"t_tail", "v1"},      {"t_tail", "c0"},
    {"t_tail", "c1"},     {"t_tail", "c3"},     {"t_keys", "key"},     {"t_keys", "id"},
    {"t_aux", "id"},      {"t_aux", "a0"},
};

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

std::string blob_literal(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "x'";
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text + "'";
}

// The bytes of a value with something changed.
std::string changed_bytes(Random& random, std::string bytes) {
  const std::size_t size = bytes.size();
  // Headers are where the interesting bytes are.
  const std::size_t at = below(random, random() % 2 == 0 ? std::min<std::size_t>(size, 100) : size);
  switch (below(random, 7)) {
    case 0: bytes.resize(at); break;
    case 1: bytes.append(1 + below(random, 70), static_cast<char>(random())); break;
    case 2: bytes.replace(at, std::min<std::size_t>(8, size - at), std::string(8, '\xff')); break;
    case 3: bytes.replace(at, std::min<std::size_t>(16, size - at), std::string(16, '\0')); break;
    case 4:
      for (char& c : bytes) c = static_cast<char>(random());
      break;
    case 5: bytes.erase(at, 1 + below(random, 8)); break;
    default:
      if (size > 0) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
  }
  return bytes;
}

// SQL that damages one value or row.
std::string random_damage(Random& random, const SqlSession& session) {
  const Place& place = kPlaces[below(random, std::size(kPlaces))];
  const std::string table = place.table, column = place.column;
  const auto ids = session.must_run("SELECT id FROM " + table + " ORDER BY id");
  if (ids.empty()) return "";
  const std::string where = " WHERE id = " + ids[below(random, ids.size())];
  const std::string other = " WHERE id = " + ids[below(random, ids.size())];
  const std::string set = "UPDATE OR REPLACE " + table + " SET " + column + " = ";
  switch (below(random, 12)) {
    case 0: return "DELETE FROM " + table + where;
    case 1: return set + "NULL" + where;
    case 2: return set + std::to_string(static_cast<std::int64_t>(random())) + where;
    case 3: return set + "'some text'" + where;
    case 4: return set + "1.5e300" + where;
    case 5: return set + "(SELECT " + column + " FROM " + table + other + ")" + where;
    case 6: return set + "zeroblob(" + std::to_string(below(random, 200)) + ")" + where;
    default: {
      const auto value = session.must_run("SELECT CAST(" + column + " AS BLOB) FROM " + table + where);
      return set + blob_literal(changed_bytes(random, value[0])) + where;
    }
  }
}

std::string joined(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  return text;
}

void check_queries(const SqlSession& session, const std::vector<std::string>& expected,
                   bool keys_damaged) {
  for (std::size_t i = 0; i < std::size(kQueries); ++i) {
    if (keys_damaged && kQueries[i] == kByKey) continue;
    const SqlResult result = session.run(kQueries[i]);
    INFO(kQueries[i]);
    if (result.ok()) {
      const bool same = joined(result.rows) == expected[i];  // not shown: thousands of rows
      CHECK(same);
    } else {
      CHECK(!result.message.empty());
      CHECK_MESSAGE((result.code & 0xff) != SQLITE_NOMEM, result.message);
    }
  }
}

}  // namespace

TEST_CASE("damaged shadow tables are found or harmless") {
  const SqlSession original(":memory:");
  original.must_run(kSetUp);
  const std::vector<unsigned char> image = original.image();
  std::vector<std::string> expected;
  for (const char* query : kQueries) expected.push_back(joined(original.must_run(query)));
  REQUIRE(original.must_run("SELECT count(*) > 0 FROM t_segments")[0] == "1");
  REQUIRE(original.must_run("SELECT count(*) > 0 FROM t_tail")[0] == "1");

  Random random(20240229);
  int errors = 0;
  for (int i = 0; i < kMutations; ++i) {
    const SqlSession session(image);
    const std::string sql = random_damage(random, session);
    if (sql.empty() || !session.run(sql).ok()) continue;
    INFO("mutation ", i, ": ", sql.substr(0, 300));
    engine::Residency::instance().clear();
    check_queries(session, expected, sql.find(" t_keys ") != std::string::npos);
    if (!session.run("INSERT INTO t(t) VALUES ('integrity-check')").ok()) ++errors;
    // Writing to a damaged table may fail, and must not crash.
    if (i % 5 == 0) session.run("INSERT INTO t(word, e) VALUES ('new', '[1,1,1,1]'); DELETE FROM t WHERE n = 2");
    if (i % 11 == 0) session.run("INSERT INTO t(t) VALUES ('optimize')");
    if (i % 13 == 0) session.run("INSERT INTO t(t) VALUES ('rebuild')");
  }
  CHECK(errors > kMutations / 2);
}

TEST_CASE("integrity-check finds damage to every shadow table") {
  const SqlSession original(":memory:");
  original.must_run(kSetUp);
  const std::vector<unsigned char> image = original.image();
  for (const char* damage :
       {"UPDATE t_blocks SET data = CAST(substr(data, 1, length(data) - 1) AS BLOB) WHERE id = (SELECT max(id) FROM t_blocks)",
        "DELETE FROM t_blocks WHERE id = (SELECT min(id) FROM t_blocks)",
        "DELETE FROM t_segments", "UPDATE t_state SET record = zeroblob(88)", "DELETE FROM t_state",
        "DELETE FROM t_tail WHERE id = (SELECT max(id) FROM t_tail)", "UPDATE t_tail SET row = row + 1",
        "DELETE FROM t_keys WHERE id = (SELECT max(id) FROM t_keys)",
        "UPDATE t_keys SET key = CAST('other' AS BLOB) WHERE id = (SELECT max(id) FROM t_keys)",
        "DELETE FROM t_aux WHERE id = (SELECT max(id) FROM t_aux)"}) {
    SUBCASE(damage) {
      const SqlSession session(image);
      session.must_run("INSERT INTO t(t) VALUES ('integrity-check')");
      session.must_run(damage);
      const SqlResult result = session.run("INSERT INTO t(t) VALUES ('integrity-check')");
      CHECK(!result.ok());
      INFO(result.message);
      CHECK(result.message.find('t') != std::string::npos);
    }
  }
}

}  // namespace warplite::testing
