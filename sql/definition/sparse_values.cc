#include "sql/definition/sparse_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/process/interruption.h"
#include "sql/definition/json_vector.h"
#include "sql/host/json_reader.h"
#include "sql/host/number_text.h"

namespace warplite::sql {
namespace {

std::string expectation(std::uint32_t dim) {
  const std::string declared = dim == kMostSparseDim ? "a sparse" : "a SPARSE[" + std::to_string(dim) + "]";
  return declared + " vector (a JSON object such as {\"17\":0.5}, a JSON array of pairs such as "
         "[[17,0.5]], or a BLOB of pairs of a uint32 index and a float32 value, which ascend; indexes "
         "are below " + std::to_string(dim) + " and come once, values are finite)";
}

[[noreturn]] void refuse(const Place& where, std::uint32_t dim, const std::string& got) {
  throw Error(ErrorKind::kInvalid,
              where.text() + ": expected " + expectation(dim) + ", got " + got);
}

class Entries {
 public:
  Entries(std::uint32_t dim, const Place& where) : dim_(dim), where_(where) {}

  // The message shows the index as it was written, if that is given.
  void add(std::uint64_t index, double value, std::string_view written = {}) {
    if (index >= dim_) {
      misfit("the index " + (written.empty() ? std::to_string(index) : std::string(written)));
    }
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) {
      misfit(std::isnan(value) ? "NaN" : std::isinf(value) ? "infinity" : "a value beyond float32");
    }
    entries_.push_back({static_cast<std::uint32_t>(index), narrow});
  }
  void add_ascending(std::uint32_t index, float value) {
    if (!entries_.empty() && index <= entries_.back().index) {
      misfit("the index " + std::to_string(index) + " after " +
             std::to_string(entries_.back().index));
    }
    add(index, static_cast<double>(value));
  }
  // What follows add() in any order: members of a JSON object have none.
  void sort() {
    const auto before = [](const SparseEntry& a, const SparseEntry& b) { return a.index < b.index; };
    if (!std::is_sorted(entries_.begin(), entries_.end(), before)) {
      interruptible_sort(entries_.begin(), entries_.end(), before);
    }
    const auto twice = std::adjacent_find(
        entries_.begin(), entries_.end(),
        [](const SparseEntry& a, const SparseEntry& b) { return a.index == b.index; });
    if (twice != entries_.end()) unexpected("the index " + std::to_string(twice->index) + " twice");
  }
  [[noreturn]] void misfit(const std::string& what) const {
    refuse(where_, dim_, what + " as entry [" + std::to_string(entries_.size()) + "]");
  }
  [[noreturn]] void unexpected(const std::string& what) const { refuse(where_, dim_, what); }

  VectorInput stored() const {
    std::string bytes;
    append_sparse(entries_, bytes);
    VectorInput vector;
    vector.dim = static_cast<std::uint32_t>(entries_.size());
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    vector.owned.assign(data, data + bytes.size());
    vector.data = vector.owned.data();
    vector.size = vector.owned.size();
    return vector;
  }

 private:
  const std::uint32_t dim_;
  const Place& where_;
  std::vector<SparseEntry> entries_;
};

double real_of(const Cell& number) {
  return number.kind == CellKind::kInteger ? static_cast<double>(number.integer) : number.real;
}

class SparseParser {
 public:
  SparseParser(std::string_view text, Entries& entries)
      : text_(text), reader_(text, JsonReader::Numbers::kDecimal), entries_(entries) {}

  void parse() {
    const JsonToken first = reader_.next();
    if (first == JsonToken::kObjectBegin) {
      while (reader_.next() != JsonToken::kObjectEnd) add_member();
    } else if (first == JsonToken::kListBegin) {
      for (JsonToken token; (token = reader_.next()) != JsonToken::kListEnd;) add_pair(token);
    } else {
      entries_.unexpected("JSON that is neither an object nor an array");
    }
    reader_.next();  // the end, or it throws
    entries_.sort();
  }

 private:
  void add_member() {
    const std::string key = reader_.string();
    std::uint64_t index = 0;
    const char* const end = key.data() + key.size();
    const auto read = std::from_chars(key.data(), end, index);
    if (read.ec != std::errc() || read.ptr != end) {
      entries_.misfit("the key \"" + key.substr(0, 40) + "\", which is no index");
    }
    entries_.add(index, read_value(), key);
  }

