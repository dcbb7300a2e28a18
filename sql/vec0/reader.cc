#include "sql/vec0/reader.h"

#include <bit>
#include <cstring>
#include <map>

#include "core/error.h"
#include "sql/definition/values.h"
#include "sql/table/foreign_vec0.h"

namespace warplite::sql {
namespace {

static_assert(std::endian::native == std::endian::little, "vec0 tables are little-endian");

constexpr std::size_t kTextBytes = 16;    // of a text in a chunk: its length and
constexpr std::size_t kPrefixBytes = 12;  // its first bytes

template <typename T>
T read_at(std::string_view bytes, std::size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place * sizeof value, sizeof value);
  return value;
}

bool bit_at(std::string_view bytes, std::size_t place) {
  return ((static_cast<unsigned char>(bytes[place / 8]) >> (place % 8)) & 1) != 0;
}

std::uint64_t bits_per_row(const ColumnDefinition& column) {
  if (column.kind == ColumnKind::kVector) return 8 * bytes_per_vector(column.element, column.dim);
  switch (column.plain) {
    case PlainType::kBoolean:
      return 1;
    case PlainType::kText:
      return 8 * kTextBytes;
    default:
      return 64;
  }
}

void bind(sqlite3_stmt* statement, std::int64_t value) {
  sqlite3_reset(statement);
  sqlite3_bind_int64(statement, 1, value);
}

}  // namespace

Vec0Reader::Vec0Reader(sqlite3* db, const std::string& schema, const std::string& table,
                       const TableDefinition& columns)
    : db_(db), schema_(schema), table_(table) {
  std::map<ColumnKind, int> numbers;
  std::string partitions, aux;
  for (const ColumnDefinition& column : columns.columns) {
    Source source{&column, numbers[column.kind]++, {}, {}, {}, {}};
    if (column.kind == ColumnKind::kPartition) {
      partitions += ", " + numbered("partition", source.number);
    } else if (column.kind == ColumnKind::kAux) {
      aux += (aux.empty() ? "" : ", ") + numbered("value", source.number);
    } else {
      open(source);
    }
    sources_.push_back(std::move(source));
  }
  chunks_ = select("chunk_id, size, validity, rowids" + partitions, "chunks", "ORDER BY chunk_id");
  rowids_ = select("chunk_id, chunk_offset, id", "rowids", "WHERE rowid = ?1");
  has_aux_ = !aux.empty();
  if (has_aux_) aux_ = select(aux, "auxiliary", "WHERE rowid = ?1");
}

void Vec0Reader::fail(const std::string& table, const std::string& problem) const {
  throw Error(ErrorKind::kCorrupt, table + ": chunk " + std::to_string(chunk_) + ": " + problem);
}

Statement Vec0Reader::select(const std::string& what, const std::string& suffix,
                             const std::string& rest) const {
  try {
    return prepare(db_, "SELECT " + what + " FROM " + quoted_name(schema_) + "." +
                            quoted_name(shadow(suffix)) + " " + rest);
  } catch (const Error& error) {
    throw Error(error.kind(), error.host_code(),
                table_ + ": expected the shadow table " + shadow(suffix) +
                    " as sqlite-vec 0.1 writes it, got the error \"" + error.what() + "\"");
  }
}

void Vec0Reader::open(Source& source) {
  const bool vectors = source.column->kind == ColumnKind::kVector;
  if (!vectors && source.column->kind != ColumnKind::kPlain) return;
  const std::string suffix = numbered(vectors ? "vector_chunks" : "metadatachunks", source.number);
  source.shadow = shadow(suffix);
  source.blocks = select(vectors ? "vectors" : "data", suffix, "WHERE rowid = ?1");
  if (!vectors && source.column->plain == PlainType::kText) {
    source.texts = select("data", numbered("metadatatext", source.number), "WHERE rowid = ?1");
  }
}

bool Vec0Reader::next() {
  do {
    while (place_ == size_) {
      if (!next_chunk()) return false;
    }
    ++place_;
  } while (!bit_at(validity_, place_ - 1));
  rowid_ = read_at<RowId>(chunk_rowids_, place_ - 1);
  find_row();
  ++rows_;
  return true;
}

bool Vec0Reader::next_chunk() {
  if (!step(chunks_.get())) return false;
  chunk_ = sqlite3_column_int64(chunks_.get(), 0);
  const std::int64_t size = sqlite3_column_int64(chunks_.get(), 1);
  // sqlite-vec takes multiples of 8, up to 4,096.
  constexpr std::int64_t kMostPlaces = std::int64_t{1} << 24;
  if (size <= 0 || size % 8 != 0 || size > kMostPlaces) {
    fail(shadow("chunks"), "expected a size that is a multiple of 8, got " + std::to_string(size));
  }
  size_ = static_cast<std::size_t>(size);
  place_ = 0;
  const Cell validity = column_cell(chunks_.get(), 2), rowids = column_cell(chunks_.get(), 3);
  check_length(shadow("chunks"), "validity", validity, size_ / 8);
  check_length(shadow("chunks"), "rowids", rowids, size_ * sizeof(RowId));
  validity_ = validity.bytes;
  chunk_rowids_ = rowids.bytes;
  for (Source& source : sources_) {
    if (source.blocks != nullptr) load(source);
  }
  return true;
}

