// A Store against a real SQLite: what is written comes back bit for bit, and the host's
// transactions, names and schemas hold.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/process/interruption.h"
#include "tests/support/storage_fixture.h"

namespace warplite::storage {

TEST_CASE("storage: tables are made once, dropped, and found by their suffix") {
  Database db;
  Layout layout = rich_layout();
  layout.text_key = 2;
  Store store = create_store(db, layout);
  CHECK(db.value("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'papers_%' AND type = "
                 "'table'") == "6");
  CHECK(!store.read_state().generation.is_null());
  CHECK(store.read_state().tail_rows == 0);
  CHECK(store.read_segments().empty());
  const std::string message = thrown(ErrorKind::kHost, [&] { store.create_tables(); });
  CHECK(message.find("papers_state") != std::string::npos);
  store.drop_tables();
  store.drop_tables();
  CHECK(db.value("SELECT count(*) FROM sqlite_schema") == "0");
  thrown(ErrorKind::kHost, [&] { store.read_state(); });
  for (const char* suffix : {"state", "segments", "blocks", "tail", "aux", "keys"}) {
    CHECK(is_shadow_suffix(suffix));
  }
  CHECK(!is_shadow_suffix("State"));
  CHECK(!is_shadow_suffix(""));
}

TEST_CASE("storage: the state record round-trips and moves the generation") {
  Database db;
  Store store = create_store(db, rich_layout());
  State state = store.read_state();
  const Stamp first = state.generation;
  state.tail_rows = 3;
  state.last_sequence = 40;
  state.next_segment = 9;
  state.last_flush = new_stamp();
  write_state(store, state);
  CHECK(state.generation != first);
  CHECK(store.read_generation() == state.generation);
  const State read = store.read_state();
  CHECK(read.generation == state.generation);
  CHECK(read.tail_epoch == state.tail_epoch);
  CHECK(read.last_flush == state.last_flush);
  CHECK(read.tail_rows == 3);
  CHECK(read.last_sequence == 40);
  CHECK(read.next_segment == 9);
  CHECK(read.models == std::vector<Stamp>(rich_layout().vectors.size()));
}

TEST_CASE("storage: models and codes round-trip, each under a fresh stamp") {
  Database db;
  Filled table(db);
  table.read_all();
  State state = table.store.read_state();
  const Stamp model = state.models[1], codes = table.info.codes[1].block;
  const std::string other = "others, longer than those before";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(other));
  table.store.write_model(state, 1, bytes);
  table.store.write_model(state, 3, {});
  CHECK(state.models[1] != model);
  table.store.write_codes(table.info, 1, state.models[1], bytes);
  table.store.write_codes(table.info, 0, state.models[3], bytes.first(5));
  CHECK(table.info.codes[1].block != codes);
  table.store.write_entry(table.info);
  write_state(table.store, state);
  CHECK(table.store.read_state().models == state.models);
  const SegmentInfo read = table.store.read_segments().at(0);
  CHECK(read.codes == table.info.codes);
  CHECK(read.codes[2] == CodesInfo{});
  const OpaqueBlock block = table.store.load_codes(read, 1);
  CHECK(std::equal(block.payload.begin(), block.payload.end(), bytes.begin(), bytes.end()));
  CHECK(table.store.load_model(state.models[3], 3).payload.empty());
  thrown(ErrorKind::kCorrupt, [&] { table.store.load_model(model, 1); });
  CHECK(table.store.check(10) == std::vector<std::string>{});
  // An entry of another time: its stamps are in the state record's sum.
  SegmentInfo stale = read;
  stale.codes[1].model = model;
  table.store.write_entry(stale);
  CHECK(table.store.check(10).size() == 1);
}

