// Tables whose indexes have learnt, and to which rows come in small transactions: the tail stays short, and
// segments few.
#include <algorithm>
#include <random>
#include <string>

#include "engine/ivf/runs.h"
#include "engine/residency/residency.h"
#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

using Session = IvfSession;

constexpr std::uint32_t kSegmentRows = 256, kTailRows = 8;

TableOptions small_options(bool codes_only = false) {
  TableOptions options = ivf_options(kSegmentRows);
  options.layout.codes_only = codes_only;
  if (codes_only) options.vectors[0].index = options.vectors[2].index = options.vectors[1].index;
  options.tail_rows = 64;
  options.trained_tail_rows = kTailRows;
  return options;
}

struct Shape {
  std::uint32_t tail = 0;
  std::size_t small = 0, full = 0;  // segments
};

Shape shape_of(Session& session) {
  const auto view = session.table().view();
  Shape shape;
  for (std::size_t i = 0; i < view->parts(); ++i) {
    const Part& part = view->part(i);
    const bool full = part.live_rows() >= kSegmentRows / 2;
    if (part.segment() == 0) shape.tail += part.live_rows();
    else ++(full ? shape.full : shape.small);
  }
  return shape;
}

// A table that has learnt from 300 rows.
struct Learnt {
  explicit Learnt(bool codes_only = false) : session(file.path(), small_options(codes_only), true) {
    session.begin();
    session.insert_many(random, 300);
    session.train();
    session.commit();
  }
  void commit(int rows) {
    session.begin();
    session.insert_many(random, rows);
    session.commit();
  }
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }

  TemporaryFile file;
  std::mt19937 random{21};
  Session session;
};

TEST_CASE("rows that come one by one and in lots leave a short tail and few segments") {
  for (const bool codes_only : {false, true}) {
    CAPTURE(codes_only);
    Learnt table(codes_only);
    Session& session = table.session;
    Session other(table.file.path(), small_options(codes_only), false);
    std::uint32_t rows = 300;
    for (int step = 0; step < 400; ++step) {
      CAPTURE(step);
      const int lot = table.pick(5) == 0 ? 1 + table.pick(60) : 1;
      rows += static_cast<std::uint32_t>(lot);
      const auto held = session.table().view();  // is read after segments of it were merged
      const Question question{.column = static_cast<std::size_t>(table.pick(2)), .k = 12,
                              .seed = static_cast<unsigned>(step)};
      const Hits before = codes_only ? Hits() : ask(*held, session.table(), exactly(question));
      table.commit(lot);
      const Shape shape = shape_of(session);
      CHECK(shape.tail < kTailRows);
      CHECK(shape.small < 16);
      CHECK(shape.full <= rows / (kSegmentRows / 2));
      CHECK(session.table().view()->live_rows() == rows);
      if (codes_only) continue;
      CHECK(ask(*held, session.table(), fully(question)) == before);
      compare(*session.table().view(), session.table(), question);
      other.db().run("BEGIN");
      compare(*other.table().view(), other.table(), question);
      other.db().run("COMMIT");
    }
    CHECK(uncoded_rows(session, 0) == 0);
    CHECK(uncoded_rows(session, 1) == 0);
    check_integrity(session);
  }
}

TEST_CASE("small segments make a run of their own, and nothing of the runs before stays in memory") {
  Learnt table;
  Session& session = table.session;
  Residency::instance().clear();
  for (int i = 0; i < 150; ++i) {
    CAPTURE(i);
    table.commit(1 + table.pick(40));
    const auto view = session.table().view();
    ask(*view, session.table(), {});
    const auto runs = find_coded_parts(*view, 0).runs;
    CHECK(runs.size() <= 2);
    const auto entries = Residency::instance().entries();
    const auto held = std::ranges::count_if(entries, [](const Residency::Entry& entry) {
      return entry.device == "cpu" && entry.owner.find("codes of segments") != std::string::npos;
    });
    CHECK(held == static_cast<std::ptrdiff_t>(runs.size()));
  }
}

