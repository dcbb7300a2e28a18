// core/: half floats, top-k, bitmaps, columns, chunks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "core/bfloat16.h"
#include "core/bitmap.h"
#include "core/chunk.h"
#include "core/column.h"
#include "core/half.h"
#include "core/topk.h"
#include "core/utf8.h"
#include "tests/support/fakes/failing_allocator.h"

using namespace warplite;

namespace {

// The value of a binary16 from its definition, in double.
double half_value(std::uint16_t h) {
  const int exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ff;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 0x1f) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

using Random = std::mt19937_64;

}  // namespace

TEST_CASE("half: every bit pattern has its value and comes back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const double value = half_value(h);
    const float converted = half_to_float(h);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(converted));
      REQUIRE((float_to_half(converted) & 0x7fff) == 0x7e00);
      continue;
    }
    REQUIRE(static_cast<double>(converted) == value);
    REQUIRE(std::signbit(converted) == ((h & 0x8000) != 0));
    REQUIRE(float_to_half(converted) == h);
  }
}

TEST_CASE("half: rounds to nearest, ties to even, between all neighbours") {
  for (std::uint16_t h = 0; h < 0x7c00; ++h) {
    const double low = half_value(h);
    const double high = h == 0x7bff ? 65536 : half_value(static_cast<std::uint16_t>(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, 1e30f);
    const auto even = static_cast<std::uint16_t>(h + (h & 1));
    REQUIRE(float_to_half(below) == h);
    REQUIRE(float_to_half(middle) == even);
    REQUIRE(float_to_half(above) == h + 1);
    REQUIRE(float_to_half(-above) == (0x8000 | (h + 1)));
  }
  CHECK(float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_half(std::numeric_limits<float>::denorm_min()) == 0);
}

TEST_CASE("bfloat16: every bit pattern comes back, and neighbours round to nearest, ties to even") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    const float value = bfloat16_to_float(b);
    REQUIRE(std::bit_cast<std::uint32_t>(value) == bits << 16);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(bfloat16_to_float(float_to_bfloat16(value))));
      continue;
    }
    REQUIRE(float_to_bfloat16(value) == b);
    if (std::isinf(value)) continue;
    const auto between = [&](std::uint32_t rest) {
      return float_to_bfloat16(std::bit_cast<float>(bits << 16 | rest));
    };
    REQUIRE(between(0x7fff) == b);
    REQUIRE(between(0x8000) == b + (b & 1));  // beyond the largest: infinity
    REQUIRE(between(0x8001) == b + 1);
  }
  constexpr float kAlmostInfinity = std::numeric_limits<float>::signaling_NaN();
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(kAlmostInfinity))));
}

TEST_CASE("top-k: equals a sort, ties by rowid, for every k") {
  Random random(1);
  for (std::size_t n : {0, 1, 5, 31, 100, 1000}) {
    for (std::size_t k : {0, 1, 2, 10, 33, 100, 5000}) {
      std::vector<Hit> all;
      TopK top(k);
      for (std::size_t i = 0; i < n; ++i) {
        all.push_back({static_cast<double>(random() % 20), static_cast<RowId>(random() % 100000), 0,
                       static_cast<std::uint32_t>(i)});
        top.push(all.back());
      }
      std::sort(all.begin(), all.end());
      all.resize(std::min(n, k));
      const std::span<const Hit> found = top.sorted();
      REQUIRE(found.size() == all.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        REQUIRE(found[i].distance == all[i].distance);
        REQUIRE(found[i].rowid == all[i].rowid);
      }
      if (k > 0 && found.size() == k) CHECK(top.threshold() == found.back().distance);
    }
  }
}