TEST_CASE("storage: a large block is written in pieces, and who asks may end that") {
  struct Asked {
    int questions = 0, ends_at = -1;
    bool requested() { return questions++ == ends_at; }
  } asked;
  const Interruptible scope(&asked);
  Database db;
  Filled table(db);
  table.read_all();
  State state = table.store.read_state();
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> numbers((std::size_t{33} << 20) / 8);
  for (std::uint64_t& number : numbers) number = random();
  const auto bytes = std::as_bytes(std::span(numbers));
  asked = {0, 2};  // the third
  thrown(ErrorKind::kInterrupted, [&] { table.store.write_model(state, 1, bytes); });
  asked = {};
  table.store.write_model(state, 1, bytes);
  CHECK(asked.questions == 5);
  write_state(table.store, state);
  const OpaqueBlock block = table.store.load_model(state.models[1], 1);
  CHECK(std::equal(block.payload.begin(), block.payload.end(), bytes.begin(), bytes.end()));
  CHECK(db.value("SELECT last_insert_rowid()") == "0");
}

TEST_CASE("storage: segments round-trip, in place or gathered") {
  Database db;
  const Layout layout = rich_layout();
  Store store = create_store(db, layout);
  State state = store.read_state();
  for (double nulls : {0.0, 0.3, 1.0}) {
    for (std::size_t n : {1u, 2u, 63u, 64u, 65u, 500u}) {
      for (RowId step : {1, 3}) {
        CAPTURE(nulls);
        CAPTURE(n);
        CAPTURE(step);
        Generator generator(layout, static_cast<unsigned>(n));
        generator.nulls = nulls;
        generator.few_texts = n % 2 == 0;
        const std::vector<Row> rows = generator.rows(-20, n, step);
        const Chunk chunk = make_chunk(layout, rows);
        const SegmentInfo in_place = store.seal(state, refs(chunk));
        CHECK(in_place.rowids.is_null() == (step == 1 || n == 1));
        const bool all_null = std::all_of(rows.begin(), rows.end(),
                                          [](const Row& row) { return row.vectors[0].empty(); });
        CHECK(in_place.vectors[0].is_null() == all_null);
        check_segment(store, in_place, rows);

        std::vector<RowRef> shuffled = refs(chunk);
        std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(7));
        check_segment(store, store.seal(state, shuffled), rows);
        const Chunk no_room = make_chunk(layout, rows, 0);
        check_segment(store, store.seal(state, refs(no_room)), rows);
        CHECK(state.next_segment == in_place.id + 3);
      }
    }
  }
  write_state(store, state);
  const std::vector<SegmentInfo> segments = store.read_segments();
  CHECK(segments.size() == static_cast<std::size_t>(state.next_segment - 1));
}

TEST_CASE("storage: in place and gathered blocks are the same bytes but for stamps") {
  Database db;
  const Layout layout = rich_layout();
  Store store = create_store(db, layout);
  State state = store.read_state();
  Generator generator(layout);
  generator.nulls = 0;
  const std::vector<Row> rows = generator.rows(5, 100);
  const Chunk chunk = make_chunk(layout, rows);
  const Chunk no_room = make_chunk(layout, rows, 0);
  const SegmentInfo a = store.seal(state, refs(chunk));
  const SegmentInfo b = store.seal(state, refs(no_room));
  for (int slot = 2; slot < 10; ++slot) {
    const auto payload = [&](const SegmentInfo& info) {
      return db.value("SELECT substr(data, 65) FROM papers_blocks WHERE id = " +
                      std::to_string(info.id * 4096 + slot));
    };
    CHECK(payload(a).size() > 0);
    CHECK(payload(a) == payload(b));
  }
}

TEST_CASE("storage: a segment is gathered from several chunks, in ascending order") {
  Database db;
  const Layout layout = rich_layout();
  Store store = create_store(db, layout);
  State state = store.read_state();
  Generator generator(layout);
  const std::vector<Row> odd = generator.rows(1, 50, 2), even = generator.rows(2, 50, 2);
  const Chunk a = make_chunk(layout, odd), b = make_chunk(layout, even);
  std::vector<RowRef> all = refs(a);
  for (const RowRef& ref : refs(b)) all.push_back(ref);
  std::vector<Row> rows = odd;
  rows.insert(rows.end(), even.begin(), even.end());
  std::sort(rows.begin(), rows.end(), [](const Row& x, const Row& y) { return x.rowid < y.rowid; });
  const SegmentInfo info = store.seal(state, all);
  CHECK(info.rowids.is_null());  // 1, 2, 3 …: a run
  check_segment(store, info, rows);
}