  void add_pair(JsonToken token) {
    if (token != JsonToken::kListBegin) entries_.misfit("what is no pair");
    if (reader_.next() != JsonToken::kNumber) entries_.misfit("a pair without an index");
    const Cell number = reader_.number();
    const std::string written(written_token());
    if (number.kind != CellKind::kInteger || number.integer < 0) {
      entries_.misfit("the index " + written);
    }
    const double value = read_value();
    if (reader_.next() != JsonToken::kListEnd) entries_.misfit("a list of more than two");
    entries_.add(static_cast<std::uint64_t>(number.integer), value, written);
  }

  double read_value() {
    if (reader_.next() != JsonToken::kNumber) entries_.misfit("no number as the value");
    return real_of(reader_.number());
  }

  std::string_view written_token() const {
    return text_.substr(reader_.begin(), reader_.end() - reader_.begin());
  }

  const std::string_view text_;
  JsonReader reader_;
  Entries& entries_;
};

void read_json(std::string_view text, Entries& entries) {
  try {
    SparseParser(text, entries).parse();
  } catch (const JsonError& error) {
    entries.unexpected(error.what() + std::string(advice_on_bytes(text)));
  }
}

void read_pairs(std::string_view blob, Entries& entries) {
  if (blob.size() % sizeof(SparseEntry) != 0) entries.unexpected(describe(Cell::blob(blob)));
  for (std::size_t at = 0; at < blob.size(); at += sizeof(SparseEntry)) {
    SparseEntry entry;
    std::memcpy(&entry, blob.data() + at, sizeof entry);
    entries.add_ascending(entry.index, entry.value);
  }
}

// The parts of a matrix of compressed rows, checked against each other. Memory needs no alignment.
class Csr {
 public:
  // Throws Error{kInvalid}, after `where`, when they do not fit together.
  Csr(std::string_view indptr, std::string_view indices, std::string_view values,
      const Place& where)
      : indptr_(indptr), indices_(indices), values_(values) {
    const auto entries = static_cast<std::int64_t>(values.size() / sizeof(float));
    bool fits = indptr.size() >= sizeof(std::int64_t) && indptr.size() % sizeof(std::int64_t) == 0 &&
                values.size() % sizeof(float) == 0 && indices.size() == values.size() &&
                begin(0) == 0 && begin(rows()) == entries;
    for (std::size_t row = 0; fits && row < rows(); ++row) fits = begin(row) <= begin(row + 1);
    if (fits) return;
    throw Error(ErrorKind::kInvalid,
                where.text() + ": expected indptr as int64[rows + 1], which ascends from 0 to the "
                "number of entries, indices as uint32 and values as float32 of each entry, got " +
                    std::to_string(indptr.size()) + ", " + std::to_string(indices.size()) +
                    " and " + std::to_string(values.size()) + " bytes");
  }

  std::size_t rows() const { return indptr_.size() / sizeof(std::int64_t) - 1; }
  void read(std::size_t row, Entries& entries) const {
    for (std::int64_t i = begin(row); i < begin(row + 1); ++i) {
      const auto at = static_cast<std::size_t>(i);
      entries.add_ascending(number<std::uint32_t>(indices_, at), number<float>(values_, at));
    }
  }

 private:
  template <typename T>
  static T number(std::string_view bytes, std::size_t i) {
    T number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    return number;
  }
  std::int64_t begin(std::size_t row) const { return number<std::int64_t>(indptr_, row); }

  const std::string_view indptr_, indices_, values_;
};

std::string_view blob_of(const Cell& cell, const char* what, const Place& where) {
  if (cell.kind == CellKind::kBlob) return cell.bytes;
  throw Error(ErrorKind::kInvalid,
              where.text() + ": expected " + what + " as a BLOB, got " + describe(cell));
}

// The shortest decimal number that is this float32.
void append_number(float value, std::string& to) {
  char text[64];
  for (int digits = 6; digits <= 9; ++digits) {
    sqlite3_snprintf(sizeof text, text, "%.*g", digits, static_cast<double>(value));
    const auto number = number_of(text);
    if (number && static_cast<float>(real_of(*number)) == value) break;
  }
  to += text;
}

template <typename Visit>
void each_entry(const char* stored, Visit&& visit) {
  for (SparseReader reader(stored); reader.left() != 0;) visit(reader.next());
}

}  // namespace

