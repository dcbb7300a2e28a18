// A collection at the edges: full disks, flushes that fail, rowids, partitions, optimize and rebuild.
#include <algorithm>
#include <limits>
#include <set>

#include "tests/support/engine_fixture.h"

namespace warplite::engine {
namespace {

class Session : public TableSession {
 public:
  using TableSession::TableSession;
  ~Session() { sqlite3_rollback_hook(db().get(), nullptr, nullptr); }

  RowId insert(std::optional<RowId> rowid = std::nullopt, const std::string& tenant = "x") {
    TestRow row{{std::string(16, '\0'), std::nullopt}, {"1", "word"}, {}};
    if (!options().layout.partitions.empty()) row.plains.push_back(tenant);
    return *insert_row(row, rowid);
  }
  std::size_t rows() { return contents_of(*table().view()).size(); }
};

TEST_CASE("a full disk in the middle of a flush loses nothing that was committed") {
  Variant variant;
  SUBCASE("at the end of the transaction") {
    variant.flush_bytes = std::size_t{1} << 30;
  }
  SUBCASE("within an insert") {
    variant.flush_bytes = 4000;
  }
  Session session(make_options(variant));
  session.begin();
  for (int i = 0; i < 40; ++i) session.insert();
  session.commit();
  // SQLite rolls the transaction back by itself, and says so while the flush is on the stack.
  sqlite3_rollback_hook(
      session.db().get(), [](void* table) { static_cast<Collection*>(table)->rollback(); },
      &session.table());
  const std::int64_t pages = session.db().integer("PRAGMA page_count");
  session.db().run("PRAGMA max_page_count = " + std::to_string(pages + 4));
  session.begin();
  bool failed = false;
  try {
    for (int i = 0; i < 5000; ++i) session.insert();
    session.table().sync();
  } catch (const Error& error) {
    failed = true;
    CHECK(error.kind() == ErrorKind::kHost);
    CHECK((error.host_code() & 0xff) == SQLITE_FULL);
  }
  CHECK(failed);
  if (sqlite3_get_autocommit(session.db().get()) == 0) session.db().run("ROLLBACK");
  CHECK(session.rows() == 40);
  session.db().run("PRAGMA max_page_count = 100000");
  session.begin();
  for (int i = 0; i < 100; ++i) session.insert();
  session.commit();
  CHECK(session.rows() == 140);
  CHECK(session.table().integrity_check().empty());
}

TEST_CASE("a flush that fails half-way is refused until it is rolled back, and keeps its rows") {
  Session session(make_options({.flush_bytes = std::size_t{1} << 30}));
  session.begin();
  for (int i = 0; i < 30; ++i) session.insert();
  session.commit();
  session.begin();
  for (int i = 0; i < 10; ++i) session.insert();
  session.db().run("SAVEPOINT s0");
  session.table().savepoint(0);
  session.insert();
  session.table().erase(3);
  session.db().run(
      "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.t_segments "
      "BEGIN SELECT RAISE(FAIL, 'refused'); END");
  CHECK_THROWS_AS(session.table().sync(), Error);
  CHECK_THROWS_AS(session.table().view(), Error);
  CHECK_THROWS_AS(session.insert(), Error);
  CHECK_THROWS_AS(session.table().sync(), Error);
  session.db().run("ROLLBACK TO s0");
  session.table().rollback_to(0);
  CHECK(session.rows() == 40);
  session.db().run("DROP TRIGGER IF EXISTS temp.refuse");
  session.insert();
  session.commit();
  CHECK(session.rows() == 41);
  CHECK(session.table().integrity_check().empty());
}

TEST_CASE("a transaction that changes nothing writes nothing") {
  Session session(make_options({}));
  session.begin();
  session.insert(5);
  session.commit();
  const std::int64_t before = session.db().integer("SELECT total_changes()");
  session.begin();
  session.insert(7);
  session.table().erase(7);
  session.commit();
  session.begin();
  session.commit();
  CHECK(session.db().integer("SELECT total_changes()") == before);
  CHECK(session.rows() == 1);
}

// Searches of several connections run as one where they see the same rows (compute/devices/gatherer.h).
TEST_CASE("connections have one name for the tail that they see") {
  const TableOptions options = make_options({.tail_rows = 1000});
  Session writer(options);
  writer.begin();
  for (int i = 0; i < 3; ++i) writer.insert();
  writer.commit();
  Database first_db(sqlite3_db_filename(writer.db().get(), "main"));
  Database second_db(sqlite3_db_filename(writer.db().get(), "main"));
  const auto first = Collection::open(first_db.get(), "main", "t", options);
  const auto second = Collection::open(second_db.get(), "main", "t", options);
  const auto name = [](Collection& table, std::size_t column = 0) {
    const std::shared_ptr<const View> view = table.view();
    REQUIRE(view->parts() == 1);
    return view->part(0).vectors(column).name;
  };
  const CacheKey three = name(*first);
  CHECK_FALSE(three.is_null());
  CHECK(name(*second) == three);
  CHECK(name(writer.table()) == three);
  CHECK(name(*first, 1) != three);

  // One reads the new row alone, the other all of them.
  writer.begin();
  writer.insert();
  writer.commit();
  const CacheKey four = name(*first);
  CHECK(four != three);
  CHECK(name(writer.table()) == four);
  Database third_db(sqlite3_db_filename(writer.db().get(), "main"));
  CHECK(name(*Collection::open(third_db.get(), "main", "t", options)) == four);

  // The writer keeps a row that it deleted at its place; who reads what is left has others there.
  writer.begin();
  writer.table().erase(2);
  CHECK(name(writer.table()) == four);  // the same vectors, of which one counts no more
  writer.commit();
  CHECK(name(writer.table()).is_null());
  const CacheKey without = name(*first);
  CHECK_FALSE(without.is_null());
  CHECK(without != four);
  CHECK(name(*second) == without);

  // Rows that nobody else sees have no name; nor has what lies in memory one for others.
  writer.begin();
  writer.insert();
  CHECK(writer.table().view()->part(1).vectors(0).name.is_null());
  writer.rollback();
}

TEST_CASE("rowids follow the largest live one, and end where integers end") {
  Session session(make_options({}));
  constexpr RowId kLargest = std::numeric_limits<RowId>::max();
  session.begin();
  CHECK(session.insert() == 1);
  CHECK(session.insert(10) == 10);
  CHECK(session.insert() == 11);
  session.table().erase(11);
  CHECK(session.insert() == 11);
  session.commit();
  session.begin();
  CHECK(session.insert() == 12);
  session.table().erase(12);
  session.table().erase(11);
  CHECK(session.insert() == 11);
  CHECK(session.insert(-4) == -4);
  CHECK(session.insert(kLargest) == kLargest);
  std::set<RowId> random;
  for (int i = 0; i < 20; ++i) {
    const RowId rowid = session.insert();
    CHECK(rowid > 0);
    CHECK(random.insert(rowid).second);
  }
  CHECK_THROWS_AS(session.insert(kLargest), Error);
  session.commit();
  CHECK(session.rows() == 25);
  session.begin();
  for (RowId rowid : {RowId{1}, RowId{10}, RowId{11}, kLargest}) session.table().erase(rowid);
  for (RowId rowid : random) session.table().erase(rowid);
  CHECK(session.insert() == -3);
  session.commit();
}

TEST_CASE("a duplicate is an error that names the table and the column") {
  Session session(make_options({}));
  session.begin();
  session.insert(4);
  std::string message;
  try {
    session.insert(4);
  } catch (const Error& error) {
    message = error.what();
    CHECK(error.kind() == ErrorKind::kConstraint);
  }
  CHECK(message == "UNIQUE constraint failed: t.id");
  session.rollback();
}

TEST_CASE("many partitions of one row cost kilobytes") {
  TableOptions options = make_options({.partition = true, .flush_bytes = std::size_t{1} << 20});
  options.layout.segment_rows = 4096;
  options.tail_rows = 64;
  Session session(options);
  const std::int64_t before = session.db().integer("PRAGMA page_count");
  session.begin();
  for (int i = 0; i < 200; ++i) session.insert(std::nullopt, "tenant " + std::to_string(i));
  session.commit();
  CHECK(session.db().integer("SELECT count(*) FROM t_segments") == 1);
  CHECK((session.db().integer("PRAGMA page_count") - before) * 4 <= 40);
}

TEST_CASE("large partitions get segments of their own") {
  Session session(make_options({.partition = true}));
  session.begin();
  for (int i = 0; i < 200; ++i) session.insert(std::nullopt, i % 2 == 0 ? "even" : "odd");
  session.insert(std::nullopt, "rare");
  session.commit();
  session.begin();
  session.table().rebuild();
  session.commit();
  const auto view = session.table().view();
  std::size_t pure = 0;
  for (std::uint32_t i = 0; i < view->parts(); ++i) {
    const auto* zone = view->part(i).zone(2);
    REQUIRE(zone != nullptr);
    pure += zone->low.cell().bytes == zone->high.cell().bytes;
  }
  CHECK(view->parts() == 15);  // 100 = 6 * 16 + 4: seven for each, one for the rare row
  CHECK(pure == 15);
  CHECK(session.rows() == 201);
}

TEST_CASE("optimize leaves few segments, and rebuild makes them full") {
  Session session(make_options({.tail_rows = 4}));
  for (int transaction = 0; transaction < 20; ++transaction) {
    session.begin();
    for (int i = 0; i < 5; ++i) session.insert();
    session.commit();
  }
  session.begin();
  for (RowId rowid = 1; rowid <= 100; rowid += 3) session.table().erase(rowid);
  session.commit();
  const Contents before = contents_of(*session.table().view());
  session.begin();
  session.table().optimize();
  CHECK(contents_of(*session.table().view()) == before);
  session.rollback();
  CHECK(contents_of(*session.table().view()) == before);
  session.begin();
  session.table().optimize();
  session.commit();
  CHECK(session.table().view()->parts() == (before.size() + 15) / 16);
  CHECK(contents_of(*session.table().view()) == before);
  const std::int64_t changes = session.db().integer("SELECT total_changes()");
  session.begin();
  session.table().optimize();
  session.commit();
  CHECK(session.db().integer("SELECT total_changes()") == changes);  // nothing left to do
  session.begin();
  session.table().rebuild();
  session.commit();
  CHECK(contents_of(*session.table().view()) == before);
  CHECK(session.table().integrity_check().empty());
}

TEST_CASE("a table can be renamed with rows pending") {
  Session session(make_options({}));
  session.begin();
  for (int i = 0; i < 20; ++i) session.insert();
  session.table().rename("other");
  session.insert();
  session.commit();
  CHECK(session.rows() == 21);
  const auto again = Collection::open(session.db().get(), "main", "other", session.options());
  CHECK(contents_of(*again->view()).size() == 21);
  CHECK_THROWS_AS(Collection::open(session.db().get(), "main", "t", session.options())->view(), Error);
}

}  // namespace
}  // namespace warplite::engine