TEST_CASE("storage: directory entries and zones come back") {
  Database db;
  const Layout layout = rich_layout();
  Store store = create_store(db, layout);
  State state = store.read_state();
  Generator generator(layout);
  const Chunk chunk = make_chunk(layout, generator.rows(10, 200, 2));
  SegmentInfo info = store.seal(state, refs(chunk));
  Bitmap alive(200, true);
  alive.reset(3);
  alive.reset(199);
  store.write_alive(info, alive);
  CHECK(info.live_rows == 198);
  const SegmentInfo read = store.read_segments().at(0);
  CHECK(read.live_rows == 198);
  CHECK(read.min_rowid == 10);
  CHECK(read.max_rowid == 408);
  CHECK(read.alive == info.alive);
  CHECK(read.rowids == info.rowids);
  CHECK(read.vectors == info.vectors);
  CHECK(read.plains == info.plains);
  const Bitmap loaded = store.load_alive(read);
  CHECK(loaded.count() == 198);
  CHECK(!loaded.test(3));
  for (std::size_t i = 0; i < layout.plains.size(); ++i) {
    CHECK(same(read.zones[i].low.cell(), info.zones[i].low.cell()));
    CHECK(same(read.zones[i].high.cell(), info.zones[i].high.cell()));
    CHECK(read.zones[i].has_null == info.zones[i].has_null);
  }
  const Stamp old = info.alive;
  store.write_alive(info, alive);
  CHECK(info.alive != old);
  store.drop_segment(info);
  CHECK(store.read_segments().empty());
  CHECK(db.value("SELECT count(*) FROM papers_blocks") == "0");
}

TEST_CASE("storage: the tail round-trips, grows and shrinks") {
  Database db;
  const Layout layout = rich_layout();
  Store store = create_store(db, layout);
  State state = store.read_state();
  Generator generator(layout);
  const std::vector<Row> first = generator.rows(100, 30, -3), second = generator.rows(500, 20);
  const Stamp flush_a = new_stamp(), flush_b = new_stamp();
  const Chunk a = make_chunk(layout, first), b = make_chunk(layout, second);
  store.append_tail(state, flush_a, refs(a));
  const Stamp epoch = state.tail_epoch;
  CHECK(state.last_sequence == 30);
  CHECK(state.last_flush == flush_a);
  CHECK(state.tail_rows == 30);

  Chunk rows(layout, 50);
  std::vector<std::int64_t> sequences;
  TailRead read = store.read_tail(0, rows, sequences);
  CHECK(read.last_flush == flush_a);
  CHECK(read.digest == state.tail_digest);
  check_chunk(rows, 0, first);
  CHECK(store.read_tail(30, rows, sequences).last_flush.is_null());

  store.append_tail(state, flush_b, refs(b));
  CHECK(state.tail_epoch == epoch);
  const TailRead more = store.read_tail(30, rows, sequences);
  CHECK(more.last_flush == flush_b);
  CHECK(read.digest + more.digest == state.tail_digest);
  check_chunk(rows, 30, second);
  CHECK(sequences.size() == 50);
  CHECK(sequences.back() == 50);
  CHECK(store.tail_flush(30) == flush_a);
  CHECK(store.tail_flush(31) == flush_b);
  CHECK(store.tail_flush(51).is_null());

  std::vector<std::int64_t> gone;
  for (std::int64_t i = 31; i <= 50; ++i) gone.push_back(i);
  store.erase_tail(state, gone);
  CHECK(state.tail_digest == read.digest);
  CHECK(state.tail_epoch != epoch);
  CHECK(state.tail_rows == 30);
  CHECK(state.last_flush == flush_a);
  CHECK(state.last_sequence == 50);
  thrown(ErrorKind::kCorrupt, [&] { store.erase_tail(state, std::vector<std::int64_t>{77}); });
  const Stamp second_epoch = state.tail_epoch;
  store.clear_tail(state);
  CHECK(state.tail_epoch != second_epoch);
  CHECK(state.tail_rows == 0);
  CHECK(state.last_flush.is_null());
  CHECK(db.value("SELECT count(*) FROM papers_tail") == "0");
}

