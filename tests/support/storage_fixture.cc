#include "tests/support/storage_fixture.h"

#include <cstring>
#include <limits>
#include <string_view>

#include "core/elements.h"
#include "core/sparse.h"
#include "storage/codec/wire.h"

namespace warplite::storage {

bool same(const Cell& a, const Cell& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == CellKind::kInteger) return a.integer == b.integer;
  if (a.kind == CellKind::kReal) return std::memcmp(&a.real, &b.real, 8) == 0;  // -0.0 is not 0.0
  return a.bytes == b.bytes;
}

Row Generator::row(RowId rowid) {
  Row row{rowid, {}, {}, {}};
  for (const Layout::Vector& shape : layout_.vectors) row.vectors.push_back(vector(shape));
  for (PlainType type : layout_.plains) row.plains.push_back(plain(type));
  for (std::size_t i = 0; i < layout_.aux; ++i) {
    row.aux.push_back(plain(i % 2 == 0 ? PlainType::kText : PlainType::kReal));
  }
  return row;
}

std::vector<Row> Generator::rows(RowId first, std::size_t n, RowId step) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < n; ++i) rows.push_back(row(first + static_cast<RowId>(i) * step));
  return rows;
}

std::string Generator::vector(const Layout::Vector& shape) {
  if (chance(nulls)) return {};
  std::string bytes(shape.stride(), '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random_());
  with_numbers(shape.type, [&]<ElementType kType>() {
    if constexpr (is_real(kType)) {
      for (std::size_t i = 0; i < shape.dim; ++i) {
        const float value = static_cast<float>(random_()) * 1e-15f;
        write_element<kType>(value, reinterpret_cast<std::byte*>(bytes.data()), i);
      }
    }
  });
  return bytes;
}

Value Generator::plain(PlainType type) {
  if (chance(nulls)) return Value();
  switch (type) {
    case PlainType::kInteger: return integer();
    case PlainType::kBoolean: return Value(Cell::of(static_cast<std::int64_t>(below(2))));
    case PlainType::kReal: return real();
    case PlainType::kText: return text();
    case PlainType::kSparse: return sparse();
  }
  return Value();
}

Value Generator::integer() {
  constexpr std::int64_t kOdd[] = {std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max(), 0, -1};
  return Value(Cell::of(chance(0.2) ? kOdd[below(4)] : static_cast<std::int64_t>(random_())));
}

Value Generator::real() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kOdd[] = {0.0, -0.0, kInfinity, -kInfinity, 5e-324};
  return Value(Cell::of(chance(0.2) ? kOdd[below(5)] : static_cast<double>(random_()) / 3));
}

Value Generator::text() {
  using namespace std::string_view_literals;
  constexpr std::string_view kOdd[] = {""sv, "a\0b\0"sv, "\xff\xfe\x80"sv, "Ærlig\0\0"sv};
  if (few_texts || chance(0.2)) return Value(Cell::text(kOdd[below(4)]));
  std::string text(below(40), 'x');
  for (char& c : text) c = static_cast<char>(random_());
  return Value(Cell::text(text));
}

Value Generator::sparse() {
  std::vector<SparseEntry> entries;
  for (std::uint32_t index = 0; index < kSparseDim && !chance(0.1);) {
    index += static_cast<std::uint32_t>(chance(0.8) ? below(100) : below(100000));
    if (index >= kSparseDim) break;
    entries.push_back({index++, static_cast<float>(random_()) * 1e-15f});
  }
  std::string bytes;
  append_sparse(entries, bytes);
  return Value(Cell::blob(bytes));
}

Layout rich_layout() {
  Layout layout;
  layout.vectors = {{ElementType::kFloat32, 5}, {ElementType::kFloat16, 3},
                    {ElementType::kInt8, 7}, {ElementType::kBit, 24}};
  layout.plains = {PlainType::kInteger, PlainType::kReal, PlainType::kText, PlainType::kBoolean};
  layout.aux = 2;
  layout.segment_rows = 1024;
  return layout;
}

namespace {

void append(Chunk& chunk, const Row& row) {
  std::vector<Cell> vectors, plains, aux;
  for (const std::string& bytes : row.vectors) {
    vectors.push_back(bytes.empty() ? Cell::null() : Cell::blob(bytes));
  }
  for (const Value& value : row.plains) plains.push_back(value.cell());
  for (const Value& value : row.aux) aux.push_back(value.cell());
  chunk.append({row.rowid, vectors.data(), plains.data(), aux.data()});
}

}  // namespace

Chunk make_chunk(const Layout& layout, const std::vector<Row>& rows,
                 std::size_t header) {
  Chunk chunk(layout, static_cast<std::uint32_t>(rows.size()), header);
  for (const Row& row : rows) append(chunk, row);
  return chunk;
}

std::vector<RowRef> refs(const Chunk& chunk) {
  std::vector<RowRef> refs;
  for (std::uint32_t row = 0; row < chunk.size(); ++row) refs.push_back({&chunk, row});
  return refs;
}

Store create_store(Database& db, const Layout& layout) {
  Store(db.get(), "main", "papers", layout).create_tables();
  return Store(db.get(), "main", "papers", layout);
}

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

void write_state(Store& store, State& state) {
  state.directory = {};
  for (const SegmentInfo& segment : store.read_segments()) state.directory.add(segment);
  store.write_state(state);
}

namespace {

constexpr std::string_view kModel = "a model that somebody made", kCodes = "codes of some rows";

bool same(const OpaqueBlock& block, std::string_view bytes) {
  return block.payload.size() == bytes.size() &&
         std::memcmp(block.payload.data(), bytes.data(), bytes.size()) == 0;
}

Layout key_layout() {
  Layout layout = rich_layout();
  layout.text_key = 2;
  return layout;
}

}  // namespace

Filled::Filled(Database& database, const std::string& schema, const std::string& table)
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
  store.write_model(state, 1, as_bytes(kModel));
  store.write_codes(info, 1, state.models[1], as_bytes(kCodes));
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

void Filled::read_all() {
  const State state = store.read_state();
  const OpaqueBlock model = store.load_model(state.models[1], 1);
  REQUIRE(same(model, kModel));
  for (const SegmentInfo& segment : store.read_segments()) {
    check_segment(store, segment, rows);
    store.load_alive(segment);
    REQUIRE(segment.codes[1].model == state.models[1]);
    const OpaqueBlock codes = store.load_codes(segment, 1);
    REQUIRE(same(codes, kCodes));
  }
  Chunk chunk(layout, 3);
  std::vector<std::int64_t> sequences;
  store.read_tail(0, chunk, sequences);
  check_chunk(chunk, 0, tail);
}

}  // namespace warplite::storage
