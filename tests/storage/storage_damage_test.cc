// Damaged shadow tables never go unnoticed; a full disk and failed allocations are reported and
// leave a sound table.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <cstring>
#include <string>
#include <vector>

#include "storage/codec/segment_codec.h"
#include "tests/support/storage_fixture.h"

namespace warplite::storage {

namespace {

// Changes a stored blob in every byte, at both ends, and away: reading must notice.
void damage_everywhere(Filled& table, const std::string& where, const std::string& column) {
  const std::string select = "SELECT " + column + " FROM " + where;
  std::string update = where;
  update.insert(where.find(" WHERE"), " SET " + column + " = ?");
  const std::string good = table.db.value(select);
  REQUIRE(!good.empty());
  const auto noticed = [&](const std::string& bad) {
    table.db.put("UPDATE " + update, bad);
    const std::string message = thrown(ErrorKind::kCorrupt, [&] { table.read_all(); });
    CHECK(message.starts_with("papers: "));
    CHECK(!table.store.check(10).empty());
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    noticed(bad);
  }
  noticed(good.substr(0, good.size() - 1));
  noticed(good.substr(0, good.size() / 2));
  noticed(good + '\0');
  noticed("");
  table.db.put("UPDATE " + update, good);
  table.read_all();
}

// Writes, reads and rolls back once more; the first half may fail at any point.
void flush_and_read(Filled& table, const Chunk& chunk, const Chunk& tail) {
  State state = table.store.read_state();
  SegmentInfo info = table.store.seal(state, refs(chunk));
  table.store.write_alive(info, Bitmap(chunk.size(), true));
  table.store.append_tail(state, new_stamp(), refs(tail));
  table.store.put_aux(refs(chunk));
  table.store.put_aux(refs(tail));
  table.store.put_keys(refs(chunk));
  table.store.put_keys(refs(tail));
  write_state(table.store, state);
  table.store.load_vectors(info, 0);
  table.store.load_plain(info, 2);
  table.store.load_alive(info);
  table.store.read_aux(1, 0);
}

std::vector<Row> keyed_rows(const Layout& layout, RowId first, std::size_t n) {
  Generator generator(layout, static_cast<unsigned>(first));
  std::vector<Row> rows = generator.rows(first, n);
  for (Row& row : rows) row.plains[2] = Value(Cell::text("key" + std::to_string(row.rowid)));
  return rows;
}

}  // namespace

TEST_CASE("storage: no damaged byte goes unnoticed") {
  Database db;
  Filled table(db);
  table.read_all();
  CHECK(table.store.check(10) == std::vector<std::string>{});
  damage_everywhere(table, "papers_state WHERE id = 1", "record");
  damage_everywhere(table, "papers_segments WHERE id = 1", "info");
  for (int slot = 0; slot < 10; ++slot) {
    damage_everywhere(table, "papers_blocks WHERE id = " + std::to_string(4096 + slot), "data");
  }
  damage_everywhere(table, "papers_blocks WHERE id = 1", "data");          // the model
  damage_everywhere(table, "papers_blocks WHERE id = 4096 + 11", "data");  // the codes
  for (const char* column : {"flush", "v0", "v1", "v2", "v3", "c2"}) {
    // The first row of the tail in which the value is not NULL.
    const std::string id = db.value(std::string("SELECT id FROM papers_tail WHERE length(") +
                                    column + ") > 0 LIMIT 1");
    if (id.empty()) continue;
    damage_everywhere(table, "papers_tail WHERE id = " + id, column);
  }
  for (const char* change :
       {"row = row + 1", "sum = sum + 1", "sum = NULL", "c0 = 12345", "c1 = 'x'", "c3 = 2",
        "v0 = NULL, v1 = NULL, v2 = NULL", "flush = NULL", "c2 = 'text'", "id = id + 1000"}) {
    CAPTURE(change);
    db.run("SAVEPOINT damage");
    db.run(std::string("UPDATE papers_tail SET ") + change + " WHERE id = 3");
    thrown(ErrorKind::kCorrupt, [&] { table.read_all(); });
    CHECK(!table.store.check(10).empty());
    db.run("ROLLBACK TO damage; RELEASE damage");
  }
}

TEST_CASE("storage: a block out of place is refused") {
  Database db;
  Filled table(db);
  const auto swapped = [&](int a, int b, const std::string& expected) {
    db.run("SAVEPOINT swap");
    db.run("UPDATE papers_blocks SET data = (SELECT data FROM papers_blocks WHERE id = " +
           std::to_string(b) + ") WHERE id = " + std::to_string(a));
    const std::string message = thrown(ErrorKind::kCorrupt, [&] { table.read_all(); });
    CHECK(message == expected);
    db.run("ROLLBACK TO swap; RELEASE swap");
  };
  swapped(4096, 4097, "papers: segment 1, rowids: kind is 2, expected 1");
  swapped(4098, 4099, "papers: segment 1, vector column 0: slot is 3, expected 2");
  swapped(4107, 1, "papers: segment 1, codes of vector column 1: kind is 6, expected 5");
  swapped(1, 4107, "papers: model of vector column 1: kind is 5, expected 6");
  db.run("UPDATE papers_blocks SET data = NULL WHERE id = 4104");
  CHECK(thrown(ErrorKind::kCorrupt, [&] { table.read_all(); }) ==
        "papers: segment 1, column 2: block is missing");
  db.run("DELETE FROM papers_blocks WHERE id = 4104");
  CHECK(thrown(ErrorKind::kCorrupt, [&] { table.read_all(); }) ==
        "papers: segment 1, column 2: block is missing");
  db.run("DELETE FROM papers_state");
  CHECK(thrown(ErrorKind::kCorrupt, [&] { table.store.read_generation(); }) ==
        "papers: state record: is missing");
}

TEST_CASE("storage: a stale block under an old stamp is refused") {
  Database db;
  Filled table(db);
  const std::string old = db.value("SELECT data FROM papers_blocks WHERE id = 4097");
  Bitmap alive(12, true);
  alive.reset(4);
  table.store.write_alive(table.info, alive);
  db.put("UPDATE papers_blocks SET data = ? WHERE id = 4097", old);
  CHECK(thrown(ErrorKind::kCorrupt, [&] { table.read_all(); }) ==
        "papers: segment 1, alive bitmap: stamp differs from the segment's");
}

TEST_CASE("storage: live rows are counted against the bitmap") {
  Database db;
  Filled table(db);
  SegmentInfo info = table.info;
  ++info.live_rows;
  db.put("UPDATE papers_segments SET info = ?", encode_segment(info, table.layout));
  CHECK(thrown(ErrorKind::kCorrupt, [&] { table.read_all(); }) ==
        "papers: segment 1, alive bitmap: 11 rows are alive, expected 12");
}

TEST_CASE("storage: vectors that are not finite are refused under a right checksum") {
  Database db;
  Layout layout;
  layout.vectors = {{ElementType::kFloat32, 2}, {ElementType::kFloat16, 4}};
  layout.segment_rows = 1024;
  Store store = create_store(db, layout);
  State state = store.read_state();
  const auto sealed = [&](std::uint32_t word, std::uint16_t half) {
    std::string a(8, '\0'), b(8, '\0');
    std::memcpy(a.data() + 4, &word, 4);
    std::memcpy(b.data() + 6, &half, 2);
    const Chunk chunk = make_chunk(layout, {Row{1, {a, b}, {}, {}}});
    store.append_tail(state, new_stamp(), refs(chunk));
    return store.seal(state, refs(chunk));
  };
  const auto read_tail = [&] {
    Chunk rows(layout, 10);
    std::vector<std::int64_t> sequences;
    store.read_tail(state.last_sequence - 1, rows, sequences);
  };
  store.load_vectors(sealed(0x7f7fffff, 0x7bff), 0);
  read_tail();
  for (std::uint32_t word : {0x7f800000u, 0xff800000u, 0x7fc00000u}) {
    const SegmentInfo info = sealed(word, 0);
    thrown(ErrorKind::kCorrupt, [&] { store.load_vectors(info, 0); });
    thrown(ErrorKind::kCorrupt, read_tail);
  }
  for (std::uint16_t half : {0x7c00, 0xfc00, 0x7e00}) {
    const SegmentInfo info = sealed(0, half);
    store.load_vectors(info, 0);
    thrown(ErrorKind::kCorrupt, [&] { store.load_vectors(info, 1); });
    thrown(ErrorKind::kCorrupt, read_tail);
  }
}

TEST_CASE("storage: the integrity check names what does not fit") {
  Database db;
  Filled table(db);
  const auto faults = [&](const std::string& sql) {
    db.run("SAVEPOINT damage");
    db.run(sql);
    std::string text;
    for (const std::string& fault : table.store.check(100)) text += fault + "\n";
    db.run("ROLLBACK TO damage; RELEASE damage");
    return text;
  };
  CHECK(faults("SELECT 1") == "");
  CHECK(faults("DELETE FROM papers_tail WHERE id = 1") ==
        "papers: the tail has 2 rows, the state record says 3\n");
  CHECK(faults("INSERT INTO papers_blocks VALUES(9999, x'00')") ==
        "papers: block 9999 belongs to no segment\n");
  CHECK(faults("DELETE FROM papers_aux WHERE id = 3") == "papers: row 3 has no +columns\n");
  CHECK(faults("INSERT INTO papers_aux(id) VALUES(2)") ==
        "papers: the +columns of row 2 belong to no row\n");
  CHECK(faults("DELETE FROM papers_keys WHERE id = 102") == "papers: row 102 has no key\n");
  CHECK(faults("UPDATE papers_keys SET key = x'00' WHERE id = 5") ==
        "papers: the key of row 5 differ from the row's\n");
  CHECK(faults("DELETE FROM papers_segments") != "");
  CHECK(table.store.check(0).empty());

  // The same rowid in the segment and in the tail.
  State state = table.store.read_state();
  const Chunk twice = make_chunk(table.layout, {table.rows[0]});
  table.store.append_tail(state, new_stamp(), refs(twice));
  write_state(table.store, state);
  const std::vector<std::string> found = table.store.check(1);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("row 1 is alive in") != std::string::npos);
}