TEST_CASE("storage: texts keep their bytes in databases of every encoding") {
  for (const char* encoding : {"UTF-8", "UTF-16le", "UTF-16be"}) {
    Database db;
    db.run(std::string("PRAGMA encoding = '") + encoding + "'");
    Layout layout = rich_layout();
    layout.text_key = 2;
    layout.aux = 0;
    Store store = create_store(db, layout);
    State state = store.read_state();
    Generator generator(layout);
    std::vector<Row> rows = generator.rows(1, 3);
    rows[0].plains[2] = Value(Cell::text("\xff\xc3\x28"));
    rows[1].plains[2] = Value(Cell::text(std::string_view("a\0b", 3)));
    rows[2].plains[2] = Value(Cell::text("a"));
    const Chunk chunk = make_chunk(layout, rows);
    store.append_tail(state, new_stamp(), refs(chunk));
    store.put_keys(refs(chunk));
    write_state(store, state);
    Chunk read(layout, 3);
    std::vector<std::int64_t> sequences;
    store.read_tail(0, read, sequences);
    check_chunk(read, 0, rows);
    for (const Row& row : rows) CHECK(store.find_key(row.plains[2].cell().bytes) == row.rowid);
    CHECK(store.check(10) == std::vector<std::string>{});
  }
}

TEST_CASE("storage: +columns hold anything, by rowid") {
  Database db;
  const Layout layout = rich_layout();
  Store store = create_store(db, layout);
  Generator generator(layout);
  std::vector<Row> rows = generator.rows(-5, 20, 7);
  rows[0].aux[0] = Value(Cell::blob(std::string_view("\0\1", 2)));
  rows[1].aux[0] = Value(Cell::of(std::int64_t{42}));
  rows[2].aux[0] = Value(Cell::blob(""));
  rows[3].aux[0] = Value(Cell::text(""));
  const Chunk chunk = make_chunk(layout, rows);
  store.put_aux(refs(chunk));
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < layout.aux; ++i) {
      CHECK(same(store.read_aux(row.rowid, i).cell(), row.aux[i].cell()));
    }
  }
  const RowId gone[] = {-5, 2, 1000};
  store.erase_aux(gone);
  CHECK(store.read_aux(-5, 0).is_null());
  CHECK(db.value("SELECT count(*) FROM papers_aux") == "18");
}

TEST_CASE("storage: a text key is unique") {
  Database db;
  Layout layout;
  layout.vectors = {{ElementType::kInt8, 2}};
  layout.plains = {PlainType::kText};
  layout.text_key = 0;
  layout.segment_rows = 1024;
  Store store = create_store(db, layout);
  const auto row = [](RowId rowid, const Value& key) { return Row{rowid, {"ab"}, {key}, {}}; };
  const Chunk chunk = make_chunk(
      layout, {row(1, Value(Cell::text("one"))), row(2, Value(Cell::text(""))), row(3, Value())});
  store.put_keys(std::vector<RowRef>{{&chunk, 0}, {&chunk, 1}});
  CHECK(store.find_key("one") == 1);
  CHECK(store.find_key("") == 2);
  CHECK(!store.find_key("ONE"));
  const Chunk again = make_chunk(layout, {row(9, Value(Cell::text("one")))});
  const std::string message =
      thrown(ErrorKind::kConstraint, [&] { store.put_keys(refs(again)); });
  CHECK(message.find("'one'") != std::string::npos);
  thrown(ErrorKind::kConstraint, [&] { store.put_keys(std::vector<RowRef>{{&chunk, 2}}); });
  const RowId gone[] = {1};
  store.erase_keys(gone);
  store.put_keys(refs(again));
  CHECK(store.find_key("one") == 9);
}

