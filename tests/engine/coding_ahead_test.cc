// Rows of a long transaction are coded by other threads before they are flushed: the table holds
// what it would if this thread had done it, whatever becomes of the rows meanwhile. GPUs are fakes.
#include <random>
#include <string>

#include "engine/residency/residency.h"
#include "tests/support/fakes/failing_allocator.h"
#include "tests/support/fakes/fake_gpus.h"
#include "tests/support/ivf_fixture.h"
#include "tests/support/ivf_table.h"
#include "tests/support/sql_session.h"

namespace warplite::engine {
namespace {

using testing::FakeGpus;
using testing::RestoreThreads;

constexpr int kSegmentRows = 32;

TableOptions options_of(bool codes_only) {
  TableOptions options = ivf_options(kSegmentRows);
  options.layout.codes_only = codes_only;
  options.vectors = {{"a", Distance::kL2, {"ivfpq", {{"lists", "4"}, {"m", "4"}}}},
                     {"b", Distance::kCosine, {"ivfrabitq", {{"lists", "3"}, {"bits", "3"}}}},
                     {"c", Distance::kL2, {"ivfrabitq", {{"lists", "4"}, {"bits", "7"}}}}};
  return options;
}

// A trained table, and a transaction that goes on.
class Load {
 public:
  explicit Load(bool codes_only, unsigned seed = 5)
      : session(file_.path(), options_of(codes_only), true), random_(seed) {
    session.begin();
    session.insert_many(random_, 300);
    session.train();
    session.commit();
    session.begin();
  }

  void insert(int rows) { session.insert_many(random_, rows); }

  void statement() {
    const int action = pick(20);
    if (action < 12) return insert(pick(3) == 0 ? 2 * kSegmentRows : pick(kSegmentRows));
    if (action < 14) return erase();
    if (action < 15) return session.update(random_, newest());
    if (action < 17) return savepoint();
    if (action < 19) return rollback_to();
    session.commit();
    savepoints_ = 0;
    session.begin();
  }

