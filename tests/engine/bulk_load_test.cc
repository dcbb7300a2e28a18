// Loads larger than the buffer: flushes within a transaction, what they leave to its end, and
// the memory they use.
#include <set>

#include "engine/table/transaction.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/resident.h"

namespace warplite::engine {
namespace {

constexpr std::uint32_t kSegmentRows = 16;

TableOptions make_options(std::uint32_t dim = 4, std::uint32_t segment_rows = kSegmentRows,
                          std::size_t flush_bytes = 2000) {
  TableOptions options;
  options.layout.vectors = {{ElementType::kFloat32, dim}};
  options.layout.plains = {PlainType::kInteger};
  options.layout.segment_rows = segment_rows;
  options.plain_names = {"number"};
  options.vectors = {{"e", Distance::kL2, {}}};
  options.tail_rows = 8;
  options.flush_bytes = flush_bytes;
  return options;
}

// A table that is filled within transactions that SQLite does not end by itself.
class Load : public TableSession {
 public:
  explicit Load(std::size_t flush_bytes = 2000)
      : TableSession(make_options(4, kSegmentRows, flush_bytes)) {}

  void savepoint(int n) {
    db().run("SAVEPOINT s" + std::to_string(n));
    table().savepoint(n);
  }
  void rollback_to(int n) {
    db().run("ROLLBACK TO s" + std::to_string(n));
    table().rollback_to(n);
  }
  void insert(int rows) {
    for (int i = 0; i < rows; ++i) {
      const TestRow row{{std::string(16, '\0')}, {std::to_string(next_)}, {}};
      REQUIRE(insert_row(row, next_).has_value());
      expected_.insert(next_++);
    }
  }
  void erase(RowId rowid) {
    REQUIRE(table().erase(rowid));
    expected_.erase(rowid);
  }
  const std::set<RowId>& expected() const { return expected_; }
  void expect(std::set<RowId> rowids) { expected_ = std::move(rowids); }

  void compare() { compare_with(table()); }
  // The same as somebody sees it who has only the file.
  void compare_file() {
    Database other(path());
    const auto opened = Collection::open(other.get(), "main", "t", make_options());
    other.run("BEGIN");
    compare_with(*opened);
    CHECK(opened->integrity_check().empty());
    other.run("COMMIT");
  }
  std::int64_t entries() { return db().integer("SELECT count(*) FROM t_segments"); }
  std::int64_t tail_rows() { return db().integer("SELECT count(*) FROM t_tail"); }
  std::int64_t blocks() { return db().integer("SELECT count(*) FROM t_blocks"); }

 private:
  void compare_with(Collection& table) {
    std::set<RowId> found;
    for (const auto& [rowid, row] : contents_of(*table.view())) {
      found.insert(rowid);
      CHECK(row.plains[0] == std::to_string(rowid));
    }
    CHECK(found == expected_);
  }