TEST_CASE("storage: names with quotes, spaces and braces, in other schemas, renamed") {
  for (const char* schema : {"main", "temp", "att'a \"ch{ed"}) {
    Database db;
    db.run("ATTACH ':memory:' AS \"att'a \"\"ch{ed\"");
    Filled table(db, schema, "p'a \"p{state}é");
    table.read_all();
    CHECK(table.store.check(10) == std::vector<std::string>{});
    table.store.rename_tables("new \"{tail}' name");
    CHECK(table.store.table() == "new \"{tail}' name");
    table.read_all();
    CHECK(table.store.check(10) == std::vector<std::string>{});
    Store other(db.get(), schema, "new \"{tail}' name", table.layout);
    CHECK(other.read_generation() == table.store.read_generation());
    table.store.drop_tables();
  }
}

TEST_CASE("storage: rollback takes everything back, and statements hold no lock") {
  Database db;
  Filled table(db);
  const State before = table.store.read_state();
  db.run("BEGIN");
  State state = before;
  Generator generator(table.layout, 9);
  const Chunk chunk = make_chunk(table.layout, generator.rows(1000, 64));
  const SegmentInfo info = table.store.seal(state, refs(chunk));
  table.store.clear_tail(state);
  write_state(table.store, state);
  CHECK(table.store.read_segments().size() == 2);
  check_segment(table.store, table.info, table.rows);
  db.run("ROLLBACK");
  CHECK(table.store.read_generation() == before.generation);
  CHECK(table.store.read_segments().size() == 1);
  thrown(ErrorKind::kCorrupt, [&] { table.store.load_vectors(info, 0); });
  CHECK(table.store.check(10) == std::vector<std::string>{});
  db.run("BEGIN; DROP TABLE papers_aux; ROLLBACK; VACUUM");
  CHECK(table.store.check(10) == std::vector<std::string>{});
}

TEST_CASE("storage: writes leave last_insert_rowid alone") {
  Database db;
  db.run("CREATE TABLE t(x); INSERT INTO t(rowid) VALUES(777)");
  Filled table(db);
  CHECK(sqlite3_last_insert_rowid(db.get()) == 777);
}

TEST_CASE("storage: another connection reads what was committed") {
  const testing::TemporaryFile file;
  Database writer(file.path());
  writer.run("PRAGMA journal_mode = WAL");
  Filled table(writer);
  Database reader(file.path());
  Store store(reader.get(), "main", "papers", table.layout);
  CHECK(store.read_generation() == table.store.read_generation());
  check_segment(store, store.read_segments().at(0), table.rows);
  writer.run("BEGIN");
  State state = table.store.read_state();
  write_state(table.store, state);
  CHECK(store.read_generation() != state.generation);
  writer.run("COMMIT");
  CHECK(store.read_generation() == state.generation);
  CHECK(store.check(10) == std::vector<std::string>{});
}

TEST_CASE("storage: a statement of the host's that is open changes nothing") {
  Database db;
  Filled table(db);
  db.run("CREATE TABLE t(x); INSERT INTO t VALUES(1), (2)");
  sqlite3_stmt* open = nullptr;
  REQUIRE(sqlite3_prepare_v2(db.get(), "SELECT x FROM t", -1, &open, nullptr) == SQLITE_OK);
  REQUIRE(sqlite3_step(open) == SQLITE_ROW);
  table.read_all();
  State state = table.store.read_state();
  write_state(table.store, state);
  CHECK(table.store.read_generation() == state.generation);
  CHECK(sqlite3_step(open) == SQLITE_ROW);
  sqlite3_finalize(open);
  table.store.drop_tables();
}

}  // namespace warplite::storage
