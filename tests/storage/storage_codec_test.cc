// The bytes of storage without a database: checksums, zones, plain columns, directory entries;
// forged ones under a right checksum decode to an error or to valid values.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/sparse.h"
#include "storage/codec/checksum.h"
#include "storage/codec/column_codec.h"
#include "storage/codec/segment_codec.h"
#include "storage/codec/wire.h"
#include "tests/support/storage_fixture.h"

namespace warplite::storage {

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

// Damage under a right checksum: decoding alone must stay in bounds.
TEST_CASE("storage: forged payloads decode to an error or to valid values") {
  Layout layout = rich_layout();
  layout.plains.push_back(PlainType::kSparse);
  layout.sparse_dims = {0, 0, 0, 0, kSparseDim};
  Generator generator(layout);
  std::mt19937_64 random(3);
  for (bool few : {false, true}) {
    generator.few_texts = few;
    const Chunk chunk = make_chunk(layout, generator.rows(1, 40));
    for (std::size_t column = 0; column < layout.plains.size(); ++column) {
      const PlainType type = layout.plains[column];
      const std::uint32_t dim = layout.sparse_dim(column);
      std::string good;
      encode_column(chunk.plain(column), good);
      for (int round = 0; round < 4000; ++round) {
        std::string bad = good;
        for (std::uint64_t i = random() % 3 + 1; i > 0; --i) {
          bad[random() % (round % 2 == 0 ? bad.size() : 40)] = static_cast<char>(random());
        }
        if (round % 5 == 0) bad.resize(random() % (bad.size() + 8));
        try {
          const Column read = decode_column(type, 40, as_bytes(bad), dim);
          REQUIRE(read.size() == 40);
          for (std::size_t i = 0; i < 40; ++i) {
            const Cell cell = read.cell(i);
            if (type == PlainType::kBoolean && !cell.is_null()) CHECK((cell.integer | 1) == 1);
            if (type == PlainType::kReal && !cell.is_null()) CHECK(!std::isnan(cell.real));
            if (type != PlainType::kSparse || cell.is_null()) continue;
            SparseReader reader(cell.bytes.data());
            while (reader.left() != 0) CHECK(reader.next().index < dim);
          }
        } catch (const Error& error) {
          CHECK(error.kind() == ErrorKind::kCorrupt);
        }
      }
    }
  }
}

TEST_CASE("storage: a dictionary stays one in memory, however many rows have its texts") {
  constexpr std::size_t kRows = 60000;
  const std::string text(3000, 'x'), other = "y";
  Column column(PlainType::kText);
  for (std::size_t row = 0; row < kRows; ++row) {
    column.append(row % 7 == 0 ? Cell::null() : Cell::text(row == 3 ? other : text));
  }
  std::string payload;
  encode_column(column, payload);
  const Column read = decode_column(PlainType::kText, kRows, as_bytes(payload));
  CHECK(read.memory() < (std::size_t{1} << 19));
  CHECK(read.coded());
  CHECK(read.entries() == 3);  // one of them for NULL
  CHECK(read.text(0).empty());
  CHECK(read.text(1) == text);
  CHECK(read.text(3) == other);
  CHECK(read.is_null(7));
  std::string again;
  encode_column(read, again);
  CHECK(again == payload);
  const std::uint32_t rows[] = {3, 0, 1};
  Column some(PlainType::kText);
  some.gather(read, rows, 3);
  CHECK(some.text(0) == other);
  CHECK(some.is_null(1));
  CHECK(some.text(2) == text);
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
  refused([](SegmentInfo& info) {  // more than a segment of the table has
    info.rows = info.live_rows = 1025;
    info.max_rowid = 1025;
  });
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
  refused([](SegmentInfo& info) {  // codes of vectors that are not there
    info.codes.resize(4);
    info.codes[1] = {new_stamp(), new_stamp()};
  });
  refused([](SegmentInfo& info) {
    info.vectors[1] = new_stamp();
    info.codes.resize(4);
    info.codes[1] = {new_stamp(), {}};
  });
  refused([](SegmentInfo& info) {  // a column that the table does not have
    info.codes.resize(5);
    info.codes[4] = {new_stamp(), new_stamp()};
  });
}

TEST_CASE("storage: a state record names models of columns that there are") {
  State state;
  state.generation = state.tail_epoch = new_stamp();
  state.models = {{}, new_stamp(), {}, new_stamp()};
  const std::string record = encode_state(state);
  Layout layout = rich_layout();
  CHECK(decode_state(as_bytes(record), layout).models == state.models);
  layout.vectors.pop_back();
  thrown(ErrorKind::kCorrupt, [&] { decode_state(as_bytes(record), layout); });
  // Without models the record is as short as it can be.
  state.models.clear();
  CHECK(encode_state(state).size() == 112);
}

TEST_CASE("storage: a state record from before the tail had a digest is read") {
  const Layout layout = rich_layout();
  State state;
  state.generation = state.tail_epoch = new_stamp();
  state.tail_digest = 77;
  const std::string now = encode_state(state);
  CHECK(decode_state(as_bytes(now), layout).tail_digest == 77);
  state.tail_digest.reset();
  const std::string before = encode_state(state);
  CHECK(before.size() == 104);
  CHECK(before.substr(0, 4) == "WPST");
  CHECK(!decode_state(as_bytes(before), layout).tail_digest);
  CHECK(decode_generation(as_bytes(before)) == state.generation);
  CHECK(decode_generation(as_bytes(now)) == state.generation);
}

}  // namespace warplite::storage