  std::set<RowId> expected_;
  RowId next_ = 1;
};

TEST_CASE("a load within one transaction writes its directory once, at the end") {
  Load load;
  load.begin();
  load.insert(500);
  CHECK(load.blocks() > 20);
  CHECK(load.entries() == 0);
  load.compare();
  SUBCASE("and no more") {
  }
  SUBCASE("after rows of unlisted segments were deleted") {
    for (RowId rowid = 1; rowid <= 200; ++rowid) load.erase(rowid);
    load.insert(200);
    load.compare();
  }
  SUBCASE("or when the table is checked before it") {
    CHECK(load.table().integrity_check().empty());
    CHECK(load.entries() > 20);
    load.compare();
  }
  SUBCASE("or rewritten") {
    load.table().rebuild();
    load.compare();
  }
  load.commit();
  CHECK(load.entries() > 5);
  load.compare();
  load.compare_file();
}

TEST_CASE("a load leaves little in the tail, where a few rows stay") {
  Load load;
  load.begin();
  load.insert(503);  // 31 segments, and 7 rows of 8 that the tail may have
  load.commit();
  CHECK(load.tail_rows() == 0);
  load.begin();
  load.insert(3);
  load.commit();
  CHECK(load.tail_rows() == 3);
  load.compare();
  load.compare_file();
}

TEST_CASE("a load whose last row was flushed still writes its directory") {
  Load load(64 * 32);  // four segments of 16 rows of 32 bytes
  load.begin();
  load.insert(8 * 64);
  CHECK(load.blocks() == 2 * 8 * 4);
  CHECK(load.entries() == 0);
  load.commit();
  CHECK(load.entries() == 8 * 4);
  load.compare_file();
}

TEST_CASE("flushes of a load come and go with savepoints") {
  Load load;
  load.begin();
  load.insert(100);
  const std::set<RowId> first = load.expected();
  load.savepoint(0);
  load.insert(300);
  const std::set<RowId> second = load.expected();
  load.savepoint(1);
  load.erase(5);
  load.insert(300);
  load.compare();
  SUBCASE("to the inner one") {
    load.rollback_to(1);
    load.expect(second);
  }
  SUBCASE("to the outer one") {
    load.rollback_to(0);
    load.expect(first);
  }
  SUBCASE("to one after the other") {
    load.rollback_to(1);
    load.rollback_to(0);
    load.expect(first);
  }
  load.compare();
  load.insert(50);
  load.compare();
  load.commit();
  load.compare();
  load.compare_file();
}

TEST_CASE("a commit that has to be repeated finds the directory written") {
  Load load;
  load.begin();
  load.insert(200);
  load.table().sync();
  load.insert(200);
  load.compare();
  load.commit();
  load.compare_file();
}

TEST_CASE("rolling back a load leaves the table as it was") {
  Load load;
  load.begin();
  load.insert(60);
  load.commit();
  const std::set<RowId> before = load.expected();
  load.begin();
  load.insert(400);
  load.db().run("ROLLBACK");
  load.table().rollback();
  load.expect(before);
  load.compare();
  load.compare_file();
}

TEST_CASE("a flush that fails after others of its transaction loses none of their rows") {
  Load load;
  load.begin();
  load.insert(200);
  const std::set<RowId> before = load.expected();
  load.savepoint(0);
  load.db().run(
      "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.t_blocks "
      "BEGIN SELECT RAISE(FAIL, 'refused'); END");
  CHECK_THROWS_AS(load.insert(200), Error);
  CHECK_THROWS_AS(load.table().view(), Error);
  load.rollback_to(0);
  load.db().run("DROP TRIGGER IF EXISTS temp.refuse");
  load.expect(before);
  load.compare();
  load.commit();
  load.compare();
  load.compare_file();
}

void use_chunks_again(std::uint32_t rows, bool commits) {
  const TableOptions options = make_options(1024, rows);
  const Layout& layout = options.layout;
  const std::string vector(layout.vectors[0].stride(), 'v');
  const Cell vectors[] = {Cell::blob(vector)};
  const Cell plains[] = {Cell::of(std::int64_t{1})};
  Transaction transaction(layout);
  const auto fill = [&](std::uint32_t count) {
    for (RowId rowid = 1; rowid <= count; ++rowid) {
      transaction.pending().append({rowid, vectors, plains, nullptr});
    }
    return transaction.pending().slots()[0].chunk->vector_memory(0);
  };
  const auto flush = [&] {
    transaction.finish_flush(transaction.freeze(), Pending(layout), transaction.base());
  };
  const std::size_t chunk = rows * layout.vectors[0].stride();

  transaction.begin();
  const std::byte* memory = fill(rows);
  flush();
  CHECK(transaction.pending().spare_bytes() >= chunk);
  CHECK(fill(rows) == memory);
  // A savepoint keeps what it may bring back; once it is released, that is used again, too.
  transaction.savepoint(1, 0);
  flush();
  CHECK(fill(rows) != memory);
  transaction.release(1);
  CHECK(transaction.pending().spare_bytes() >= chunk);
  flush();
  memory = fill(rows);
  if (commits) {
    flush();
    CHECK(transaction.pending().spare_bytes() >= chunk);
    transaction.commit();
    // They wait for the next one, if that needs them.
    CHECK(transaction.pending().spare_bytes() >= chunk);
    transaction.begin();
    CHECK(fill(10) == memory);
    flush();
    transaction.commit();
  } else {
    transaction.rollback();
  }
  CHECK(transaction.pending().spare_bytes() == 0);

  // What a small transaction used stays for the next one.
  transaction.begin();
  memory = fill(10);
  transaction.rollback();
  CHECK(transaction.pending().spare_bytes() > 0);
  CHECK(transaction.pending().spare_bytes() < chunk / 4);
  transaction.begin();
  CHECK(fill(10) == memory);
  transaction.rollback();
}

// Of 4 MB each; and of 32, as where codes are what is kept.
TEST_CASE("chunks are used again while a load goes on, and given back after it") {
  for (const std::uint32_t rows : {1024u, 8192u}) {
    for (const bool commits : {true, false}) use_chunks_again(rows, commits);
  }
}

TEST_CASE("what a load keeps for more of it is given back when somebody reads") {
  if (resident() == 0) return;
  constexpr std::uint32_t kRows = 1024;  // of a chunk of 4 MB, of which two are flushed at once
  constexpr std::size_t kChunk = std::size_t{4} << 20;
  TableSession session(make_options(1024, kRows, 2 * kChunk));
  session.begin();
  const TestRow row{{std::string(4096, '\0')}, {"1"}, {}};
  for (RowId rowid = 1; rowid <= 8 * kRows; ++rowid) session.insert_row(row, rowid);
  session.commit();
  const std::size_t before = resident();
  session.table().view();
  CHECK(resident() + kChunk <= before);
}

}  // namespace
}  // namespace warplite::engine
