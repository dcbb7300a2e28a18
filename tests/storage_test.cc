// Storage against a real SQLite: what is written comes back bit for bit, damage
// never goes unnoticed, and the host's transactions, names and schemas hold.
#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/chunk.h"
#include "storage/block_codec.h"
#include "storage/checksum.h"
#include "storage/column_codec.h"
#include "storage/segment_codec.h"
#include "storage/storage.h"
#include "storage/wire.h"

namespace warplite::storage {
namespace {

class Database {
 public:
  explicit Database(const char* path = ":memory:") {
    REQUIRE(sqlite3_open(path, &db_) == SQLITE_OK);
  }
  ~Database() { CHECK(sqlite3_close(db_) == SQLITE_OK); }  // fails if a statement is left open
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  sqlite3* get() const { return db_; }
  void run(const std::string& sql) {
    char* message = nullptr;
    const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &message);
    INFO(sql << ": " << (message != nullptr ? message : ""));
    CHECK(code == SQLITE_OK);
    sqlite3_free(message);
  }
  std::string value(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    INFO(sql << ": " << sqlite3_errmsg(db_));
    REQUIRE(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    std::string result;
    if (sqlite3_step(statement) == SQLITE_ROW) {
      const auto* data = static_cast<const char*>(sqlite3_column_blob(statement, 0));
      result.assign(data, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
    }
    sqlite3_finalize(statement);
    return result;
  }
  void put(const std::string& sql, const std::string& blob) {
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    sqlite3_bind_blob64(statement, 1, blob.data(), blob.size(), SQLITE_STATIC);
    CHECK(sqlite3_step(statement) == SQLITE_DONE);
    sqlite3_finalize(statement);
  }

 private:
  sqlite3* db_ = nullptr;
};

// A row as the test knows it; `vectors` that are NULL are empty.
struct Row {
  RowId rowid = 0;
  std::vector<std::string> vectors;
  std::vector<Value> plains;
  std::vector<Value> aux;
};

bool same(const Cell& a, const Cell& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == CellKind::kInteger) return a.integer == b.integer;
  if (a.kind == CellKind::kReal) return std::memcmp(&a.real, &b.real, 8) == 0;  // -0.0 is not 0.0
  return a.bytes == b.bytes;
}

// Draws rows that are hard on encodings: extremes, NULLs, odd texts.
class Generator {
 public:
  explicit Generator(const Layout& layout, unsigned seed = 1) : layout_(layout), random_(seed) {}

  double nulls = 0.2;
  bool few_texts = false;

  Row row(RowId rowid) {
    Row row{rowid, {}, {}, {}};
    for (const Layout::Vector& shape : layout_.vectors) row.vectors.push_back(vector(shape));
    for (PlainType type : layout_.plains) row.plains.push_back(plain(type));
    for (std::size_t i = 0; i < layout_.aux; ++i) {
      row.aux.push_back(plain(i % 2 == 0 ? PlainType::kText : PlainType::kReal));
    }
    return row;
  }
  std::vector<Row> rows(RowId first, std::size_t n, RowId step = 1) {
    std::vector<Row> rows;
    for (std::size_t i = 0; i < n; ++i) rows.push_back(row(first + static_cast<RowId>(i) * step));
    return rows;
  }