TEST_CASE("small segments are merged through savepoints, deletions and transactions that are taken back") {
  Learnt table;
  Session& session = table.session;
  std::uint32_t rows = 300;
  for (int step = 0; step < 300; ++step) {
    CAPTURE(step);
    session.begin();
    // Now and then a segment is full at once, and a few rows stay in the tail while others are merged.
    const bool load = table.pick(6) == 0;
    session.insert_many(table.random, load ? kSegmentRows + table.pick(kTailRows) : 1 + table.pick(20));
    session.db().run("SAVEPOINT s0");
    session.table().savepoint(0);
    const RowId gone = 1 + table.pick(3000);
    for (int n = table.pick(load ? 150 : 10); n > 0; --n) session.table().erase(gone + n);
    const std::uint64_t written = session.table().view()->live_rows();
    session.insert_many(table.random, table.pick(30));
    if (table.pick(3) == 0) {
      session.table().sync();  // as a COMMIT that finds the file busy
      session.insert_many(table.random, table.pick(30));
    }
    if (table.pick(2) == 0) {
      session.db().run("ROLLBACK TO s0");
      session.table().rollback_to(0);
      CHECK(session.table().view()->live_rows() >= written);
    }
    const auto wanted = static_cast<std::uint32_t>(session.table().view()->live_rows());
    const bool kept = table.pick(4) != 0;
    kept ? session.commit() : session.rollback();
    if (kept) rows = wanted;
    CHECK(session.table().view()->live_rows() == rows);
    CHECK(shape_of(session).tail < kTailRows);
    CHECK(shape_of(session).small < 33);  // some from before recall was measured
    compare(*session.table().view(), session.table(),
            {.column = static_cast<std::size_t>(table.pick(2)), .k = 20, .seed = static_cast<unsigned>(step)});
  }
  check_integrity(session);
}

TEST_CASE("what a load leaves over is a segment once the index has learnt from it") {
  TemporaryFile file;
  Session session(file.path(), small_options(), true);
  std::mt19937 random(3);
  session.begin();
  session.insert_many(random, 8 * kSegmentRows + 7);
  session.commit();
  CHECK(session.table().view()->model(0).is_null() == false);
  CHECK(shape_of(session).tail < kTailRows);
  session.begin();
  session.insert_many(random, 8 * kSegmentRows + 9);
  session.commit();
  CHECK(shape_of(session).tail < kTailRows);
  CHECK(uncoded_rows(session, 0) == 0);
  compare(*session.table().view(), session.table(), {.column = 0, .k = 20});
  check_integrity(session);
}

TEST_CASE("damaged small segments stay as they are, and others are written beside them") {
  // The last byte of vectors (3) and of codes (5).
  for (const std::string kind : {"03", "05"}) {
    Learnt table;
    Session& session = table.session;
    for (int i = 0; i < 3; ++i) table.commit(10);
    session.db().run("UPDATE t_blocks SET data = CAST(substr(data, 1, length(data) - 4) || x'12345678' AS BLOB) "
                     "WHERE id IN (SELECT id FROM t_blocks WHERE hex(substr(data, 6, 1)) = '" + kind +
                     "' ORDER BY id DESC LIMIT 3)");
    session.reopen();
    Residency::instance().clear();
    for (int i = 0; i < 20; ++i) table.commit(10);
    CHECK(session.table().view()->live_rows() == 530);
    CHECK(shape_of(session).small < 16);
    CHECK(!faults_of(session).empty());
  }
}

TEST_CASE("optimize takes codes as they are, and makes damaged ones anew") {
  Learnt table;
  Session& session = table.session;
  for (int i = 0; i < 3; ++i) table.commit(10);
  session.db().run("UPDATE t_blocks SET data = CAST(substr(data, 1, length(data) - 4) || x'12345678' AS BLOB) "
                   "WHERE id = (SELECT max(id) FROM t_blocks WHERE hex(substr(data, 6, 1)) = '05')");
  session.reopen();
  Residency::instance().clear();
  CHECK(!faults_of(session).empty());
  session.begin();
  session.table().optimize();
  session.commit();
  CHECK(uncoded_rows(session, 0) == 0);
  check_integrity(session);
  for (std::size_t column : {0, 1}) {
    compare(*session.table().view(), session.table(), {.column = column, .k = 20});
  }
}

}  // namespace
}  // namespace warplite::engine