TEST_CASE("top-k: parts merge to the whole and goes on after sorted()") {
  Random random(2);
  TopK whole(10), left(10), right(10);
  for (int i = 0; i < 500; ++i) {
    const Hit hit{static_cast<double>(random() % 50), i, 0, 0};
    whole.push(hit);
    (i % 3 == 0 ? left : right).push(hit);
    if (i % 100 == 0) whole.sorted();
  }
  left.tighten(right.sorted().back().distance);
  left.merge(right);
  const auto expected = whole.sorted(), found = left.sorted();
  REQUIRE(found.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(found[i].rowid == expected[i].rowid);
}

// Hits of a table lie in memory of all its rows until one has more of them than fit.
TEST_CASE("hit tables: rows equal a sort wherever their hits lie, merged, moved and replaced") {
  Random random(3);
  constexpr std::size_t kQueries = 7;
  for (const std::size_t k : {0, 1, 10, 128, 129}) {
    for (const std::size_t n : {0, 3, 10, 40, 400}) {
      compute::HitTable whole(kQueries, k), parts(kQueries, k);
      constexpr std::size_t kFirstRows = 4;
      for (const std::size_t first : {std::size_t{0}, kFirstRows}) {
        // The second lies where it belongs.
        compute::HitTable part =
            first == 0 ? compute::HitTable(kFirstRows, k) : parts.slice(first, kQueries - first);
        for (std::size_t i = 0; i < part.queries() * n; ++i) {
          const Hit hit{static_cast<double>(random() % 30), static_cast<RowId>(i), 0, 0};
          whole.row(first + i % part.queries()).push(hit);
          part.row(i % part.queries()).push(hit);
        }
        parts.merge(std::move(part), first);
      }
      compute::HitTable moved = std::move(parts), all(kQueries, k);
      all.merge(std::move(moved));
      compute::HitTable beside(kQueries, k);
      beside.row(2).push({-1, -1, 0, 0});
      whole.row(2).push({-1, -1, 0, 0});
      all.merge(std::move(beside));
      TopK apart = std::move(all.row(5));
      all.row(5) = std::move(apart);
      for (std::size_t q = 0; q < kQueries; ++q) {
        const auto expected = whole.sorted(q), found = all.sorted(q);
        CHECK(std::equal(expected.begin(), expected.end(), found.begin(), found.end(),
                         [](const Hit& a, const Hit& b) { return a.rowid == b.rowid; }));
      }
    }
  }
}

TEST_CASE("bitmap: counts, combines and resizes without stray bits") {
  for (std::size_t size : {0, 1, 63, 64, 65, 128, 1000}) {
    Bitmap full(size, true);
    CHECK(full.count() == size);
    CHECK(full.all());
    Bitmap other(size);
    for (std::size_t i = 0; i < size; i += 3) other.set(i);
    const std::size_t third = (size + 2) / 3;
    CHECK(other.count() == third);
    full &= other;
    CHECK(full.count() == third);
    full.resize(size + 70);
    CHECK(full.count() == third);
    full.resize(size + 100, true);
    CHECK(full.count() == third + 30);
    full.resize(size / 2);
    CHECK(full.count() == (size / 2 + 2) / 3);
    if (size > 0) {
      other.reset(0);
      CHECK(!other.test(0));
      CHECK(other.count() == third - 1);
    }
    other |= Bitmap(size, true);
    CHECK(other.all());
  }
}

TEST_CASE("column: appends, truncates and gathers each type, with NULLs") {
  for (PlainType type : {PlainType::kInteger, PlainType::kReal, PlainType::kText,
                         PlainType::kBoolean}) {
    Column column(type);
    std::vector<std::string> texts;
    for (int i = 0; i < 200; ++i) {
      texts.push_back(std::string(i % 7, static_cast<char>('a' + i % 26)));
    }
    const auto value = [&](int i) {
      if (i > 50 && i % 5 == 0) return Cell::null();
      if (type == PlainType::kReal) return Cell::of(i * 0.5);
      if (type == PlainType::kText) return Cell::text(texts[static_cast<std::size_t>(i)]);
      return Cell::of(static_cast<std::int64_t>(type == PlainType::kBoolean ? i % 2 : i));
    };
    const auto same = [&](const Column& from, std::size_t row, int i) {
      const Cell a = from.cell(row), b = value(i);
      REQUIRE(a.kind == b.kind);
      REQUIRE(from.is_null(row) == b.is_null());
      if (a.kind == CellKind::kInteger) REQUIRE(a.integer == b.integer);
      if (a.kind == CellKind::kReal) REQUIRE(a.real == b.real);
      REQUIRE(a.bytes == b.bytes);
    };
    for (int i = 0; i < 200; ++i) column.append(value(i));
    for (int i = 0; i < 200; ++i) same(column, static_cast<std::size_t>(i), i);
    CHECK(column.has_nulls());
    column.truncate(120);
    CHECK(column.size() == 120);
    for (int i = 120; i < 150; ++i) column.append(value(i));
    for (int i = 0; i < 150; ++i) same(column, static_cast<std::size_t>(i), i);
    Column gathered(type);
    const std::uint32_t rows[] = {149, 0, 55, 55, 7};
    gathered.gather(column, rows, 5);
    for (std::size_t i = 0; i < 5; ++i) same(gathered, i, static_cast<int>(rows[i]));
    column.truncate(40);
    CHECK(!column.has_nulls());
    column.truncate(0);
    CHECK(column.size() == 0);
    column.append(value(60));
    same(column, 0, 60);
  }
}

namespace {

Layout two_vectors() {
  Layout layout;
  layout.vectors = {{ElementType::kFloat32, 3}, {ElementType::kBit, 16}};
  layout.plains = {PlainType::kInteger, PlainType::kText};
  layout.aux = 1;
  return layout;
}

// Row i: its second vector is missing when i % 3 == 1, its text when i % 4 == 2.
void append_row(Chunk& chunk, RowId rowid, int i) {
  const float numbers[3] = {static_cast<float>(i), 1, 2};
  const char bits[2] = {static_cast<char>(i), 5};
  const std::string text = "row " + std::to_string(i), note = "note " + std::to_string(i);
  const Cell vectors[2] = {
      Cell::blob({reinterpret_cast<const char*>(numbers), sizeof numbers}),
      i % 3 == 1 ? Cell::null() : Cell::blob({bits, sizeof bits})};
  const Cell plains[2] = {Cell::of(std::int64_t{i}), i % 4 == 2 ? Cell::null() : Cell::text(text)};
  const Cell aux[1] = {Cell::text(note)};
  chunk.append({rowid, vectors, plains, aux});
}

void check_row(const Chunk& chunk, std::uint32_t row, RowId rowid, int i) {
  CHECK(chunk.rowids()[row] == rowid);
  float first = -1;
  std::memcpy(&first, chunk.vectors(0).row(row), sizeof first);
  CHECK(first == static_cast<float>(i));
  CHECK(chunk.has_vector(0, row));
  CHECK(chunk.has_vector(1, row) == (i % 3 != 1));
  const auto bits = static_cast<unsigned char>(*chunk.vectors(1).row(row));
  CHECK(bits == (i % 3 == 1 ? 0 : static_cast<unsigned char>(i)));
  CHECK(chunk.plain(0).cell(row).integer == i);
  CHECK(chunk.plain(1).is_null(row) == (i % 4 == 2));
  CHECK(chunk.aux(row, 0).cell().bytes == "note " + std::to_string(i));
}

}  // namespace

TEST_CASE("chunk: rows are found by rowid, in and out of order") {
  const Layout layout = two_vectors();
  Chunk chunk(layout, 50, 24);
  for (int i = 0; i < 20; ++i) append_row(chunk, 10 * i, i);
  CHECK(chunk.ascending());
  CHECK(chunk.find(70) == 7u);
  CHECK(!chunk.find(71));
  append_row(chunk, 35, 20);
  CHECK(!chunk.ascending());
  CHECK(chunk.find(35) == 20u);
  CHECK(chunk.find(70) == 7u);
  append_row(chunk, 36, 21);
  CHECK(chunk.find(36) == 21u);
  append_row(chunk, 70, 22);
  CHECK(chunk.find(70) == 22u);  // the last of two
  for (int i = 0; i < 20; ++i) check_row(chunk, static_cast<std::uint32_t>(i), 10 * i, i);
  CHECK(chunk.vectors(0).rows == 23);
  CHECK(chunk.vectors(0).data == chunk.vector_memory(0) + 24);
}

TEST_CASE("chunk: truncate drops rows from the end in every part") {
  const Layout layout = two_vectors();
  Chunk chunk(layout, 30);
  for (int i = 0; i < 12; ++i) append_row(chunk, 10 * i, i);
  append_row(chunk, 5, 12);
  append_row(chunk, 13, 13);
  CHECK(chunk.missing_vectors(1) == 5);
  CHECK(chunk.find(13) == 13u);
  chunk.truncate(9);
  CHECK(chunk.size() == 9);
  CHECK(chunk.ascending());
  CHECK(chunk.missing_vectors(1) == 3);
  CHECK(!chunk.find(5));
  CHECK(!chunk.find(13));
  CHECK(!chunk.find(90));
  CHECK(chunk.find(80) == 8u);
  for (int i = 9; i < 30; ++i) append_row(chunk, 10 * i, i);
  CHECK(chunk.full());
  for (int i = 0; i < 30; ++i) check_row(chunk, static_cast<std::uint32_t>(i), 10 * i, i);
  chunk.truncate(0);
  CHECK(chunk.size() == 0);
  CHECK(chunk.missing_vectors(1) == 0);
  CHECK(!chunk.find(0));
  append_row(chunk, 3, 4);
  check_row(chunk, 0, 3, 4);
}

namespace {

using testing::AllocationFault;
using testing::Allocator;

// Runs `body` again with allocation 0, 1, … failing, until nothing fails. `check` follows each.
template <class Body, class Check>
void fail_each_allocation(const Body& body, const Check& check) {
  for (long nth = 0;; ++nth) {
    bool fired = false;
    bool failed = false;
    {
      const AllocationFault fault(Allocator::kCpp, nth, false);
      try {
        body();
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      fired = fault.fired();
    }
    INFO("allocation ", nth);
    check(failed);
    if (!fired) return;
  }
}

const std::string kLongText(100, 'x');  // where it is stored, memory is asked for

}  // namespace

TEST_CASE("column: an append without memory changes nothing") {
  for (const std::size_t filled : {0u, 1u, 63u, 64u, 128u}) {
    for (const Cell& cell : {Cell::text(kLongText), Cell::null()}) {
      Column column(PlainType::kText);
      for (std::size_t i = 0; i < filled; ++i) column.append(Cell::text("y"));
      Column tested = column;  // without spare room
      fail_each_allocation([&] { tested.append(cell); },
                           [&](bool failed) {
                             if (failed) {
                               CHECK(tested.size() == filled);
                               tested.append(Cell::text("next"));
                               CHECK(tested.text(filled) == "next");
                               CHECK(!tested.is_null(filled));
                             }
                             for (std::size_t i = 0; i < filled; ++i) CHECK(tested.text(i) == "y");
                             tested = Column(PlainType::kText);
                             tested = Column(column);
                           });
    }
  }
}

TEST_CASE("chunk: rows come whole or not at all, and are found, without memory") {
  Layout layout;
  layout.vectors = {{ElementType::kFloat32, 1}};
  layout.plains = {PlainType::kInteger, PlainType::kText, PlainType::kText};
  layout.aux = 1;
  Chunk chunk(layout, 200);
  const float vector = 1;
  const Cell vectors[] = {Cell::blob({reinterpret_cast<const char*>(&vector), sizeof vector})};
  const auto append = [&](RowId rowid) {
    const Cell text = rowid % 3 == 0 ? Cell::null() : Cell::text(kLongText);
    const Cell plains[] = {Cell::of(rowid), text, text};
    const Cell aux[] = {Cell::text(kLongText)};
    chunk.append({rowid, vectors, plains, aux});
  };
  // Descending, so that they are found by an index.
  for (RowId rowid = 190; rowid > 40; --rowid) {
    const std::uint32_t before = chunk.size();
    fail_each_allocation([&] { if (chunk.size() == before) append(rowid); },
                         [&](bool) {
                           CHECK(chunk.plain(0).size() == chunk.size());
                           CHECK(chunk.plain(1).size() == chunk.size());
                           CHECK(chunk.plain(2).size() == chunk.size());
                         });
    REQUIRE(chunk.size() == before + 1);
    if (rowid % 50 != 0) continue;
    Chunk* const looked = &chunk;
    fail_each_allocation([&] { looked->find(rowid + 1); },
                         [&](bool) { CHECK(chunk.find(190) == 0u); });
  }
  for (std::uint32_t row = 0; row < chunk.size(); ++row) {
    const RowId rowid = chunk.rowids()[row];
    CHECK(chunk.plain(0).integers()[row] == rowid);
    CHECK(chunk.plain(1).text(row) == (rowid % 3 == 0 ? "" : kLongText));
    CHECK(chunk.plain(2).is_null(row) == (rowid % 3 == 0));
    CHECK(chunk.find(rowid) == row);
  }
}

TEST_CASE("what is printable is UTF-8, and no longer than it may be") {
  using namespace std::string_view_literals;
  CHECK(printable("plain \tä€😀\n", 100) == "plain \tä€😀\n");
  CHECK(printable("a\0b\x1b[1m\x7f"sv, 100) == "a\\x00b\\x1B[1m\\x7F");
  CHECK(printable("\xff\xc3(\xed\xa0\x80\xf0\x9f\x98", 100) == "\\xFF\\xC3(\\xED\\xA0\\x80\\xF0\\x9F\\x98");
  CHECK(printable("ééééé", 10) == "ééééé");
  CHECK(printable("ééééé", 9) == "ééé…");
  CHECK(printable("ééééé", 8) == "éé…");
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, ' ');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = printable(bytes, 30);
    CHECK(text.size() <= 30);
    CHECK(printable(text, 30) == text);
  }
}
