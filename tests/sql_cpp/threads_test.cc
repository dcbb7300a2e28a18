// Several threads, each with its own connection to one file: the process-wide caches and the
// worker threads are shared, snapshots are not.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "tests/support/database.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kRows = 1500;

// Every transaction gives all rows one new version, in their vectors, filters and notes.
void write_versions(const std::string& path, int versions, std::atomic<bool>& done) {
  const SqlSession session(path);
  session.must_run("PRAGMA busy_timeout = 30000");
  for (int version = 1; version <= versions; ++version) {
    const std::string v = std::to_string(version);
    session.must_run("BEGIN IMMEDIATE; UPDATE t SET e = '[' || id || ',' || " + v + " || ']', v = " + v +
                     ", note = 'n" + v + "';" +
                     (version % 5 == 0 ? "INSERT INTO t(t) VALUES ('optimize');" : "") + "COMMIT");
  }
  done = true;
}

// "" or what a snapshot showed that no transaction wrote.
std::string snapshot_fault(const SqlSession& session) {
  session.must_run("BEGIN");
  const auto scan = session.must_run("SELECT count(*), count(DISTINCT v), max(v), count(DISTINCT note) FROM t");
  const auto version = session.must_run("SELECT max(v) FROM t")[0];
  const auto hits = session.must_run("SELECT count(*), count(DISTINCT v), min(distance) FROM t WHERE e MATCH '[1," +
                                     version + "]' AND k = 100");
  const auto again = session.must_run("SELECT count(*), count(DISTINCT v), max(v), count(DISTINCT note) FROM t");
  session.must_run("COMMIT");
  if (scan[0] != std::to_string(kRows) + "|1|" + version + "|1") return "scan: " + scan[0];
  if (hits[0] != "100|1|0.0") return "search: " + hits[0] + " at version " + version;
  if (again != scan) return "the snapshot moved: " + again[0];
  return "";
}

// Rows come and go that are as near to the query as a row can be.
void write_near_rows(const std::string& path, int commits, std::atomic<bool>& done) {
  const SqlSession session(path);
  session.must_run("PRAGMA busy_timeout = 30000");
  for (int i = 0; i < commits; ++i) {
    session.must_run("INSERT INTO t(e, v) SELECT e, v FROM t WHERE id = 5");
    if (i % 7 == 6) session.must_run("DELETE FROM t WHERE id = (SELECT max(id) FROM t)");
    if (i % 11 == 10) session.must_run("DELETE FROM t WHERE id = " + std::to_string(100 + i));
  }
  done = true;
}

double milliseconds_of(const SqlSession& session, const std::string& sql) {
  const auto begin = std::chrono::steady_clock::now();
  session.must_run(sql);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  return time.count();
}

// Milliseconds of `n` searches, one after the other, the shortest first.
std::vector<double> search_times(const SqlSession& session, std::size_t n) {
  std::vector<double> times;
  for (std::size_t i = 0; i < n; ++i) {
    times.push_back(milliseconds_of(session, "SELECT id FROM t WHERE e MATCH randomblob(512) AND k = 10"));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// What nine of ten take no longer than.
double slow_one(const std::vector<double>& times) { return times[times.size() * 9 / 10]; }

// "" or how a search and a comparison of every row of one snapshot differ. Searches differ in what makes a
// pass of several hard to get right: k, a filter, a range.
std::string search_fault(const SqlSession& session, int number) {
  const std::string query = "(SELECT e FROM t WHERE id = 5)";
  const std::string distance = "vec_distance_l2(e, " + query + ")", one = std::to_string(number % 5);
  const std::string limit = std::to_string(number % 3 * 150 + 3), radius = std::to_string(2200 + number % 60);
  const bool within = number % 4 == 1;
  const std::string filter = number % 4 == 3 ? " AND v <> " + one : "";
  const std::string search = within ? " AND distance <= " + radius + " ORDER BY distance, id" : " AND k = " + limit;
  const std::string scan = (within ? " WHERE " + distance + " <= " + radius : " WHERE true" + filter) +
                           " ORDER BY " + distance + ", id" + (within ? "" : " LIMIT " + limit);
  session.must_run("BEGIN");
  const auto found = session.must_run("SELECT id FROM t WHERE e MATCH " + query + filter + search);
  const auto truth = session.must_run("SELECT id FROM t" + scan);
  session.must_run("COMMIT");
  return found == truth ? "" : search + filter + ": other rows than the nearest";
}

}  // namespace

// So many bytes that searches of several threads share a pass (compute/devices/gatherer.h).
TEST_CASE("threads that search at once beside a writer each find what their own snapshot has") {
  const TemporaryFile file;
  {
    const SqlSession session(file.path());
    session.must_run("PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
                     "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e INT8[512], v INTEGER);"
                     "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 12000) "
                     "INSERT INTO t SELECT x, randomblob(512), x % 5 FROM c");
  }
  std::atomic<bool> done{false};
  std::vector<std::string> faults(6);
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    readers.emplace_back([&, i] {
      try {
        const SqlSession session(file.path());
        session.must_run("PRAGMA busy_timeout = 30000");
        for (int n = 0; faults[i].empty() && (!done || n < 5); ++n) {
          faults[i] = search_fault(session, n + 7 * static_cast<int>(i));
        }
      } catch (const std::exception& error) {
        faults[i] = error.what();
      }
    });
  }
  write_near_rows(file.path(), 150, done);
  for (std::thread& reader : readers) reader.join();
  for (const std::string& fault : faults) CHECK(fault == "");
}

