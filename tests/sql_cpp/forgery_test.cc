// Files that somebody made to deceive, and pages of another time: what does not fit together is
// SQLITE_CORRUPT_VTAB, and nothing of one table is taken for another's.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/residency/residency.h"
#include "tests/support/database.h"
#include "tests/support/forgery.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

void refused(const SqlSession& session, const std::string& sql) {
  INFO(sql);
  const SqlResult result = session.run(sql);
  INFO(result.message);
  CHECK(result.code == SQLITE_CORRUPT_VTAB);
  CHECK(result.message.find("internal check") == std::string::npos);
}

void set_stamp(Forgery& table, std::int64_t block, const Stamp& stamp) {
  std::string bytes = table.block(block);
  if (bytes.empty()) return;
  std::memcpy(bytes.data() + kStampAt, &stamp, sizeof stamp);
  table.put_block(block, bytes);
}

// Blocks of one slot of any table, and models of one column, get one stamp.
void share_stamps(Forgery& table) {
  const auto stamp_of = [](std::int64_t block) {
    return Stamp{7, static_cast<std::uint64_t>(block % storage::kSlots) + 1};
  };
  storage::State state = table.state();
  for (std::size_t i = 0; i < state.models.size(); ++i) {
    if (state.models[i].is_null()) continue;
    state.models[i] = {8, i + 1};
    set_stamp(table, static_cast<std::int64_t>(i), state.models[i]);
  }
  const auto share = [&](Stamp& stamp, std::int64_t block) {
    if (stamp.is_null()) return;
    stamp = stamp_of(block);
    set_stamp(table, block, stamp);
  };
  for (storage::SegmentInfo segment : table.segments()) {
    share(segment.rowids, segment.id * storage::kSlots);
    share(segment.alive, segment.id * storage::kSlots + 1);
    for (std::size_t i = 0; i < segment.vectors.size(); ++i) {
      share(segment.vectors[i], table.vectors_id(segment, i));
    }
    for (std::size_t i = 0; i < segment.plains.size(); ++i) {
      share(segment.plains[i], table.plain_id(segment, i));
    }
    for (std::size_t i = 0; i < segment.codes.size(); ++i) {
      share(segment.codes[i].block, table.codes_id(segment, i));
      if (!segment.codes[i].model.is_null()) segment.codes[i].model = state.models[i];
    }
    table.put(segment);
  }
  table.put(state);
  table.settle();
}

std::string fill(const std::string& table, const std::string& columns, int rows,
                 const std::string& values) {
  return "CREATE VIRTUAL TABLE " + table + " USING warp(" + columns +
         "); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " +
         std::to_string(rows) + ") INSERT INTO " + table + "(rowid, e, n, s) SELECT i * 2 + i / 100, " +
         values + " FROM c; INSERT INTO " + table + "(" + table +
         ") VALUES ('optimize'); DELETE FROM " + table + " WHERE rowid % 20 = 0;";
}

const std::vector<std::string>& readings() {
  static const std::vector<std::string> all = {
      "SELECT rowid, hex(e), n, s FROM $ ORDER BY rowid",
      "SELECT rowid, distance FROM $ WHERE e MATCH (SELECT e FROM $ LIMIT 1) AND k = 7",
      "SELECT count(*), sum(n), max(s) FROM $ WHERE s >= 's1' AND n > 3",
      "SELECT rowid FROM $ WHERE rowid BETWEEN 10 AND 40"};
  return all;
}

using Rows = std::vector<std::string>;

Rows read(const SqlSession& session, const std::string& table) {
  Rows rows;
  for (std::string sql : readings()) {
    for (std::size_t at; (at = sql.find('$')) != std::string::npos;) sql.replace(at, 1, table);
    for (const std::string& row : session.must_run(sql)) rows.push_back(row);
  }
  return rows;
}

// The first row that is another one; nothing when all are the same.
std::string difference(const Rows& a, const Rows& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string x = i < a.size() ? a[i] : "no row", y = i < b.size() ? b[i] : "no row";
    if (x != y) return x + " for " + y;
  }
  return "";
}

// A table of three rows in the tail.
void make_tail(const SqlSession& session) {
  session.must_run(
      "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[2], n INTEGER);"
      "INSERT INTO t VALUES (1, '[1,0]', 10), (2, '[2,0]', 20), (3, '[3,0]', 30);");
}

}  // namespace

