// What no file has any more leaves memory, a GPU's too, and what a file has stays when connections go.
#include <doctest/doctest.h>

#include <string>

#include "engine/residency/residency.h"
#include "tests/support/database.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/sql_session.h"

namespace warplite::engine {
namespace {

using testing::FakeGpus;
using testing::SqlSession;
using testing::TemporaryFile;

constexpr std::size_t kRows = 20000, kStride = 64;
constexpr std::size_t kVectors = kRows * kStride;
constexpr std::size_t kBeside = kVectors / 2;  // rowids, which rows are alive, and the like

std::size_t used() { return Residency::instance().used(); }

// The vectors of a table of its own in memory, and nothing else of the cache.
class Table {
 public:
  explicit Table(const SqlSession& session, const std::string& index = "") : session_(session) {
    Residency::instance().clear();
    before_ = used();
    session.must_run("CREATE VIRTUAL TABLE t USING warp(e INT8[64]" + index + ", y INTEGER)");
    session.must_run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
                     std::to_string(kRows) + ") INSERT INTO t SELECT randomblob(64), i FROM n");
    search(session);
  }

  static void search(const SqlSession& session) {
    CHECK(session.must_run("SELECT rowid FROM t WHERE e MATCH zeroblob(64) AND k = 5").size() == 5);
    CHECK(session.must_run("SELECT rowid FROM warp_knn_search('t', 'e', zeroblob(64), 5, "
                           "'{\"exact\":1}')").size() == 5);
    session.must_run("SELECT count(*) FROM t WHERE y > 10");
  }
  void replace() const { session_.must_run("UPDATE t SET e = randomblob(64), y = y + 1"); }
  std::size_t bytes() const { return used() - before_; }
  bool has_one_version() const { return bytes() >= kVectors && bytes() <= kVectors + kBeside; }

 private:
  const SqlSession& session_;
  std::size_t before_ = 0;
};

}  // namespace

TEST_CASE("vectors of replaced and deleted rows leave memory") {
  const TemporaryFile file;
  const SqlSession session(file.path());
  const Table table(session);
  CHECK(table.has_one_version());
  for (int round = 0; round < 3; ++round) {
    table.replace();
    Table::search(session);
    CHECK(table.has_one_version());
  }
  session.must_run("DELETE FROM t WHERE rowid % 10 <> 0; INSERT INTO t(t) VALUES ('optimize')");
  Table::search(session);
  CHECK(table.bytes() <= kVectors / 4);
  session.must_run("DELETE FROM t");
  CHECK(table.bytes() <= kBeside / 10);
}

TEST_CASE("codes and postings of replaced rows leave memory with them") {
  for (const char* index : {" index=ivfrabitq(lists=8)", " index=lsh"}) {
    CAPTURE(index);
    const TemporaryFile file;
    const SqlSession session(file.path());
    const Table table(session, index);
    const std::size_t first = table.bytes();
    for (int round = 0; round < 3; ++round) {
      table.replace();
      Table::search(session);
      CHECK(table.bytes() <= first + first / 4);
    }
  }
}

TEST_CASE("what a transaction wrote leaves memory when it is rolled back") {
  const TemporaryFile file;
  const SqlSession session(file.path());
  const Table table(session);
  session.must_run("BEGIN");
  table.replace();
  session.must_run("INSERT INTO t(t) VALUES ('optimize')");
  Table::search(session);
  CHECK(table.bytes() >= 2 * kVectors);  // a rollback finds what it needs
  session.must_run("SAVEPOINT s");
  table.replace();
  session.must_run("INSERT INTO t(t) VALUES ('optimize')");
  Table::search(session);
  session.must_run("ROLLBACK TO s");
  CHECK(table.bytes() <= 2 * (kVectors + kBeside));
  session.must_run("ROLLBACK");
  CHECK(table.has_one_version());
  Table::search(session);
  CHECK(table.has_one_version());
}

TEST_CASE("an older version that somebody reads leaves memory when nobody does any more") {
  const TemporaryFile file;
  const SqlSession writer(file.path());
  writer.must_run("PRAGMA journal_mode = wal");
  const Table table(writer);
  {
    const SqlSession reader(file.path()), idle(file.path());
    Table::search(idle);
    reader.must_run("BEGIN");
    const auto before = reader.must_run("SELECT rowid, distance FROM t WHERE e MATCH zeroblob(64) AND k = 9");
    table.replace();
    Table::search(writer);
    CHECK(table.has_one_version());
    // It reads what it needs again.
    CHECK(reader.must_run("SELECT rowid, distance FROM t WHERE e MATCH zeroblob(64) AND k = 9") == before);
    CHECK(table.bytes() >= 2 * kVectors);
    reader.must_run("COMMIT");
  }
  CHECK(table.has_one_version());
}

TEST_CASE("who begins to read an older version leaves nothing of it behind") {
  const TemporaryFile file;
  const SqlSession writer(file.path());
  writer.must_run("PRAGMA journal_mode = wal");
  const Table table(writer);
  {
    const SqlSession reader(file.path());
    reader.must_run("BEGIN; SELECT count(*) FROM sqlite_schema");
    table.replace();
    Table::search(writer);
    Table::search(reader);
  }
  CHECK(table.has_one_version());
}

TEST_CASE("a table that was dropped leaves memory, and what others still read of it later") {
  const TemporaryFile file;
  const SqlSession writer(file.path());
  writer.must_run("PRAGMA journal_mode = wal");
  const Table table(writer);
  {
    const SqlSession reader(file.path());
    reader.must_run("BEGIN");
    Table::search(reader);
    writer.must_run("DROP TABLE t");
    Table::search(reader);
    CHECK(table.bytes() >= kVectors);
  }
  CHECK(table.bytes() == 0);
}

TEST_CASE("another connection's commit is seen by a search") {
  const TemporaryFile file;
  const SqlSession a(file.path()), b(file.path());
  const Table table(a);
  Table::search(b);
  b.must_run("UPDATE t SET e = randomblob(64)");
  Table::search(a);
  Table::search(b);
  CHECK(table.has_one_version());
}

TEST_CASE("what a file has stays for the next connection, what no file has goes with its own") {
  const TemporaryFile file;
  {
    const SqlSession session(file.path());
    const Table table(session);
  }
  const std::size_t warm = used();
  Table::search(SqlSession(file.path()));
  CHECK(used() == warm);
  Residency::instance().clear();
  const std::size_t before = used();
  {
    const SqlSession session(":memory:");
    const Table table(session);
    CHECK(table.has_one_version());
  }
  CHECK(used() <= before);
}

TEST_CASE("copies of replaced rows leave the memory of GPUs") {
  FakeGpus gpus(2);
  gpus.start();
  const TemporaryFile file;
  const SqlSession session(file.path());
  const Table table(session);
  const auto held = [&] {
    std::size_t bytes = 0;
    for (const Residency::Entry& entry : Residency::instance().entries()) {
      if (entry.device != "cpu") bytes += entry.bytes;
    }
    return bytes;
  };
  const auto ask = [&] {
    for (const char* gpu : {"gpu:0", "gpu:1"}) {
      session.must_run("SELECT rowid FROM warp_knn_search('t', 'e', zeroblob(64), 5, '{\"device\":\"" +
                       std::string(gpu) + "\"}')");
    }
  };
  ask();
  const std::size_t first = held();
  CHECK(first >= kVectors);
  for (int round = 0; round < 3; ++round) {
    table.replace();
    ask();
    CHECK(held() <= first + kStride);
  }
}

}  // namespace warplite::engine