// A join has all cores for as long as it takes; a search takes its share of them, and waits for no lock that
// a join holds, and for no pass over the rows that a join makes.
TEST_CASE("threads that join thousands of queries hold up no search beside them") {
  const TemporaryFile file;
  const SqlSession session(file.path());
  session.must_run("PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
                   "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e INT8[512]);"
                   "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 12000) "
                   "INSERT INTO t SELECT x, randomblob(512) FROM c");
  search_times(session, 5);
  // Most of it is what a busy machine and its scheduler take; sanitizers make a search itself slow.
  const double bound = std::max(20.0, 10 * slow_one(search_times(session, 20)));
  const std::vector<std::string> joins{
      "SELECT length(rowids) FROM warp_knn_arrays('t', 'e', randomblob(512 * 8000), 10)",
      "SELECT count(*) FROM warp_knn_join('t', 'e', 'SELECT id, e FROM t', 10)"};
  for (const std::string& join : joins) {
    std::atomic<bool> begun{false}, done{false};
    double shortest = 1e9;  // of the joins
    std::thread other([&] {
      const SqlSession mine(file.path());
      while (!done) {
        begun = true;
        shortest = std::min(shortest, milliseconds_of(mine, join));
      }
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::vector<double> beside = search_times(session, 40);
    done = true;
    other.join();
    INFO(join, ": ", shortest, " ms; searches beside it: ", slow_one(beside), " to ", beside.back(), " ms");
    CHECK(slow_one(beside) < bound);
    WARN(shortest > 2 * bound);  // or this says little
    // A join that holds a lock as long as it takes holds up one search, maybe, but that one until it ends.
    CHECK(beside.back() < std::max(bound, shortest / 3));
  }
}

// A connection that comes while another one writes, and begins a transaction that is to write, waits for it.
TEST_CASE("the first write of a connection waits for another writer") {
  std::string directory = (fs::temp_directory_path() / "warplite-waits-XXXXXX").string();
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  const std::string path = directory + "/test.db";
  const SqlSession writer(path);
  writer.must_run("CREATE TABLE c(id INTEGER PRIMARY KEY, e);"
                  "CREATE VIRTUAL TABLE i USING warp(id INTEGER PRIMARY KEY, e FLOAT[1], content=c);"
                  "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[1]); INSERT INTO t VALUES (1, '[1]')");
  const auto end_the_other = [](void* other, int times) -> int {
    static_cast<const SqlSession*>(other)->must_run("COMMIT");
    return times == 0 ? 1 : 0;
  };
  for (const std::string mode : {"delete", "wal"}) {
    writer.must_run("PRAGMA journal_mode = " + mode);
    for (const std::string write :
         {"INSERT INTO t(e) VALUES ('[2]')", "UPDATE t SET e = '[3]' WHERE id = 1", "DELETE FROM t WHERE id = 2",
          "INSERT INTO c(e) VALUES ('[4]')", "INSERT INTO t(t) VALUES ('optimize')"}) {
      INFO(mode, ": ", write);
      writer.must_run("BEGIN IMMEDIATE; INSERT INTO t(e) VALUES ('[5]')");
      const SqlSession late(path);
      sqlite3_busy_handler(late.db(), end_the_other, const_cast<SqlSession*>(&writer));
      late.must_run("BEGIN");
      late.must_run(write);
      late.must_run("COMMIT");
    }
  }
  CHECK(writer.must_run("SELECT count(*) FROM t") == std::vector<std::string>{"12"});
  fs::remove_all(directory);
}

TEST_CASE("threads with their own connections see whole snapshots") {
  std::string directory = (fs::temp_directory_path() / "warplite-threads-XXXXXX").string();
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  const std::string path = directory + "/test.db";
  {
    const SqlSession session(path);
    session.must_run("PRAGMA journal_mode = wal; PRAGMA synchronous = off;"
                     "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[2], v INTEGER, +note);"
                     "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < " +
                     std::to_string(kRows) + ") INSERT INTO t SELECT x, '[' || x || ',0]', 0, 'n0' FROM c");
  }
  std::atomic<bool> done{false};
  std::vector<std::string> faults(3);
  std::vector<int> looks(3);
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    readers.emplace_back([&, i] {
      try {
        const SqlSession session(path);
        session.must_run("PRAGMA busy_timeout = 30000");
        while (!done && faults[i].empty()) {
          faults[i] = snapshot_fault(session);
          ++looks[i];
        }
      } catch (const std::exception& error) {
        faults[i] = error.what();
      }
    });
  }
  write_versions(path, 25, done);
  for (std::thread& reader : readers) reader.join();
  for (std::size_t i = 0; i < faults.size(); ++i) {
    CHECK(faults[i] == "");
    CHECK(looks[i] > 0);
  }
  fs::remove_all(directory);
}

}  // namespace warplite::testing