TEST_CASE("storage: a full disk is reported, and rollback leaves a sound table") {
  Database db;
  Filled table(db);
  const Chunk chunk = make_chunk(table.layout, keyed_rows(table.layout, 1000, 300));
  const Chunk tail = make_chunk(table.layout, keyed_rows(table.layout, 2000, 20));
  const int pages = std::stoi(db.value("PRAGMA page_count"));
  int failures = 0;
  for (int limit = pages;; ++limit) {
    db.run("PRAGMA max_page_count = " + std::to_string(limit));
    db.run("BEGIN");
    bool full = false;
    try {
      flush_and_read(table, chunk, tail);
    } catch (const Error& error) {
      full = true;
      CHECK(error.kind() == ErrorKind::kHost);
      CHECK(error.host_code() == SQLITE_FULL);
      ++failures;
    }
    // SQLite may have ended the transaction already.
    if (sqlite3_get_autocommit(db.get()) == 0) db.run(full ? "ROLLBACK" : "COMMIT");
    REQUIRE(table.store.check(10) == std::vector<std::string>{});
    if (!full) break;
  }
  CHECK(failures > 3);
  CHECK(table.store.read_segments().size() == 2);
}

TEST_CASE("storage: SQLite out of memory is reported, and rollback leaves a sound table") {
  Database db;
  Filled table(db);
  const Chunk chunk = make_chunk(table.layout, keyed_rows(table.layout, 1000, 300));
  const Chunk tail = make_chunk(table.layout, keyed_rows(table.layout, 2000, 20));
  int failures = 0;
  for (sqlite3_int64 room = 0;; room += 1024) {
    table.store.check(0);  // what this prepares and caches is there in every round
    Store fresh(db.get(), "main", "papers", table.layout);
    db.run("BEGIN");
    bool failed = false;
    sqlite3_hard_heap_limit64(sqlite3_memory_used() + room);
    try {
      flush_and_read(table, chunk, tail);
      fresh.read_state();
    } catch (const Error& error) {
      failed = true;
      ++failures;
      CHECK(error.kind() == ErrorKind::kHost);
      CHECK((error.host_code() & 0xff) == SQLITE_NOMEM);
    }
    sqlite3_hard_heap_limit64(0);
    if (sqlite3_get_autocommit(db.get()) == 0) db.run("ROLLBACK");
    REQUIRE(table.store.check(10) == std::vector<std::string>{});
    if (!failed) break;
  }
  CHECK(failures > 3);
}

}  // namespace warplite::storage