void Vec0Reader::check_length(const std::string& table, std::string_view what, const Cell& got,
                              std::uint64_t expected) const {
  if (got.kind == CellKind::kBlob && got.bytes.size() == expected) return;
  fail(table, std::string(what) + ": expected a BLOB of " + std::to_string(expected) +
                  " bytes, got " + describe(got));
}

void Vec0Reader::load(Source& source) {
  bind(source.blocks.get(), chunk_);
  if (!step(source.blocks.get())) fail(source.shadow, "there is no row for it");
  const Cell bytes = column_cell(source.blocks.get(), 0);
  check_length(source.shadow, source.column->name, bytes, size_ * bits_per_row(*source.column) / 8);
  source.bytes = bytes.bytes;
}

// Finds where T_rowids and T_auxiliary know the current row.
void Vec0Reader::find_row() {
  bind(rowids_.get(), rowid_);
  const std::string row = "row " + std::to_string(rowid_);
  if (!step(rowids_.get()) || sqlite3_column_int64(rowids_.get(), 0) != chunk_ ||
      sqlite3_column_int64(rowids_.get(), 1) != static_cast<std::int64_t>(place_ - 1)) {
    fail(shadow("rowids"), "expected " + row + " at offset " + std::to_string(place_ - 1) +
                               " of this chunk, as " + shadow("chunks") + " has it");
  }
  if (!has_aux_) return;
  bind(aux_.get(), rowid_);
  if (!step(aux_.get())) fail(shadow("auxiliary"), row + " is missing");
}

Cell Vec0Reader::cell_of_kind(Source& source) {
  constexpr int kFirstPartition = 4;  // in what chunks_ selects
  switch (source.column->kind) {
    case ColumnKind::kRowId:
      return Cell::of(rowid_);
    case ColumnKind::kTextKey:
      return column_cell(rowids_.get(), 2);
    case ColumnKind::kPartition:
      return column_cell(chunks_.get(), kFirstPartition + source.number);
    case ColumnKind::kAux:
      return column_cell(aux_.get(), source.number);
    case ColumnKind::kPlain:
      return metadata(source);
    case ColumnKind::kSparse:  // sqlite-vec has none
      return Cell::null();
    case ColumnKind::kVector:
      break;
  }
  const std::size_t size = bytes_per_vector(source.column->element, source.column->dim);
  return Cell::blob(source.bytes.substr((place_ - 1) * size, size));
}

Cell Vec0Reader::metadata(Source& source) {
  switch (source.column->plain) {
    case PlainType::kInteger:
      return Cell::of(read_at<std::int64_t>(source.bytes, place_ - 1));
    case PlainType::kReal:
      return Cell::of(read_at<double>(source.bytes, place_ - 1));
    case PlainType::kBoolean:
      return Cell::of(std::int64_t{bit_at(source.bytes, place_ - 1)});
    case PlainType::kText:
    case PlainType::kSparse:
      break;
  }
  return metadata_text(source);
}

Cell Vec0Reader::metadata_text(Source& source) {
  const std::string_view place = source.bytes.substr((place_ - 1) * kTextBytes, kTextBytes);
  const std::int32_t length = read_at<std::int32_t>(place, 0);
  const std::string where = "row " + std::to_string(rowid_) + ": " + source.column->name + ": ";
  if (length < 0) fail(source.shadow, where + "a text of " + std::to_string(length) + " bytes");
  const std::size_t bytes = static_cast<std::size_t>(length);
  if (bytes <= kPrefixBytes) return Cell::text(place.substr(sizeof length, bytes));
  bind(source.texts.get(), rowid_);
  const bool found = step(source.texts.get());
  const Cell text = found ? column_cell(source.texts.get(), 0) : Cell::null();
  if (text.kind != CellKind::kText || text.bytes.size() != bytes) {
    fail(shadow(numbered("metadatatext", source.number)),
         where + "expected a text of " + std::to_string(bytes) + " bytes, got " + describe(text));
  }
  return text;
}

std::uint64_t Vec0Reader::row_count() const {
  const Statement count = select("count(*)", "rowids", "");
  step(count.get());
  return static_cast<std::uint64_t>(sqlite3_column_int64(count.get(), 0));
}

void Vec0Reader::check_complete() const {
  const std::uint64_t expected = row_count();
  if (expected == rows_) return;
  throw Error(ErrorKind::kCorrupt, shadow("rowids") + " has " + std::to_string(expected) +
                                       " rows, " + shadow("chunks") + " has " +
                                       std::to_string(rows_));
}

}  // namespace warplite::sql
