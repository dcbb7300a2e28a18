// Blocks that are read past SQLite, by several threads, against those that SQLite reads: what the
// file has where SQLite would look is the same, and everything else is refused.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/storage_fixture.h"

namespace warplite::storage {
namespace {

bool same(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

// A table of one segment, whose blocks are of one page and of many.
struct Table {
  explicit Table(Database& database, const char* schema = "main")
      : db(database), store(database.get(), schema, "papers", layout) {
    store.create_tables();
    Generator generator(layout, 3);
    const Chunk chunk = make_chunk(layout, generator.rows(1, 1000));
    State state = store.read_state();
    info = store.seal(state, refs(chunk));
    const std::string text(30000, 'c');
    store.write_model(state, 0, std::as_bytes(std::span(text)));
    store.write_codes(info, 0, state.models[0], std::as_bytes(std::span(text)));
    write_state(store, state);
  }

  static Layout layout_of_test() {
    Layout layout;
    layout.vectors = {
        {ElementType::kFloat32, 24}, {ElementType::kInt8, 3}, {ElementType::kFloat16, 700}};
    layout.plains = {PlainType::kInteger, PlainType::kText};
    layout.segment_rows = 1024;
    return layout;
  }

  // Throws Error{kCorrupt} unless the file has all blocks.
  void read_all(const BlockFile* file) {
    for (std::size_t i = 0; i < layout.vectors.size(); ++i) {
      const VectorBlock whole = store.load_vectors(info, i, file);
      if (!same(whole.memory, vectors[i])) throw Error(ErrorKind::kInvalid, "other vectors");
    }
    for (std::size_t i = 0; i < layout.plains.size(); ++i) {
      const Column column = store.load_plain(info, i, file);
      for (std::uint32_t row = 0; row < info.rows; ++row) {
        if (!storage::same(column.cell(row), columns[i].cell(row)))
          throw Error(ErrorKind::kInvalid, "other values");
      }
    }
    if (!same(store.load_codes(info, 0, file).memory, codes))
      throw Error(ErrorKind::kInvalid, "other codes");
  }
  void read_through_host() {
    vectors.clear();
    columns.clear();
    for (std::size_t i = 0; i < layout.vectors.size(); ++i)
      vectors.push_back(store.load_vectors(info, i).memory);
    for (std::size_t i = 0; i < layout.plains.size(); ++i)
      columns.push_back(store.load_plain(info, i));
    codes = store.load_codes(info, 0).memory;
  }
  // Returns what the first thread has to say, of several that read all at once.
  std::string read_at_once() {
    read_through_host();
    const auto file = store.block_file();
    if (file == nullptr) return "no file";
    std::vector<std::string> said(4);
    std::vector<std::thread> threads;
    for (std::string& mine : said) {
      threads.emplace_back([&] {
        try {
          read_all(file.get());
        } catch (const Error& error) {
          mine = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& theirs : said) CHECK(theirs == said[0]);
    return said[0];
  }

  Database& db;
  const Layout layout = layout_of_test();
  Store store;
  SegmentInfo info;
  std::vector<Bytes> vectors;
  std::vector<Column> columns;
  Bytes codes;
};

const char kNotThere[] = "papers: segment 1, vector column 0: block is not in the file";

}  // namespace

TEST_CASE("block file: pages of every size, in a row and not") {
  for (const int page : {512, 1024, 4096, 65536}) {
    for (const int reserved : {0, 32}) {
      for (const bool scattered : {false, true}) {
        CAPTURE(page);
        CAPTURE(reserved);
        CAPTURE(scattered);
        const testing::TemporaryFile file;
        Database db(file.path());
        int bytes = reserved;
        sqlite3_file_control(db.get(), "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes);
        db.run("PRAGMA page_size = " + std::to_string(page));
        db.run("CREATE TABLE other(id INTEGER PRIMARY KEY, x)");
        if (scattered) {
          // Free pages, which come in any order.
          db.run(
              "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 400) "
              "INSERT INTO other SELECT x, zeroblob(x * 37 % 9000) FROM c; DELETE FROM other WHERE "
              "id * 7 % 5 < 3");
        }
        Table table(db);
        CHECK(table.read_at_once() == "");
      }
    }
  }
}

TEST_CASE("block file: a tree of several levels, in an attached file") {
  const testing::TemporaryFile file, other;
  Database db(file.path());
  db.run("ATTACH '" + other.path() + "' AS beside; PRAGMA beside.page_size = 512");
  Table table(db, "beside");
  db.run(
      "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000) "
      "INSERT OR IGNORE INTO beside.papers_blocks SELECT x * 7, zeroblob(x % 900) FROM c");
  CHECK(table.read_at_once() == "");
}

TEST_CASE("block file: what the file has not, or not yet, is left to SQLite") {
  {
    Database memory;
    Table table(memory);
    CHECK(table.read_at_once() == "no file");
  }
  const testing::TemporaryFile file;
  Database db(file.path());
  db.run("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE before(x)");
  db.run("PRAGMA wal_checkpoint(TRUNCATE); BEGIN");
  Table table(db);
  CHECK(table.read_at_once() == kNotThere);
  db.run("COMMIT");
  CHECK(table.read_at_once() == kNotThere);
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  CHECK(table.read_at_once() == "");
  // Pages that move, of another size.
  db.run("DROP TABLE before; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
  CHECK(table.read_at_once() == "");
  db.run("PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM");
  CHECK(table.read_at_once() == "");
}

TEST_CASE("block file: what a reader sees stays where it is while another connection writes") {
  const testing::TemporaryFile file;
  Database db(file.path()), writer(file.path());
  db.run("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  Table table(db);
  db.run("PRAGMA wal_checkpoint(TRUNCATE); BEGIN; SELECT count(*) FROM papers_blocks");
  const std::string id = std::to_string(table.info.id * kSlots + kFirstColumnSlot);
  writer.run("DELETE FROM papers_blocks; INSERT INTO papers_blocks VALUES (" + id +
             ", zeroblob(100000))");
  writer.run("PRAGMA wal_checkpoint(PASSIVE)");
  CHECK(table.read_at_once() == "");
  db.run("COMMIT");
}

// A page of SQLite's table of blocks with one cell, which claims so many bytes, of which there are some here and
// the others in a page that follows itself.
std::string page_that_claims(std::int64_t id, std::uint64_t payload, std::uint32_t overflow) {
  constexpr std::size_t kPage = 4096, kLocal = 489, kHeader = 7;
  const auto varint = [](std::uint64_t value) {
    std::string digits(1, static_cast<char>(value & 127));
    while ((value >>= 7) != 0) digits.insert(digits.begin(), static_cast<char>((value & 127) | 128));
    return digits;
  };
  const auto number = [](std::uint32_t value, int bytes) {
    std::string out;
    while (bytes-- > 0) out += static_cast<char>(value >> 8 * bytes);
    return out;
  };
  std::string record = std::string({kHeader, 0}) + varint(12 + 2 * (payload - kHeader));
  record.resize(kLocal, 'x');
  const std::string cell =
      varint(payload) + varint(static_cast<std::uint64_t>(id)) + record + number(overflow, 4);
  const auto at = static_cast<std::uint32_t>(kPage - cell.size());
  std::string page = number(13, 1) + number(0, 2) + number(1, 2) + number(at, 2) + number(0, 1) + number(at, 2);
  page.resize(at);
  return page + cell;
}

TEST_CASE("block file: memory follows what is there, not what a cell claims") {
  const testing::TemporaryFile file;
  std::uint32_t root = 0, pages = 0;
  SegmentInfo info;
  {
    Database db(file.path());
    db.run("PRAGMA page_size = 4096");
    Table table(db);
    info = table.info;
    root = std::stoul(db.value("SELECT rootpage FROM sqlite_master WHERE name = 'papers_blocks'"));
    pages = std::stoul(db.value("PRAGMA page_count"));
  }
  // The length for which SQLite keeps the fewest bytes in the row's own page.
  const std::uint64_t payload = 489 + 4092 * std::uint64_t{500'000};
  const std::int64_t id = info.id * kSlots + kFirstColumnSlot;
  std::fstream raw(file.path(), std::ios::in | std::ios::out | std::ios::binary);
  raw.seekp(std::streamoff{root - 1} * 4096) << page_that_claims(id, payload, pages);
  raw.seekp(std::streamoff{pages - 1} * 4096)
      << std::string({'\0', '\0', static_cast<char>(pages >> 8), static_cast<char>(pages)});
  raw.close();
  Database db(file.path());
  Store store(db.get(), "main", "papers", Table::layout_of_test());
  const auto blocks = store.block_file();
  REQUIRE(blocks != nullptr);
  const auto refused = [&](const BlockFile* from) {
    return thrown(ErrorKind::kCorrupt, [&] { store.load_vectors(info, 0, from); });
  };
  CHECK(refused(blocks.get()) == kNotThere);
  CHECK(refused(nullptr) == "papers: segment 1, vector column 0: block of " + std::to_string(payload - 7) +
                                " bytes in a database of " + std::to_string(4096 * std::uint64_t{pages}));
}

TEST_CASE("block file: other bytes are never taken for the block's") {
  const testing::TemporaryFile file;
  Database db(file.path());
  Table table(db);
  const auto blocks = table.store.block_file();
  REQUIRE(blocks != nullptr);
  table.read_through_host();
  table.read_all(blocks.get());
  const std::string id = std::to_string(table.info.id * kSlots + kFirstColumnSlot);
  std::string block = db.value("SELECT data FROM papers_blocks WHERE id = " + id);
  const auto refused = [&] {
    return thrown(ErrorKind::kCorrupt,
                  [&] { table.store.load_vectors(table.info, 0, blocks.get()); });
  };
  block[block.size() / 2] = static_cast<char>(block[block.size() / 2] ^ 1);
  db.put("UPDATE papers_blocks SET data = ? WHERE id = " + id, block);
  CHECK(refused() == "papers: segment 1, vector column 0: checksum differs");
  for (const char* other : {"zeroblob(100)", "zeroblob(1)", "'text'", "NULL", "zeroblob(100000)"}) {
    db.run(std::string("UPDATE papers_blocks SET data = ") + other + " WHERE id = " + id);
    CHECK(refused().starts_with("papers: segment 1, vector column 0: "));
  }
  db.run("DELETE FROM papers_blocks WHERE id = " + id);
  CHECK(refused() == kNotThere);
  db.run("DELETE FROM papers_blocks");
  CHECK(refused() == kNotThere);
}

}  // namespace warplite::storage