 private:
  bool chance(double p) { return std::uniform_real_distribution<>()(random_) < p; }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  std::string vector(const Layout::Vector& shape) {
    if (chance(nulls)) return {};
    std::string bytes(shape.stride(), '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random_());
    if (shape.type == ElementType::kFloat32) {
      for (std::size_t i = 0; i < shape.dim; ++i) {
        const float value = static_cast<float>(random_()) * 1e-15f;
        std::memcpy(bytes.data() + i * 4, &value, 4);
      }
    } else if (shape.type == ElementType::kFloat16) {
      for (std::size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= '\x3b';  // no exponent of ones
    }
    return bytes;
  }

  Value plain(PlainType type) {
    if (chance(nulls)) return Value();
    switch (type) {
      case PlainType::kInteger: return integer();
      case PlainType::kBoolean: return Value(Cell::of(static_cast<std::int64_t>(below(2))));
      case PlainType::kReal: return real();
      case PlainType::kText: return text();
    }
    return Value();
  }
  Value integer() {
    constexpr std::int64_t kOdd[] = {std::numeric_limits<std::int64_t>::min(),
                                     std::numeric_limits<std::int64_t>::max(), 0, -1};
    return Value(Cell::of(chance(0.2) ? kOdd[below(4)] : static_cast<std::int64_t>(random_())));
  }
  Value real() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kOdd[] = {0.0, -0.0, kInfinity, -kInfinity, 5e-324};
    return Value(Cell::of(chance(0.2) ? kOdd[below(5)] : static_cast<double>(random_()) / 3));
  }
  Value text() {
    using namespace std::string_view_literals;
    constexpr std::string_view kOdd[] = {""sv, "a\0b\0"sv, "\xff\xfe\x80"sv, "Ærlig\0\0"sv};
    if (few_texts || chance(0.2)) return Value(Cell::text(kOdd[below(4)]));
    std::string text(below(40), 'x');
    for (char& c : text) c = static_cast<char>(random_());
    return Value(Cell::text(text));
  }

  const Layout& layout_;
  std::mt19937_64 random_;
};

Layout rich_layout() {
  Layout layout;
  layout.vectors = {{ElementType::kFloat32, 5}, {ElementType::kFloat16, 3},
                    {ElementType::kInt8, 7}, {ElementType::kBit, 24}};
  layout.plains = {PlainType::kInteger, PlainType::kReal, PlainType::kText, PlainType::kBoolean};
  layout.aux = 2;
  layout.segment_rows = 1024;
  return layout;
}

void append(Chunk& chunk, const Row& row) {
  std::vector<Cell> vectors, plains, aux;
  for (const std::string& bytes : row.vectors) {
    vectors.push_back(bytes.empty() ? Cell::null() : Cell::blob(bytes));
  }
  for (const Value& value : row.plains) plains.push_back(value.cell());
  for (const Value& value : row.aux) aux.push_back(value.cell());
  chunk.append({row.rowid, vectors.data(), plains.data(), aux.data()});
}

Chunk make_chunk(const Layout& layout, const std::vector<Row>& rows,
                 std::size_t header = kBlockHeader) {
  Chunk chunk(layout, static_cast<std::uint32_t>(rows.size()), header);
  for (const Row& row : rows) append(chunk, row);
  return chunk;
}

std::vector<RowRef> refs(const Chunk& chunk) {
  std::vector<RowRef> refs;
  for (std::uint32_t row = 0; row < chunk.size(); ++row) refs.push_back({&chunk, row});
  return refs;
}

Store make_store(Database& db, const Layout& layout, const std::string& table = "papers") {
  return Store(db.get(), "main", table, layout);
}

// Compares a segment with `rows`, in ascending order of rowid.
void check_segment(Store& store, const SegmentInfo& info, const std::vector<Row>& rows) {
  REQUIRE(info.rows == rows.size());
  std::vector<RowId> list;
  if (!info.rowids.is_null()) list = store.load_rowids(info);
  const RowIdView rowids{info.min_rowid, list.empty() ? nullptr : list.data()};
  for (std::size_t i = 0; i < rows.size(); ++i) REQUIRE(rowids[i] == rows[i].rowid);
  for (std::size_t column = 0; column < store.layout().vectors.size(); ++column) {
    const VectorBlock block = store.load_vectors(info, column);
    const std::size_t stride = block.vectors.stride();
    REQUIRE(block.vectors.rows == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string& want = rows[i].vectors[column];
      REQUIRE((block.present.size() == 0 || block.present.test(i)) == !want.empty());
      const std::string zeros(stride, '\0');
      REQUIRE(std::memcmp(block.vectors.row(i), (want.empty() ? zeros : want).data(), stride) == 0);
    }
  }
  for (std::size_t column = 0; column < store.layout().plains.size(); ++column) {
    const Column values = store.load_plain(info, column);
    REQUIRE(values.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      REQUIRE(same(values.cell(i), rows[i].plains[column].cell()));
      if (!values.is_null(i)) continue;
      // Filters scan the raw values: those of NULL rows are as Column promises.
      if (!values.integers().empty()) REQUIRE(values.integers()[i] == 0);
      if (!values.reals().empty()) REQUIRE(values.reals()[i] == 0);
      if (values.type() == PlainType::kText) REQUIRE(values.text(i).empty());
    }
  }
}

void check_chunk(const Chunk& chunk, std::uint32_t first, const std::vector<Row>& rows) {
  REQUIRE(chunk.size() == first + rows.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t at = first + i;
    CHECK(chunk.rowids()[at] == rows[i].rowid);
    for (std::size_t column = 0; column < rows[i].vectors.size(); ++column) {
      const std::string& want = rows[i].vectors[column];
      REQUIRE(chunk.has_vector(column, at) == !want.empty());
      CHECK(std::memcmp(chunk.vectors(column).row(at), want.data(), want.size()) == 0);
    }
    for (std::size_t column = 0; column < rows[i].plains.size(); ++column) {
      CHECK(same(chunk.plain(column).cell(at), rows[i].plains[column].cell()));
    }
  }
}

// What `body` throws: its message, after its kind was checked.
template <typename Body>
std::string thrown(ErrorKind kind, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

// As the engine ends a flush: the state record describes the directory as it is.
void write_state(Store& store, State& state) {
  state.directory = {};
  for (const SegmentInfo& segment : store.read_segments()) state.directory.add(segment);
  store.write_state(state);
}

}  // namespace

TEST_CASE("storage: checksums depend on every byte, the length and the seed") {
  std::string bytes(300, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37);
  std::vector<std::uint64_t> seen;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    seen.push_back(checksum(as_bytes(bytes).first(size)));
  }
  seen.push_back(checksum(as_bytes(bytes), 1));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      seen.push_back(checksum(as_bytes(bytes)));
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());