  // What the table holds in the end.
  Contents finish() {
    session.commit();
    for (std::size_t column = 0; column < 3; ++column) {
      CHECK(uncoded_rows(session, column) < kSegmentRows / 8);  // small segments without vectors
    }
    check_integrity(session);
    session.reopen();
    return contents_of(*session.table().view());
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  // One of the rows that may be being coded.
  RowId newest() { return *session.table().view()->max_rowid() - pick(2 * kSegmentRows); }
  void erase() {
    for (int n = pick(4); n >= 0; --n) session.table().erase(newest());
  }
  void savepoint() {
    session.db().run("SAVEPOINT s" + std::to_string(savepoints_));
    session.table().savepoint(savepoints_++);
  }
  void rollback_to() {
    if (savepoints_ == 0) return;
    const int n = pick(savepoints_);
    session.db().run("ROLLBACK TO s" + std::to_string(n));
    session.table().rollback_to(n);
    savepoints_ = n + 1;
  }

  TemporaryFile file_;

 public:
  IvfSession session;

 private:
  std::mt19937 random_;
  int savepoints_ = 0;
};

Contents after_statements(unsigned threads, bool codes_only, unsigned seed) {
  compute::set_thread_count(threads);
  Load load(codes_only, seed);
  for (int i = 0; i < 40; ++i) load.statement();
  return load.finish();
}

TEST_CASE("rows that are coded ahead are those that one thread would have coded") {
  const RestoreThreads restore;
  for (const bool codes_only : {false, true}) {
    for (unsigned seed = 1; seed <= 12; ++seed) {
      CAPTURE(codes_only);
      CAPTURE(seed);
      const Contents expected = after_statements(1, codes_only, seed);
      CHECK(expected.size() > 300);
      CHECK(after_statements(3, codes_only, seed) == expected);
    }
  }
}

TEST_CASE("the last rows of a load are coded before they are written, too") {
  const RestoreThreads restore;
  compute::set_thread_count(3);
  for (const bool codes_only : {false, true}) {
    for (const int rows : {kSegmentRows / 2, kSegmentRows + 5, 7 * kSegmentRows / 2}) {
      CAPTURE(codes_only);
      CAPTURE(rows);
      Load load(codes_only);
      load.insert(rows);
      load.session.table().write();
      const bool load_of_many = rows > kSegmentRows;
      for (std::size_t column = 0; column < 3; ++column) {
        CHECK((uncoded_rows(load.session, column) == 0) == load_of_many);
      }
      load.finish();
    }
  }
}

TEST_CASE("rows are inserted while others wait for a device that codes them") {
  const RestoreThreads restore;
  compute::set_thread_count(3);
  FakeGpus gpus(1);
  gpus.start();
  Load load(true);
  Residency::instance().clear();
  gpus[0].uploads_pass.close();  // of centroids
  const std::size_t operations = gpus[0].operations;
  load.insert(2 * kSegmentRows + 1);
  CHECK(gpus[0].operations == operations);
  gpus[0].uploads_pass.open();
  load.insert(3 * kSegmentRows);
  CHECK(gpus[0].operations > operations);
  load.finish();
}

TEST_CASE("rows are coded whatever becomes of the device that codes them ahead") {
  const RestoreThreads restore;
  compute::set_thread_count(3);
  Contents expected;
  for (const ErrorKind failure : {ErrorKind::kNoMemory, ErrorKind::kDevice}) {
    for (const int failures : {0, 1, 5}) {
      FakeGpus gpus(3);
      gpus.start();
      Load load(true);
      gpus[1].failure = failure;
      gpus[1].dies = true;
      gpus[1].fail_searches = failures;
      load.insert(12 * kSegmentRows);
      const Contents contents = load.finish();
      if (expected.empty()) expected = contents;
      CHECK(contents == expected);
      for (std::size_t i = 0; i < 3; ++i) CHECK(gpus[i].operations > 0);
    }
  }
}

TEST_CASE("a load that is interrupted, or given up, ends what is coded ahead of it") {
  const RestoreThreads restore;
  compute::set_thread_count(3);
  for (const bool codes_only : {false, true}) {
    for (int questions = 0; questions < 4; ++questions) {
      Load load(codes_only);
      const Contents before = contents_of(*load.session.table().view());
      load.insert(2 * kSegmentRows + 5);
      EndsAfter cancellation(questions);
      const auto write = [&] {
        std::mt19937 random(1);
        for (int i = 0; i < 4 * kSegmentRows; ++i) {
          const TestRow row = load.session.random_row(random);
          const BorrowedRow borrowed(load.session.table().options().layout, row, std::nullopt);
          load.session.table().insert(borrowed.get(), OnConflict::kAbort, &cancellation);
        }
      };
      try {
        write();
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kInterrupted);
      }
      load.session.rollback();
      CHECK(contents_of(*load.session.table().view()) == before);
      load.session.begin();
      load.insert(3 * kSegmentRows);
      load.finish();
    }
    Load given_up(codes_only);
    given_up.insert(2 * kSegmentRows);  // and closed
  }
}

// SQLite takes a transaction back when it has no memory for a statement of ours in it.
TEST_CASE("a load whose model cannot be read for want of memory keeps all rows of a statement or none") {
  const RestoreThreads restore;
  compute::set_thread_count(3);
  const testing::SqlSession session(":memory:");
  const auto rows = [](int first, int count) {
    return "WITH RECURSIVE c(x) AS (SELECT " + std::to_string(first) +
           " UNION ALL SELECT x + 1 FROM c LIMIT " + std::to_string(count) +
           ") INSERT INTO v(rowid, e) SELECT x, zeroblob(4096) FROM c";
  };
  session.must_run("CREATE VIRTUAL TABLE v USING warp(e FLOAT[1024] index=ivfflat(lists=2))");
  session.must_run(rows(1, 100));  // of 1,024 that make a chunk
  session.must_run("INSERT INTO v(v) VALUES ('train')");
  bool fired = true;
  for (long nth = 0; fired; ++nth) {
    CAPTURE(nth);
    Residency::instance().clear();
    session.must_run("BEGIN");
    session.must_run(rows(1001, 1010));
    {
      const testing::AllocationFault fault(testing::Allocator::kSqlite, nth, false);
      session.run(rows(3001, 40));
      fired = fault.fired();
    }
    session.run("COMMIT");
    const std::string count = session.must_run("SELECT count(*) FROM v").front();
    CHECK((count == "100" || count == "1110" || count == "1150"));
    session.must_run("INSERT INTO v(v) VALUES ('integrity-check')");
    session.must_run("DELETE FROM v WHERE rowid > 1000");
  }
}

}  // namespace
}  // namespace warplite::engine
