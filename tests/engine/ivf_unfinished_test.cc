// What the end of a transaction leaves to the next one of an index that learns, and of codes: since
// it was interrupted, or since rows that are there are damaged. Its rows are written all the same.
#include <random>
#include <string>

#include "engine/residency/residency.h"
#include "engine/training/time_limit.h"
#include "tests/support/ivf_fixture.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using Session = IvfSession;

// The first column with 16 lists: enough rows for them come in one transaction.
TableOptions options_that_train(bool codes_only) {
  TableOptions options = ivf_options();
  options.vectors[0].index = {"ivfpq", {{"lists", "16"}, {"m", "4"}}};
  options.layout.codes_only = codes_only;
  if (!codes_only) return options;
  for (auto& column : options.vectors) column.index = {"ivfpq", {{"lists", "16"}, {"m", "4"}}};
  return options;
}

// Ends the end of a transaction, and says whether that left rows without codes. What is left is
// done by the next one.
template <typename Cancellation>
bool leaves_rows_uncoded(bool codes_only, Cancellation& cancellation,
                         const index::Progress& progress) {
  TemporaryFile file;
  Session session(file.path(), options_that_train(codes_only), true);
  std::mt19937 random(7);
  session.begin();
  session.insert_many(random, 1500);
  session.table().sync(&cancellation, progress);
  session.db().run("COMMIT");
  session.table().commit();
  const bool waits = !session.table().view()->model(0).is_null() && uncoded_rows(session, 0) > 0;
  CHECK((cancellation.has_ended() || uncoded_rows(session, 0) == 0));
  CHECK(session.table().view()->live_rows() == 1500);
  check_integrity(session);

  session.reopen();
  session.begin();
  session.insert(random);
  session.commit();
  CHECK(uncoded_rows(session, 0) == 0);
  CHECK(session.table().view()->live_rows() == 1501);
  check_integrity(session);
  return waits;
}

TEST_CASE("a transaction whose end is interrupted while it trains or codes keeps its rows") {
  for (const bool codes_only : {false, true}) {
    CAPTURE(codes_only);
    bool ended = true;
    for (int questions = 0; ended; questions += 1 + questions / 8) {
      CAPTURE(questions);
      EndsAfter cancellation(questions);
      leaves_rows_uncoded(codes_only, cancellation, {});
      ended = cancellation.has_ended();
    }
    for (const char* segment : {"segment 1 ", "segment 20 ", "segment 60 "}) {
      CAPTURE(segment);
      EndsWhenTold cancellation;
      const auto tell = [&](const std::string& what, double) {
        if (what.find(segment) != std::string::npos) cancellation.end();
      };
      CHECK(leaves_rows_uncoded(codes_only, cancellation, tell));
    }
  }
}

TEST_CASE("a transaction whose end is interrupted while it measures recall keeps its rows") {
  bool ended = true;
  const Question question{.k = 30, .nprobe = 16, .refine = kAllOf};
  for (int questions = 0; ended; questions += 1 + questions / 4) {
    CAPTURE(questions);
    TemporaryFile file;
    Session session(file.path(), options_that_train(false), true);
    std::mt19937 random(9);
    session.begin();
    session.insert_many(random, 1500);
    session.commit();
    const Stamp model = session.table().view()->model(0);
    session.begin();
    session.insert_many(random, 1500);
    EndsAfter cancellation(questions);
    session.table().sync(&cancellation, {});
    session.db().run("COMMIT");
    session.table().commit();
    ended = cancellation.has_ended();
    const auto view = session.table().view();
    CHECK((ended || view->model(0) != model));
    CHECK((ended || uncoded_rows(session, 0) == 0));
    CHECK(view->live_rows() == 3000);
    CHECK(ask(*view, session.table(), question) == ask(*view, session.table(), exactly(question)));
    check_integrity(session);
  }
}

// An index that has learnt, and rows that an interrupt left without codes. REQUIRES: one thread, so
// that no codes are made ahead.
struct Unfinished {
  Unfinished() : session(file.path(), options_that_train(false), true), random(8) {
    session.begin();
    session.insert_many(random, 1500);
    session.commit();
    session.begin();
    session.insert_many(random, 200);
    EndsAfter at_once(0);
    session.table().sync(&at_once, {});
    session.db().run("COMMIT");
    session.table().commit();
    CHECK(uncoded_rows(session, 0) > 0);
  }

  TemporaryFile file;
  Session session;
  std::mt19937 random;
};

TEST_CASE("what an interrupt left without codes is coded by train, optimize and rebuild") {
  const testing::RestoreThreads restore;
  compute::set_thread_count(1);
  using Command = void (*)(Session&);
  for (const Command command : {Command([](Session& it) { it.train(); }),
                                Command([](Session& it) { it.table().optimize(); }),
                                Command([](Session& it) { it.table().rebuild(); })}) {
    Unfinished table;
    Session& session = table.session;
    const Question question{.k = 30, .nprobe = 16, .refine = kAllOf};
    const Hits exact = ask(*session.table().view(), session.table(), exactly(question));
    CHECK(ask(*session.table().view(), session.table(), question) == exact);
    session.begin();
    command(session);
    CHECK(uncoded_rows(session, 0) == 0);
    session.commit();
    CHECK(ask(*session.table().view(), session.table(), question) == exact);
    check_integrity(session);
  }
}

// Of the last segment there is, whichever column they belong to.
void damage_vectors(Session& session) {
  session.db().run(
      "UPDATE t_blocks SET data = CAST(substr(data, 1, length(data) - 4) || x'12345678' AS BLOB) "
      "WHERE id IN (SELECT id FROM t_blocks WHERE hex(substr(data, 6, 1)) = '03' ORDER BY id DESC LIMIT 3)");
  session.reopen();
  Residency::instance().clear();
}

TEST_CASE("rows are written beside damaged ones, from which an index would learn") {
  TemporaryFile file;
  Session session(file.path(), options_that_train(false), true);
  std::mt19937 random(12);
  const auto write = [&](int rows) {
    session.begin();
    session.insert_many(random, rows);
    session.commit();
  };
  set_training_limit(0);
  write(1500);
  set_training_limit(30);
  damage_vectors(session);
  write(1);
  write(1500);
  CHECK(session.table().view()->live_rows() == 3001);
  CHECK(session.table().view()->model(0).is_null());
  session.begin();
  CHECK(thrown(ErrorKind::kCorrupt, [&] { session.train(); }).find("checksum") != std::string::npos);
  session.rollback();
}

TEST_CASE("a damaged segment without codes keeps no others from being written and coded") {
  const testing::RestoreThreads restore;
  compute::set_thread_count(1);
  Unfinished table;
  Session& session = table.session;
  const std::size_t uncoded = uncoded_rows(session, 0);
  damage_vectors(session);
  for (int rows : {1, 1500}) {
    session.begin();
    session.insert_many(table.random, rows);
    session.commit();
    CHECK(uncoded_rows(session, 0) == uncoded);
  }
  CHECK(session.table().view()->live_rows() == 3201);
}

}  // namespace
}  // namespace warplite::engine
