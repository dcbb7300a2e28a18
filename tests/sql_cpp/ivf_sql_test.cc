// Tables with ivfflat and ivfpq columns as SQL sees them, where a .test file does not reach:
// long work that is interrupted, and what it says of itself.
#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

using Clock = std::chrono::steady_clock;

// `rows` vectors that are not trained yet.
void make_table(const SqlSession& session, int rows, const std::string& index) {
  session.must_run("CREATE VIRTUAL TABLE t USING warp(e INT8[64] index=" + index + ")");
  session.must_run(
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < " +
      std::to_string(rows) +
      ") INSERT INTO t(rowid, e) SELECT x, randomblob(64) FROM c");
}

// Interrupts the statement after a while; returns its result and how long it took to end.
struct Interrupted {
  SqlResult result;
  Clock::duration took{};
};
Interrupted interrupt(const SqlSession& session, const std::string& sql,
                      std::chrono::milliseconds after = std::chrono::milliseconds(30)) {
  Clock::time_point asked;
  std::thread other([&] {
    std::this_thread::sleep_for(after);
    asked = Clock::now();
    sqlite3_interrupt(session.db());
  });
  Interrupted interrupted{session.run(sql), {}};
  const Clock::time_point ended = Clock::now();
  other.join();
  interrupted.took = ended - asked;
  return interrupted;
}

// What is written to stderr while it lasts.
class CapturedErrors {
 public:
  CapturedErrors() : file_(std::tmpfile()), saved_(::dup(2)) {
    std::fflush(stderr);
    ::dup2(::fileno(file_), 2);
  }
  ~CapturedErrors() {
    restore();
    std::fclose(file_);
  }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;

  std::string text() {
    restore();
    std::rewind(file_);
    std::string text(1 << 16, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    std::fflush(stderr);
    ::dup2(saved_, 2);
    ::close(saved_);
    saved_ = -1;
  }

  std::FILE* file_;
  int saved_;
};

}  // namespace

TEST_CASE("training, a graph and k-means end soon when interrupted, and nothing has changed") {
  const SqlSession session(":memory:");
  make_table(session, 20000, "ivfpq(lists=400)");
  for (const std::string sql :
       {"SELECT count(*) FROM warp_knn_graph('t', 'e', 10, '{\"exact\":1}')",
        "SELECT count(*) FROM warp_kmeans('t', 'e', 2000, 50)",
        "INSERT INTO t(t) VALUES ('train')", "INSERT INTO t(t) VALUES ('rebuild')"}) {
    CAPTURE(sql);
    // A table that was never trained is not trained by 'rebuild'.
    if (sql.find("rebuild") != sql.npos) session.must_run("INSERT INTO t(t) VALUES ('train')");
    const Interrupted interrupted = interrupt(session, sql);
    CHECK(interrupted.result.code == SQLITE_INTERRUPT);
    // 50 ms are promised; a machine that runs other things at once may take longer.
    CHECK(interrupted.took < std::chrono::milliseconds(500));
    CHECK(session.must_run("SELECT count(*) FROM t WHERE e MATCH (SELECT e FROM t WHERE rowid = 5) "
                           "AND k = 2")[0] == "2");
    CHECK(session.run("INSERT INTO t(t) VALUES ('integrity-check')").ok());
  }
  CHECK(session.must_run("SELECT count(*) FROM t")[0] == "20000");
}

// Two tables: the rows of both are there before the first one trains.
TEST_CASE("a COMMIT that is interrupted while it trains succeeds, and a later one trains") {
  const SqlSession session(":memory:");
  session.must_run(
      "CREATE VIRTUAL TABLE a USING warp(e INT8[64] index=ivfpq(lists=256, opq=1));"
      "CREATE VIRTUAL TABLE b USING warp(e INT8[64] index=ivfpq(lists=256, opq=1)); BEGIN;"
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000) "
      "INSERT INTO a(rowid, e) SELECT x, randomblob(64) FROM c; "
      "INSERT INTO b(rowid, e) SELECT rowid, e FROM a");
  const Interrupted interrupted = interrupt(session, "COMMIT", std::chrono::milliseconds(200));
  INFO(interrupted.result.message);
  CHECK(interrupted.result.ok());
  CHECK(interrupted.took < std::chrono::milliseconds(500));
  const auto trained = [&](const std::string& table) {
    session.must_run("SELECT * FROM " + table + " WHERE e MATCH zeroblob(64) AND nprobe = 1 AND k = 3");
    return session.must_run("SELECT method FROM warp_explain()")[0] == "approximate index";
  };
  for (const std::string table : {"a", "b"}) {
    CHECK(session.must_run("SELECT count(*) FROM " + table)[0] == "30000");
    CHECK(!trained(table));
    session.must_run("INSERT INTO " + table + "(e) SELECT randomblob(64)");
    session.must_run("INSERT INTO " + table + "(" + table + ") VALUES ('integrity-check')");
  }
}

TEST_CASE("progress is told on stderr, when it is wanted") {
  const SqlSession session(":memory:");
  make_table(session, 500, "ivfflat(lists=8)");
  const auto told = [&](const std::string& setting, const std::string& sql) {
    session.must_run("SELECT warp_config('progress', '" + setting + "')");
    CapturedErrors errors;
    session.must_run(sql);
    const std::string text = errors.text();
    session.must_run("SELECT warp_config('progress', 'off')");
    return text;
  };
  const std::string train = "INSERT INTO t(t) VALUES ('train')";
  CHECK(told("off", train).empty());
  CHECK(told("on", train) == "t.e: training: k-means 1 of 14, 0 %\n");
  CHECK(told("on", "SELECT count(*) FROM warp_knn_graph('t', 'e', 2)") ==
        "t.e: graph: row 500 of 500, 100 %\n");
  CHECK(told("on", "SELECT count(*) FROM warp_kmeans('t', 'e', 2)").find("t.e: ") == 0);
  CHECK(told("off", "INSERT INTO t(t) VALUES ('rebuild')").empty());
  // A table that trains itself tells, too.
  session.must_run("DROP TABLE t");
  const std::string fill =
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000) "
      "INSERT INTO t(e) SELECT randomblob(64) FROM c";
  session.must_run("CREATE VIRTUAL TABLE t USING warp(e INT8[64] index=ivfflat(lists=8))");
  CHECK(told("on", fill).find("t.e: training: k-means 1 of 14") == 0);
}

}  // namespace warplite::testing