bool is_sparse(sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  if (type == SQLITE_BLOB) return sqlite3_value_subtype(value) == kSparseSubtype;
  if (type != SQLITE_TEXT) return false;
  constexpr const char* kSpace = " \t\n\r";
  const std::string_view text = cell_of(value).bytes;
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return false;
  if (text[first] != '[') return text[first] == '{';
  const std::size_t second = text.find_first_not_of(kSpace, first + 1);
  return second != text.npos && text[second] == '[';
}

VectorInput sparse_from_cell(const Cell& cell, std::uint32_t dim, const Place& where) {
  Entries entries(dim, where);
  switch (cell.kind) {
    case CellKind::kText: read_json(cell.bytes, entries); break;
    case CellKind::kBlob: read_pairs(cell.bytes, entries); break;
    default: entries.unexpected(describe(cell));
  }
  return entries.stored();
}

VectorInput sparse_value(sqlite3_value* value, std::uint32_t dim, const Place& where) {
  if (const auto dense = marked_type(value)) {
    refuse(where, dim, "a vector of " + std::string(type_name(*dense)));
  }
  return sparse_from_cell(cell_of(value), dim, where);
}

VectorInput column_vector(sqlite3_value* value, const ColumnDefinition& column,
                          const Place& where) {
  return column.kind == ColumnKind::kSparse
             ? sparse_value(value, column.dim, where)
             : vector_for_column(value, column.element, column.dim, where);
}

std::string csr_blob(const Cell& indptr, const Cell& indices, const Cell& values,
                     const Place& where) {
  const std::string_view begins = blob_of(indptr, "indptr", where);
  const std::string_view indexes = blob_of(indices, "indices", where);
  const std::string_view numbers = blob_of(values, "values", where);
  const auto rows = static_cast<std::int64_t>(Csr(begins, indexes, numbers, where).rows());
  std::string blob(reinterpret_cast<const char*>(&rows), sizeof rows);
  return blob.append(begins).append(indexes).append(numbers);
}

std::size_t csr_rows(const Cell& blob, std::uint32_t dim, const Place& where,
                     std::vector<std::byte>& to) {
  std::string_view bytes = blob_of(blob, "what warp_csr(indptr, indices, values) returns", where);
  std::uint64_t rows = 0;
  const std::size_t whole = bytes.size();
  if (whole >= sizeof rows) std::memcpy(&rows, bytes.data(), sizeof rows);
  bytes.remove_prefix(std::min(whole, sizeof rows));
  const std::uint64_t most = bytes.size() / sizeof(std::int64_t);  // numbers of indptr
  const std::size_t begins =
      rows < most ? static_cast<std::size_t>(rows + 1) * sizeof(std::int64_t) : 0;
  const std::size_t half = (bytes.size() - begins) / 2;
  const Csr matrix(bytes.substr(0, begins), bytes.substr(begins, half),
                   bytes.substr(begins + half), where);
  for (std::size_t row = 0; row < matrix.rows(); ++row) {
    if (row % 64 == 0) poll_interruption();
    const std::string place = where.text() + ": query [" + std::to_string(row) + "]";
    const Place of_row(place);
    Entries entries(dim, of_row);
    matrix.read(row, entries);
    const VectorInput stored = entries.stored();
    to.insert(to.end(), stored.owned.begin(), stored.owned.end());
  }
  return matrix.rows();
}

std::string sparse_pairs(const char* stored) {
  std::string pairs;
  each_entry(stored, [&](const SparseEntry& entry) {
    pairs.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  });
  return pairs;
}

std::string sparse_to_json(const char* stored) {
  std::string json = "{";
  each_entry(stored, [&](const SparseEntry& entry) {
    if (json.size() > 1) json += ',';
    json += '"' + std::to_string(entry.index) + "\":";
    append_number(entry.value, json);
  });
  return json + "}";
}

void result_sparse(sqlite3_context* context, const char* stored) {
  const std::string pairs = sparse_pairs(stored);
  sqlite3_result_blob64(context, pairs.data(), pairs.size(), SQLITE_TRANSIENT);
  sqlite3_result_subtype(context, kSparseSubtype);
}

}  // namespace warplite::sql