TEST_CASE("blocks of one stamp that differ in shape are not taken for one another") {
  const std::string plain = "e FLOAT[4], n INTEGER, s TEXT";
  const std::string small = "'[' || i || ',0,0,1]', i, 's' || i";
  struct Case {
    std::string what;
    std::string columns;
    int rows;
    std::string values;
  };
  const Case cases[] = {
      {"more rows", plain, 900, small},
      {"other dimensions", "e FLOAT[16], n INTEGER, s TEXT", 60,
       "'[' || i || ',0,0,1,0,0,0,0,0,0,0,0,0,0,0,' || i || ']', i, 's' || i"},
      {"another element type", "e INT8[4], n INTEGER, s TEXT", 60, small},
      {"another type of column", "e FLOAT[4], n REAL, s TEXT", 60, small},
      {"a dictionary", plain, 900, "'[' || i || ',0,0,1]', i % 3, 's' || (i % 3)"},
      {"other codes", "e FLOAT[4] index=ivfflat(lists=16), n INTEGER, s TEXT", 1200, small},
      {"codes of RaBitQ", "e FLOAT[4] index=ivfrabitq(lists=2, bits=1), n INTEGER, s TEXT", 60, small},
      {"another kind of index", "e FLOAT[4] index=lsh(m=8), n INTEGER, s TEXT", 900, small},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    const SqlSession session(":memory:");
    session.must_run(fill("a", "e FLOAT[4] index=ivfflat(lists=2), n INTEGER, s TEXT", 60, small));
    session.must_run(fill("b", one.columns, one.rows, one.values));
    session.must_run("INSERT INTO a(a) VALUES ('train')");
    session.run("INSERT INTO b(b) VALUES ('train')");
    const auto a = read(session, "a"), b = read(session, "b");
    for (const char* name : {"a", "b"}) {
      Forgery forgery(session.db(), name);
      share_stamps(forgery);
    }
    // Another connection to those bytes, which finds nothing in memory.
    const SqlSession first(session.image());
    CHECK(difference(read(first, "a"), a) == "");
    CHECK(difference(read(first, "b"), b) == "");
    const SqlSession second(session.image());
    CHECK(difference(read(second, "b"), b) == "");
    CHECK(difference(read(second, "a"), a) == "");
  }
}

TEST_CASE("models of one stamp that differ: what is in memory of one is not read as the other's") {
  for (const std::string kind : {"ivfpq(m=2)", "ivfrabitq(bits=7)"}) {
    CAPTURE(kind);
    const TemporaryFile file;  // whose blocks are known again by other connections
    const auto make = [&](const std::string& table, const std::string& element) {
      const std::string values = "'[' || " + element + " || ',0,0,1]', i, 's' || i";
      SqlSession(file.path())
          .must_run(fill(table, "e FLOAT[4] index=" + kind + ", n INTEGER, s TEXT", 640, values));
      // Two runs (32 segments from the 33rd on make one, as their number is no multiple of more), of which
      // one may go from memory before the model does, and one after it.
      const SqlSession session(file.path());
      Forgery forgery(session.db(), table);
      const auto go_on_at = [&](std::int64_t segment) {
        storage::State state = forgery.state();
        state.next_segment = segment;
        forgery.put(state);
      };
      go_on_at(33);
      SqlSession(file.path()).must_run("INSERT INTO " + table + "(" + table + ") VALUES ('rebuild')");
      go_on_at(65);
      const SqlSession later(file.path());
      later.must_run("INSERT INTO " + table + "(rowid, e, n, s) SELECT t.rowid + 10000 * value, e, n, s FROM " +
                     table + " t, json_each('[1,2,3,4,5,6,7,8,9]'); INSERT INTO " + table + "(" +
                     table + ") VALUES ('train')");
      REQUIRE(forgery.segments().size() == 2);
      share_stamps(forgery);
    };
    make("a", "i");
    make("b", "(i % 3)");
    engine::Residency& memory = engine::Residency::instance();
    // In so few lists that to compare every row is no quicker.
    const auto search = [](const SqlSession& session, const std::string& table) {
      return session.run("SELECT rowid FROM warp_knn_search('" + table +
                         "', 'e', '[9,0,0,1]', 5, '{\"nprobe\":16}')");
    };
    int refusals = 0;
    for (const std::string first : {"a", "b"}) {
      for (int passes = 0; passes < 6; ++passes) {
        for (int i = 0; i < 2; ++i) memory.clear();  // what holds a model goes before it
        const SqlSession session(file.path());
        CHECK(search(session, first).ok());
        for (int i = 0; i < passes && memory.used() > 1; ++i) memory.set_limit(memory.used() - 1);
        memory.set_limit(0);
        const SqlResult result = search(session, first == "a" ? "b" : "a");
        CHECK((result.ok() || result.code == SQLITE_CORRUPT_VTAB));
        refusals += result.message.find("of another model") != std::string::npos ? 1 : 0;
      }
    }
    CHECK(refusals > 0);
  }
}

TEST_CASE("two databases with the same stamps keep to themselves") {
  const SqlSession original(":memory:");
  original.must_run(fill("a", "e FLOAT[4], n INTEGER, s TEXT", 60, "'[1,2,3,4]', i, 's' || i"));
  const auto expected = read(original, "a");
  const SqlSession copy(original.image());
  Forgery forgery(copy.db(), "a");
  const storage::SegmentInfo segment = forgery.segments().at(0);
  std::string bytes = forgery.block(forgery.plain_id(segment, 1));
  REQUIRE(bytes.find("s11") != std::string::npos);
  bytes.replace(bytes.find("s11"), 3, "XXX");
  forgery.put_block(forgery.plain_id(segment, 1), bytes);
  CHECK(copy.must_run("SELECT count(*) FROM a WHERE s LIKE '%XXX%'")[0] == "1");
  CHECK(difference(read(original, "a"), expected) == "");
}