  Checksum in_parts;
  in_parts.update(as_bytes(bytes).first(128));
  in_parts.update(as_bytes(bytes).subspan(128));
  CHECK(in_parts.finish() == checksum(as_bytes(bytes)));
  // Persisted: these are the values of docs/file_format.md.
  CHECK(checksum({}) == 16613034370482787583u);
  CHECK(checksum(as_bytes("warplite")) == 16444327226904668253u);
}

TEST_CASE("storage: tables are made once, dropped, and found by their suffix") {
  Database db;
  Layout layout = rich_layout();
  layout.text_key = 2;
  Store store = make_store(db, layout);
  store.create_tables();
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
  Store store = make_store(db, rich_layout());
  store.create_tables();
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
}

TEST_CASE("storage: segments round-trip, in place or gathered") {
  Database db;
  const Layout layout = rich_layout();
  Store store = make_store(db, layout);
  store.create_tables();
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
  Store store = make_store(db, layout);
  store.create_tables();
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
  Store store = make_store(db, layout);
  store.create_tables();
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
  Store store = make_store(db, layout);
  store.create_tables();
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

TEST_CASE("storage: zones bound every value, texts by a prefix") {
  const auto zone_of = [](std::initializer_list<std::string> texts) {
    Column column(PlainType::kText);
    for (const std::string& text : texts) column.append(Cell::text(text));
    return make_zone(column);
  };
  const std::string ff16(16, '\xff');
  CHECK(zone_of({"b", "a"}).low.cell().bytes == "a");
  CHECK(zone_of({"b", "a"}).high.cell().bytes == "b");
  CHECK(zone_of({std::string(20, 'z')}).low.cell().bytes == std::string(16, 'z'));
  CHECK(zone_of({std::string(20, 'z')}).high.cell().bytes == std::string(15, 'z') + "{");
  for (const std::string& text :
       {std::string("x") + ff16 + "y", ff16 + "abc", ff16 + ff16, ff16 + "\xff\x01",
        std::string(16, '\x7f') + "a", std::string(17, '\0'), std::string("")}) {
    const ZoneMap zone = zone_of({text});
    CHECK(zone.low.cell().bytes <= text);
    CHECK(zone.high.cell().bytes >= text);
    CHECK(zone.low.kind() == CellKind::kText);
  }
  CHECK(zone_of({"x" + ff16}).high.cell().bytes == "y");
  CHECK(zone_of({ff16 + "\xff\x01z"}).high.cell().bytes == ff16 + "\xff\x02");
  Column nulls(PlainType::kReal);
  nulls.append(Cell::null());
  CHECK(make_zone(nulls).all_null);
  CHECK(make_zone(nulls).has_null);
  nulls.append(Cell::of(-2.5));
  CHECK(!make_zone(nulls).all_null);
  CHECK(make_zone(nulls).high.cell().real == -2.5);
}

TEST_CASE("storage: integers take the width they need") {
  using Limits = std::numeric_limits<std::int64_t>;
  const auto size_of = [](std::initializer_list<std::int64_t> values) {
    Column column(PlainType::kInteger);
    for (std::int64_t value : values) column.append(Cell::of(value));
    std::string bytes;
    encode_column(column, bytes);
    const Column read = decode_column(PlainType::kInteger, column.size(), as_bytes(bytes));
    for (std::size_t i = 0; i < column.size(); ++i) CHECK(same(read.cell(i), column.cell(i)));
    return bytes.size() - 16;
  };
  CHECK(size_of({7, 7, 7}) == 0);
  CHECK(size_of({-100, 155}) == 2);
  CHECK(size_of({-100, 156}) == 4);
  CHECK(size_of({Limits::max(), Limits::max() - 70000}) == 8);
  CHECK(size_of({Limits::min(), Limits::max(), 0}) == 24);
}

TEST_CASE("storage: few distinct texts become a dictionary") {
  Column column(PlainType::kText);
  for (int i = 0; i < 1000; ++i) {
    column.append(i % 10 == 0 ? Cell::null() : Cell::text(i % 3 == 0 ? "Oslo, Norway" : "Bergen"));
  }
  std::string bytes;
  encode_column(column, bytes);
  CHECK(bytes.size() < 1300);
  const Column read = decode_column(PlainType::kText, 1000, as_bytes(bytes));
  for (std::size_t i = 0; i < 1000; ++i) CHECK(same(read.cell(i), column.cell(i)));
}

TEST_CASE("storage: the tail round-trips, grows and shrinks") {
  Database db;
  const Layout layout = rich_layout();
  Store store = make_store(db, layout);
  store.create_tables();
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
  CHECK(store.read_tail(0, rows, sequences) == flush_a);
  check_chunk(rows, 0, first);
  CHECK(store.read_tail(30, rows, sequences).is_null());

  store.append_tail(state, flush_b, refs(b));
  CHECK(state.tail_epoch == epoch);
  CHECK(store.read_tail(30, rows, sequences) == flush_b);
  check_chunk(rows, 30, second);
  CHECK(sequences.size() == 50);
  CHECK(sequences.back() == 50);
  CHECK(store.tail_flush(30) == flush_a);
  CHECK(store.tail_flush(31) == flush_b);
  CHECK(store.tail_flush(51).is_null());

  std::vector<std::int64_t> gone;
  for (std::int64_t i = 31; i <= 50; ++i) gone.push_back(i);
  gone.push_back(77);  // not there
  store.erase_tail(state, gone);
  CHECK(state.tail_epoch != epoch);
  CHECK(state.tail_rows == 30);
  CHECK(state.last_flush == flush_a);
  CHECK(state.last_sequence == 50);
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
    Store store = make_store(db, layout);
    store.create_tables();
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
  Store store = make_store(db, layout);
  store.create_tables();
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
  Store store = make_store(db, layout);
  store.create_tables();
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

namespace {

// A table with one segment (rowids and alive blocks too), a tail, +columns and keys.
struct Filled {
  explicit Filled(Database& database, const std::string& schema = "main",
                  const std::string& table = "papers")
      : db(database), layout(key_layout()), store(db.get(), schema, table, layout) {
    store.create_tables();
    State state = store.read_state();
    Generator generator(layout);
    rows = generator.rows(1, 12, 2);
    tail = generator.rows(100, 3);
    for (auto* part : {&rows, &tail}) {
      for (Row& row : *part) row.plains[2] = Value(Cell::text("key" + std::to_string(row.rowid)));
    }
    const Chunk chunk = make_chunk(layout, rows), tail_chunk = make_chunk(layout, tail);
    info = store.seal(state, refs(chunk));
    Bitmap alive(12, true);
    alive.reset(4);
    store.write_alive(info, alive);
    store.append_tail(state, new_stamp(), refs(tail_chunk));
    store.put_aux(refs(chunk));
    store.put_aux(refs(tail_chunk));
    store.put_keys(refs(chunk));
    store.put_keys(refs(tail_chunk));
    const RowId dead[] = {rows[4].rowid};
    store.erase_aux(dead);
    store.erase_keys(dead);
    write_state(store, state);
  }
  static Layout key_layout() {
    Layout layout = rich_layout();
    layout.text_key = 2;
    return layout;
  }

  void read_all() {
    store.read_state();
    for (const SegmentInfo& segment : store.read_segments()) {
      check_segment(store, segment, rows);
      store.load_alive(segment);
    }
    Chunk chunk(layout, 3);
    std::vector<std::int64_t> sequences;
    store.read_tail(0, chunk, sequences);
    check_chunk(chunk, 0, tail);
  }

  Database& db;
  Layout layout;
  Store store;
  std::vector<Row> rows, tail;
  SegmentInfo info;
};

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

// Damage under a right checksum: decoding alone must stay in bounds.
TEST_CASE("storage: forged payloads decode to an error or to valid values") {
  const Layout layout = rich_layout();
  Generator generator(layout);
  std::mt19937_64 random(3);
  for (bool few : {false, true}) {
    generator.few_texts = few;
    const Chunk chunk = make_chunk(layout, generator.rows(1, 40));
    for (std::size_t column = 0; column < layout.plains.size(); ++column) {
      const PlainType type = layout.plains[column];
      std::string good;
      encode_column(chunk.plain(column), good);
      for (int round = 0; round < 4000; ++round) {
        std::string bad = good;
        for (std::uint64_t i = random() % 3 + 1; i > 0; --i) {
          bad[random() % (round % 2 == 0 ? bad.size() : 40)] = static_cast<char>(random());
        }
        if (round % 5 == 0) bad.resize(random() % (bad.size() + 8));
        try {
          const Column read = decode_column(type, 40, as_bytes(bad));
          REQUIRE(read.size() == 40);
          for (std::size_t i = 0; i < 40; ++i) {
            const Cell cell = read.cell(i);
            if (type == PlainType::kBoolean && !cell.is_null()) CHECK((cell.integer | 1) == 1);
            if (type == PlainType::kReal && !cell.is_null()) CHECK(!std::isnan(cell.real));
          }
        } catch (const Error& error) {
          CHECK(error.kind() == ErrorKind::kCorrupt);
        }
      }
    }
  }
}

TEST_CASE("storage: impossible directory entries are refused under a right checksum") {
  const Layout layout = rich_layout();
  SegmentInfo good;
  good.id = 4;
  good.rows = good.live_rows = 10;
  good.min_rowid = 1;
  good.max_rowid = 10;
  good.vectors.resize(4);
  good.plains.resize(4);
  good.zones.resize(4);
  const auto refused = [&](auto change) {
    SegmentInfo info = good;
    change(info);
    const std::string record = encode_segment(info, layout);
    thrown(ErrorKind::kCorrupt, [&] { decode_segment(as_bytes(record), 4, layout); });
  };
  const std::string record = encode_segment(good, layout);
  CHECK(decode_segment(as_bytes(record), 4, layout).rows == 10);
  Layout other = layout;
  other.plains.pop_back();
  thrown(ErrorKind::kCorrupt, [&] { decode_segment(as_bytes(record), 4, other); });
  refused([](SegmentInfo& info) { info.id = 5; });
  refused([](SegmentInfo& info) { info.rows = info.live_rows = 0; });
  refused([](SegmentInfo& info) { info.rows = (1u << 20) + 1; });
  refused([](SegmentInfo& info) { info.live_rows = 11; });
  refused([](SegmentInfo& info) { info.live_rows = 9; });
  refused([](SegmentInfo& info) { info.max_rowid = 11; });
  refused([](SegmentInfo& info) { info.min_rowid = 12; });
  refused([](SegmentInfo& info) {
    info.rowids = new_stamp();
    info.max_rowid = 9;
  });
  refused([](SegmentInfo& info) {
    info.zones[1].all_null = false;
    info.zones[1].low = info.zones[1].high = Value(Cell::of(std::nan("")));
    info.plains[1] = new_stamp();
  });
  refused([](SegmentInfo& info) { info.plains[2] = new_stamp(); });
}

TEST_CASE("storage: vectors that are not finite are refused under a right checksum") {
  Database db;
  Layout layout;
  layout.vectors = {{ElementType::kFloat32, 2}, {ElementType::kFloat16, 4}};
  layout.segment_rows = 1024;
  Store store = make_store(db, layout);
  store.create_tables();
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
  const std::string path = "/tmp/warplite_storage_test_" + std::to_string(std::random_device()());
  {
    Database writer(path.c_str());
    writer.run("PRAGMA journal_mode = WAL");
    Filled table(writer);
    Database reader(path.c_str());
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
  for (const char* suffix : {"", "-wal", "-shm"}) std::remove((path + suffix).c_str());
}

namespace {

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

// Random flushes, deaths, drops and rollbacks, against a model in memory.
TEST_CASE("storage: a long random history agrees with a model") {
  struct Model {
    std::map<std::int64_t, std::pair<SegmentInfo, std::vector<Row>>> segments;
    std::map<std::int64_t, Row> tail;  // by sequence
  };
  Database db;
  Layout layout = rich_layout();
  layout.aux = 0;
  Store store = make_store(db, layout);
  store.create_tables();
  Generator generator(layout, 5);
  std::mt19937 random(11);
  Model committed;
  RowId next_rowid = 1;
  for (int round = 0; round < 150; ++round) {
    Model model = committed;
    const Stamp before = store.read_generation();
    db.run("BEGIN");
    State state = store.read_state();
    for (unsigned step = random() % 3 + 1; step > 0; --step) {
      const unsigned action = random() % 5;
      if (action < 2) {
        const std::vector<Row> rows = generator.rows(next_rowid, random() % 40 + 1, 1 + round % 2);
        next_rowid = rows.back().rowid + 1;
        const Chunk chunk = make_chunk(layout, rows, round % 3 == 0 ? 0 : kBlockHeader);
        if (action == 0) {
          const SegmentInfo info = store.seal(state, refs(chunk));
          model.segments[info.id] = {info, rows};
        } else {
          const std::int64_t first = state.last_sequence + 1;
          store.append_tail(state, new_stamp(), refs(chunk));
          for (std::size_t i = 0; i < rows.size(); ++i) {
            model.tail[first + static_cast<std::int64_t>(i)] = rows[i];
          }
        }
      } else if (action == 2 && !model.segments.empty()) {
        SegmentInfo& info = model.segments.begin()->second.first;
        Bitmap alive(info.rows, true);
        for (std::uint32_t row = 0; row < info.rows; row += random() % 3 + 1) alive.reset(row);
        store.write_alive(info, alive);
      } else if (action == 3 && model.segments.size() > 3) {
        store.drop_segment(model.segments.begin()->second.first);
        model.segments.erase(model.segments.begin());
      } else if (action == 4 && random() % 4 == 0) {
        store.clear_tail(state);
        model.tail.clear();
      } else if (!model.tail.empty()) {
        const std::int64_t gone[] = {model.tail.rbegin()->first, model.tail.begin()->first};
        store.erase_tail(state, gone);
        for (std::int64_t sequence : gone) model.tail.erase(sequence);
      }
    }
    write_state(store, state);
    const bool keep = random() % 3 != 0;
    db.run(keep ? "COMMIT" : "ROLLBACK");
    CHECK((store.read_generation() == before) == !keep);
    if (keep) committed = std::move(model);

    REQUIRE(store.check(10) == std::vector<std::string>{});
    const std::vector<SegmentInfo> segments = store.read_segments();
    REQUIRE(segments.size() == committed.segments.size());
    for (const SegmentInfo& info : segments) {
      REQUIRE(info.live_rows == committed.segments[info.id].first.live_rows);
      check_segment(store, info, committed.segments[info.id].second);
    }
    REQUIRE(store.read_state().tail_rows == static_cast<std::int64_t>(committed.tail.size()));
    Chunk chunk(layout, static_cast<std::uint32_t>(committed.tail.size()));
    std::vector<std::int64_t> sequences;
    const Stamp newest = store.read_tail(0, chunk, sequences);
    CHECK(newest == store.read_state().last_flush);
    std::vector<Row> rows;
    for (const auto& [sequence, row] : committed.tail) rows.push_back(row);
    check_chunk(chunk, 0, rows);
  }
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
