// Vectors that are read row by row, against the whole block: from pages of the file where they are
// there, else from SQLite, and never what is not the block's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/support/storage_fixture.h"

namespace warplite::storage {
namespace {

Layout wide_layout() {
  Layout layout;
  layout.vectors = {
      {ElementType::kFloat32, 24}, {ElementType::kInt8, 3}, {ElementType::kFloat16, 700}};
  layout.segment_rows = 1024;
  return layout;
}

// A table of one segment.
struct Table {
  explicit Table(Database& database, const char* schema = "main", std::size_t rows = 1000)
      : db(database), store(database.get(), schema, "papers", layout) {
    store.create_tables();
    Generator generator(layout, 3);
    const Chunk chunk = make_chunk(layout, generator.rows(1, rows));
    State state = store.read_state();
    info = store.seal(state, refs(chunk));
    write_state(store, state);
  }

  // Reads some rows of each column both ways. Returns of how many the file had all pieces where
  // they were.
  std::size_t read_some(const std::vector<VectorPieces>& pieces, std::mt19937& random) {
    std::size_t found = 0;
    for (std::size_t column = 0; column < layout.vectors.size(); ++column) {
      const VectorBlock whole = store.load_vectors(info, column);
      std::vector<std::uint32_t> rows;
      const std::uint32_t each = std::uint32_t{1} << random() % 10;
      for (std::uint32_t row = 0; row < info.rows; ++row) {
        if (random() % each == 0) rows.push_back(row);
      }
      const std::size_t stride = layout.vectors[column].stride();
      std::vector<std::byte> out(rows.size() * stride);
      found += store.read_vectors(info, column, pieces[column], rows, out.data());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(std::memcmp(out.data() + i * stride, whole.vectors.row(rows[i]), stride) == 0);
      }
    }
    return found;
  }
  std::vector<VectorPieces> cut() {
    std::vector<VectorPieces> pieces;
    for (std::size_t i = 0; i < layout.vectors.size(); ++i)
      pieces.push_back(store.cut_vectors(info, i));
    return pieces;
  }

  Database& db;
  const Layout layout = wide_layout();
  Store store;
  SegmentInfo info;
};

// Columns whose blocks have pages of their own.
std::size_t long_ones(const std::vector<VectorPieces>& pieces) {
  return static_cast<std::size_t>(
      std::ranges::count_if(pieces, [](const VectorPieces& one) { return !one.pages.empty(); }));
}

}  // namespace

TEST_CASE("pieces: rows come from pages of the file, whatever their size") {
  for (const int page : {512, 1024, 4096, 65536}) {
    for (const int reserved : {0, 32}) {
      CAPTURE(page);
      CAPTURE(reserved);
      const testing::TemporaryFile file;
      Database db(file.path());
      int bytes = reserved;
      sqlite3_file_control(db.get(), "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes);
      db.run("PRAGMA page_size = " + std::to_string(page));
      db.run("CREATE TABLE others(x); CREATE INDEX by_x ON others(x)");
      Table table(db);
      const auto pieces = table.cut();
      CHECK(long_ones(pieces) == (page > 2048 ? 2 : 3));
      std::mt19937 random(5);
      for (int i = 0; i < 20; ++i) CHECK(table.read_some(pieces, random) == long_ones(pieces));
    }
  }
}

TEST_CASE("pieces: a tree of several levels, and an attached file") {
  const testing::TemporaryFile file, other;
  Database db(file.path());
  db.run("ATTACH '" + other.path() + "' AS beside; PRAGMA beside.page_size = 512");
  Table table(db, "beside");
  // Blocks before and after it.
  db.run(
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000) "
      "INSERT OR IGNORE INTO beside.papers_blocks SELECT x * 7, zeroblob(x % 900) FROM c");
  const auto pieces = table.cut();
  CHECK(long_ones(pieces) == 3);
  std::mt19937 random(6);
  for (int i = 0; i < 20; ++i) CHECK(table.read_some(pieces, random) == 3);
}

TEST_CASE("pieces: what the file has elsewhere, or not yet, SQLite reads") {
  std::mt19937 random(7);
  {
    Database memory;
    Table table(memory);
    const auto pieces = table.cut();
    for (int i = 0; i < 10; ++i) CHECK(table.read_some(pieces, random) == 0);
  }
  const testing::TemporaryFile file;
  Database db(file.path());
  db.run("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  db.run(
      "CREATE TABLE before AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c "
      "WHERE x < 500) SELECT x, zeroblob(1000) FROM c");
  db.run("BEGIN");
  Table table(db);
  const auto unwritten = table.cut();
  CHECK(table.read_some(unwritten, random) == 0);
  db.run("COMMIT");
  const auto logged = table.cut();
  CHECK(table.read_some(logged, random) == 0);
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto pieces = table.cut();
  CHECK(table.read_some(pieces, random) == 2);
  // Its pages move.
  db.run("DROP TABLE before; VACUUM");
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  for (int i = 0; i < 10; ++i) CHECK(table.read_some(pieces, random) == 0);
  CHECK(table.read_some(table.cut(), random) == 2);
  // Their size changes.
  db.run("PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM");
  CHECK(table.read_some(pieces, random) == 0);
  CHECK(table.read_some(table.cut(), random) == 3);
}

TEST_CASE("pieces: bytes that are not the block's are never taken for them") {
  const testing::TemporaryFile file;
  Database db(file.path());
  Table table(db);
  const auto pieces = table.cut();
  REQUIRE(long_ones(pieces) == 2);
  const std::string id = std::to_string(table.info.id * kSlots + kFirstColumnSlot);
  std::string block = db.value("SELECT data FROM papers_blocks WHERE id = " + id);
  block[block.size() / 2] = static_cast<char>(block[block.size() / 2] ^ 1);
  db.put("UPDATE papers_blocks SET data = ? WHERE id = " + id, block);
  std::vector<std::uint32_t> rows(table.info.rows);
  for (std::uint32_t row = 0; row < table.info.rows; ++row) rows[row] = row;
  std::vector<std::byte> out(rows.size() * table.layout.vectors[0].stride());
  const std::string said = thrown(ErrorKind::kCorrupt, [&] {
    table.store.read_vectors(table.info, 0, pieces[0], rows, out.data());
  });
  CHECK(said.find("segment 1, vector column 0") != std::string::npos);
  db.run("UPDATE papers_blocks SET data = zeroblob(100) WHERE id = " + id);
  thrown(ErrorKind::kCorrupt,
         [&] { table.store.read_vectors(table.info, 0, pieces[0], rows, out.data()); });
  db.run("DELETE FROM papers_blocks WHERE id = " + id);
  thrown(ErrorKind::kCorrupt,
         [&] { table.store.read_vectors(table.info, 0, pieces[0], rows, out.data()); });
}

}  // namespace warplite::storage