TEST_CASE("a tail of another time is noticed, and not made permanent") {
  const SqlSession original(":memory:");
  make_tail(original);
  original.must_run(
      "CREATE TABLE saved AS SELECT * FROM t_tail; UPDATE t SET n = n + 1 WHERE id > 1;");
  for (const char* damage :
       {"DELETE FROM t_tail; INSERT INTO t_tail SELECT * FROM saved",
        "REPLACE INTO t_tail SELECT * FROM saved WHERE id = 2; DELETE FROM t_tail WHERE id = 4",
        "DELETE FROM t_tail WHERE id = 5", "DELETE FROM t_tail"}) {
    CAPTURE(damage);
    const SqlSession session(original.image());
    session.must_run("SELECT * FROM t");
    session.must_run(damage);
    const SqlSession later(session.image());
    refused(later, "SELECT * FROM t");
    refused(later, "UPDATE t SET n = 0 WHERE id = 1");
    refused(later, "INSERT INTO t(t) VALUES ('optimize')");
    refused(later, "INSERT INTO t(t) VALUES ('integrity-check')");
    refused(later, "SELECT * FROM t");
  }
}

TEST_CASE("a state record from before the tail had a digest is believed, and gets one") {
  const SqlSession session(":memory:");
  make_tail(session);
  Forgery forgery(session.db(), "t");
  storage::State state = forgery.state();
  CHECK(state.tail_digest.value_or(0) != 0);
  state.tail_digest.reset();
  forgery.put(state);
  const SqlSession later(session.image());
  CHECK(later.must_run("SELECT sum(n) FROM t")[0] == "60");
  later.must_run("INSERT INTO t(t) VALUES ('integrity-check')");
  later.must_run("UPDATE t SET n = n + 1 WHERE id = 2");
  CHECK(Forgery(later.db(), "t").state().tail_digest.has_value());
  later.must_run("INSERT INTO t(t) VALUES ('integrity-check')");
  const SqlSession last(later.image());
  CHECK(last.must_run("SELECT sum(n) FROM t")[0] == "61");
}

TEST_CASE("counters of the state record that do not fit the rows are refused") {
  const SqlSession original(":memory:");
  make_tail(original);
  original.must_run(fill("sealed", "e FLOAT[4], n INTEGER, s TEXT", 60, "'[1,2,3,4]', i, 's' || i"));
  const auto changed = [&](const char* table, const auto& change) {
    const SqlSession session(original.image());
    Forgery forgery(session.db(), table);
    storage::State state = forgery.state();
    change(state);
    forgery.put(state);
    const SqlSession later(session.image());
    const std::string name = table;
    refused(later, "UPDATE " + name + " SET n = n + 1");
    refused(later, "UPDATE " + name + " SET n = n + 1");
    refused(later, "SELECT * FROM " + name);
    refused(later, "INSERT INTO " + name + "(" + name + ") VALUES ('optimize')");
  };
  changed("t", [](storage::State& state) { state.last_sequence = 2, state.tail_rows = 2; });
  changed("t", [](storage::State& state) { state.last_sequence = INT64_MAX; });
  changed("t", [](storage::State& state) { state.tail_rows = 2; });
  changed("t", [](storage::State& state) { state.tail_rows = 1 << 20, state.last_sequence = 1 << 21; });
  changed("t", [](storage::State& state) { state.last_flush = new_stamp(); });
  changed("sealed", [](storage::State& state) { state.next_segment = 1; });
  changed("sealed", [](storage::State& state) { state.directory.segments = 0; });
}

TEST_CASE("a row that is alive twice is refused when segments are merged") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[2]);"
                   "INSERT INTO t VALUES (1, '[1,0]'), (2, '[2,0]');"
                   "INSERT INTO t(t) VALUES ('optimize'); INSERT INTO t VALUES (3, '[3,0]');");
  Forgery forgery(session.db(), "t");
  REQUIRE(forgery.segments().size() == 1);
  REQUIRE(forgery.tail_ids().size() == 1);
  forgery.change_tail(forgery.tail_ids()[0], "row = 2");
  forgery.settle();
  const SqlSession later(session.image());
  refused(later, "INSERT INTO t(t) VALUES ('rebuild')");
}

TEST_CASE("a key that is not the row's is not believed") {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE t USING warp(word TEXT PRIMARY KEY, e FLOAT[2]);"
                   "INSERT INTO t VALUES ('a', '[1,0]'), ('b', '[2,0]'), ('c', '[3,0]');"
                   "DELETE FROM t_keys WHERE key = CAST('a' AS BLOB);"
                   "UPDATE t_keys SET key = CAST('a' AS BLOB) WHERE key = CAST('b' AS BLOB)");
  refused(session, "SELECT rowid FROM t WHERE word = 'a'");
  refused(session, "UPDATE t SET e = '[9,9]' WHERE word = 'a'");
  CHECK(session.must_run("SELECT rowid FROM t WHERE word = 'c'").size() == 1);
}

}  // namespace warplite::testing
