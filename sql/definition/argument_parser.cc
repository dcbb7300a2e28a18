#include "sql/definition/argument_parser.h"

#include <charconv>
#include <utility>

#include "compute/spelling.h"
#include "core/sparse.h"

namespace warplite::sql {

namespace {

constexpr std::uint32_t kMaxDimension = 65536;
constexpr std::uint32_t kMostBuckets = 1u << 20;

struct PlainName {
  std::string_view name;
  PlainType type;
  const char* declared;
};
constexpr PlainName kPlainNames[] = {
    {"text", PlainType::kText, "TEXT"},          {"varchar", PlainType::kText, "TEXT"},
    {"integer", PlainType::kInteger, "INTEGER"}, {"int", PlainType::kInteger, "INTEGER"},
    {"bigint", PlainType::kInteger, "INTEGER"},  {"int64", PlainType::kInteger, "INTEGER"},
    {"real", PlainType::kReal, "REAL"},          {"float", PlainType::kReal, "REAL"},
    {"double", PlainType::kReal, "REAL"},        {"float64", PlainType::kReal, "REAL"},
    {"bool", PlainType::kBoolean, "BOOLEAN"},    {"boolean", PlainType::kBoolean, "BOOLEAN"},
};

// "a type: FLOAT[n], …, INTEGER, REAL, TEXT or BOOLEAN"
std::string types_expected() {
  std::string text = "a type: ";
  for (const ElementInfo& row : kElementTypes) text += std::string(row.declared) + "[n], ";
  return text + "SPARSE[n], INTEGER, REAL, TEXT or BOOLEAN";
}

template <typename Row, std::size_t n>
const Row* lookup(const Row (&rows)[n], std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Finds a vector type by one of its spellings.
const ElementInfo* vector_type_named(std::string_view name) {
  for (const ElementInfo& row : kElementTypes) {
    for (const std::string_view spelling : row.spellings) {
      if (!spelling.empty() && spelling == name) return &row;
    }
  }
  return nullptr;
}

}  // namespace

void ArgumentParser::table_option(TableDefinition& definition) {
  const std::string option = ascii_lower(take().text);
  take();
  const bool names = option == "content" || option == "content_rowid";
  const std::string given =
      names && token().kind == Token::Kind::kBracket ? take().text : value("a value");
  if (option == "content" && token().is('.')) {
    fail("a content table is one of the index's own schema; expected its name alone");
  }
  if (token().kind != Token::Kind::kEnd) expected("the end");
  if (option == "chunk_size") {  // of vec0 tables; segments have a size of their own here
    std::uint32_t rows = 0;
    const char* end = given.data() + given.size();
    const auto result = std::from_chars(given.data(), end, rows);
    if (result.ec != std::errc() || result.ptr != end || rows == 0) {
      fail("chunk_size must be a positive integer, got \"" + given + "\"");
    }
  } else if (option == "store") {
    if (ascii_lower(given) != "codes") {
      fail("store= takes codes, got \"" + given + "\"");
    }
    definition.codes_only = true;
  } else if (names) {
    if (given.empty()) fail(option + "= must name a " + (option == "content" ? "table" : "column"));
    (option == "content" ? definition.content.table : definition.content.rowid) = given;
  } else if (option == "sync") {
    const std::string lower = ascii_lower(given);
    if (lower != "triggers" && lower != "manual") {
      fail("sync= takes triggers or manual, got \"" + given + "\"");
    }
    definition.content.triggers = lower == "triggers";
  } else {
    const std::string known = "chunk_size=, store=, content=, content_rowid=, sync=";
    fail("unknown table option \"" + option + "\"; expected a column, or one of " + known +
         compute::did_you_mean(option, known));
  }
}

ColumnDefinition ArgumentParser::column() {
  ColumnDefinition column;
  const bool aux = accept('+');
  column.name = name();
  if (aux) {
    aux_type(column);
    if (token().kind != Token::Kind::kEnd) expected("the end: +columns have no options");
    return column;
  }
  type(column);
  while (token().kind != Token::Kind::kEnd) option(column);
  if (column.kind == ColumnKind::kTextKey && has_collation_) {
    fail("a TEXT PRIMARY KEY is BINARY; expected no COLLATE");
  }
  if (column.kind == ColumnKind::kSparse && has_index_) {
    fail("a SPARSE column has postings; expected no index=");
  }
  if (!column.is_vector() && has_index_) check_plain_index(column);
  if (column.kind == ColumnKind::kVector) {
    check_index(column);
  } else if (column.index.kind == "match") {
    check_match_index(column);
  } else if (index::is_text_index(column.index.kind)) {
    text_index(column);
  } else if (column.text.by_edits() && !column.index.parameters.empty()) {
    fail("index=flat takes no parameters");
  }
  return column;
}

std::string ArgumentParser::name() {
  const Token::Kind kind = token().kind;
  if (kind != Token::Kind::kWord && kind != Token::Kind::kQuoted &&
      kind != Token::Kind::kBracket) {
    expected("a column name");
  }
  std::string result = take().text;
  if (result.empty()) fail("a column name must not be empty");
  if (result.find('\0') != std::string::npos) fail("a column name must not contain NUL");
  return result;
}

std::string ArgumentParser::value(std::string_view what) {
  const Token::Kind kind = token().kind;
  if (kind != Token::Kind::kWord && kind != Token::Kind::kQuoted &&
      kind != Token::Kind::kNumber) {
    expected(what);
  }
  return take().text;
}

void ArgumentParser::type(ColumnDefinition& column) {
  if (token().kind != Token::Kind::kWord) expected(types_expected());
  const std::string word = ascii_lower(token().text);
  const ElementInfo* vector = vector_type_named(word);
  const PlainName* plain = lookup(kPlainNames, word);
  if (vector != nullptr && (tokens_[at_ + 1].kind == Token::Kind::kBracket || plain == nullptr)) {
    take();
    vector_type(column, vector->type);
    return;
  }
  if (word == "sparse") {
    take();
    return sparse_type(column);
  }
  if (plain == nullptr) expected(types_expected());
  take();
  column.plain = plain->type;
  column.declared = plain->declared;
}

void ArgumentParser::aux_type(ColumnDefinition& column) {
  column.kind = ColumnKind::kAux;
  if (token().kind == Token::Kind::kEnd) return;
  const std::string word = ascii_lower(token().text);
  const PlainName* plain = lookup(kPlainNames, word);
  if (token().kind != Token::Kind::kWord || (plain == nullptr && word != "blob")) {
    expected("a type for a +column: INTEGER, REAL, TEXT, BOOLEAN, BLOB or none");
  }
  take();
  column.declared = plain != nullptr ? plain->declared : "BLOB";
}

void ArgumentParser::vector_type(ColumnDefinition& column, ElementType type) {
  column.kind = ColumnKind::kVector;
  column.declared = "BLOB";
  column.element = type;
  column.distance = default_distance(type);
  column.dim = dimension("FLOAT[768]", kMaxDimension);
  if (is_bits(type) && column.dim % 8 != 0) {
    fail("the dimension of a BIT column must be a multiple of 8, got " +
         std::to_string(column.dim));
  }
}

void ArgumentParser::sparse_type(ColumnDefinition& column) {
  column.kind = ColumnKind::kSparse;
  column.declared = "BLOB";
  column.plain = PlainType::kSparse;
  column.distance = Distance::kInnerProduct;
  column.index.kind = "postings";
  column.dim = dimension("SPARSE[30522]", kMostSparseDim);
}

// Reads "[n]".
std::uint32_t ArgumentParser::dimension(const std::string& example, std::uint32_t most) {
  if (token().kind != Token::Kind::kBracket) expected("a dimension in brackets, as " + example);
  const std::string digits = take().text;
  const char* end = digits.data() + digits.size();
  std::uint32_t dim = 0;
  const auto result = std::from_chars(digits.data(), end, dim);
  if (result.ec != std::errc() || result.ptr != end || dim == 0 || dim > most) {
    fail("expected a dimension from 1 to " + std::to_string(most) + ", got \"" + digits + "\"");
  }
  return dim;
}

void ArgumentParser::option(ColumnDefinition& column) {
  if (token().is_word("primary")) {
    key(column, column.plain == PlainType::kText ? ColumnKind::kTextKey : ColumnKind::kRowId);
  } else if (token().is_word("partition")) {
    key(column, ColumnKind::kPartition);
  } else if (token().is_word("distance") || token().is_word("distance_metric")) {
    distance(column);
  } else if (token().is_word("index")) {
    index(column);
  } else if (token().is_word("collate")) {
    collate(column);
  } else {
    for (const char* word : {"not", "default", "unique", "check", "references", "generated"}) {
      if (token().is_word(word)) {
        fail("columns of a warp table have no constraints and no defaults, got \"" + token().text +
             "\"; with content= they are those of the table that holds the rows");
      }
    }
    const std::string known = "PRIMARY KEY, PARTITION KEY, COLLATE, distance=, index=";
    fail("expected one of " + known + "; got \"" + token().text + "\"" +
         compute::did_you_mean(ascii_lower(token().text), known));
  }
}

// Reads the collation of comparisons; searches have rules of their own.
void ArgumentParser::collate(ColumnDefinition& column) {
  take();
  const std::string given = ascii_lower(value("BINARY, NOCASE or RTRIM"));
  if (given != "binary" && given != "nocase" && given != "rtrim") {
    fail("COLLATE takes BINARY, NOCASE or RTRIM, got \"" + given + "\"");
  }
  if (column.is_vector() || column.plain != PlainType::kText) {
    fail("COLLATE applies to TEXT columns");
  }
  if (std::exchange(has_collation_, true)) fail("a column has one collation");
  if (given != "binary") column.declared += " COLLATE " + given;
}

void ArgumentParser::key(ColumnDefinition& column, ColumnKind kind) {
  const std::string words = ascii_lower(take().text) == "primary" ? "PRIMARY KEY" : "PARTITION KEY";
  if (!token().is_word("key")) expected(words);
  take();
  if (column.is_vector()) fail("a vector column cannot be " + words);
  if (column.kind != ColumnKind::kPlain) fail("a column can be a key only once");
  if (kind == ColumnKind::kRowId && column.plain != PlainType::kInteger) {
    fail("PRIMARY KEY needs type INTEGER or TEXT, got " + column.declared);
  }
  column.kind = kind;
}

void ArgumentParser::distance(ColumnDefinition& column) {
  const std::string option = take().text;
  if (!accept('=')) expected("\"=\" after " + option);
  if (std::exchange(has_distance_, true)) fail("a column has one distance");
  const auto takes = [&](Distance distance) {
    return column.kind == ColumnKind::kSparse ? distance == Distance::kInnerProduct
                                              : applies(distance, column.element);
  };
  const std::string known = distances_listed(
      [&](const DistanceInfo& row) { return !column.is_vector() || takes(row.distance); }, ", ");
  const std::string given = value("a distance: " + known);
  if (!column.is_vector()) {
    if (column.plain != PlainType::kText || ascii_lower(given) != "edit") {
      fail("distance= applies to vector columns, and distance=edit to TEXT");
    }
    column.text.kind = index::TextIndex::Kind::kEdit;
    return;
  }
  const auto found = distance_by_name(ascii_lower(given));
  if (!found || !takes(*found)) {
    fail("expected a distance for this type of vector: " + known + "; got \"" + given + "\"" +
         compute::did_you_mean(ascii_lower(given), known));
  }
  column.distance = *found;
}

void ArgumentParser::index(ColumnDefinition& column) {
  take();
  if (!accept('=')) expected("\"=\" after index");
  if (std::exchange(has_index_, true)) fail("a column has one index");
  column.index.kind = ascii_lower(value("an index kind, as flat"));
  if (column.index.kind.find('(') != std::string::npos) {
    fail("an index with parameters stands without quotes: index=" + column.index.kind);
  }
  if (accept('(')) {
    while (!accept(')')) {
      const std::string parameter = ascii_lower(value("a parameter, as lists=1024"));
      if (!accept('=')) expected("\"=\" after " + parameter);
      if (!column.index.parameters.emplace(parameter, value("a value for " + parameter)).second) {
        fail("parameter " + parameter + " is given twice");
      }
      if (!token().is(')') && !accept(',')) expected("\",\" or \")\"");
    }
  }
}

// Says whether there is such an index of what is no vector; options come in any order.
void ArgumentParser::check_plain_index(const ColumnDefinition& column) const {
  const std::string& kind = column.index.kind;
  const bool text = column.plain == PlainType::kText && index::is_text_index(kind);
  const bool flat = column.text.by_edits() && kind == "flat";
  if (kind == "match" || text || flat) return;
  const bool metric = kind == "flat" || kind == "sss" || kind == "list_of_clusters";
  const std::string needed = index::is_text_index(kind) ? "a TEXT column"
                             : metric ? "a vector column, or TEXT with distance=edit"
                                      : "a vector column";
  fail("index=" + kind + " needs " + needed + ", and " + column.name + " is " + column.declared,
       ErrorKind::kUnsupported);
}

// Checks index=match of a plain column. Match counts read its blocks, so that there is nothing to
// build.
void ArgumentParser::check_match_index(const ColumnDefinition& column) const {
  if (column.kind == ColumnKind::kRowId || column.kind == ColumnKind::kTextKey) {
    fail("index=match on a PRIMARY KEY, of which every value is another");
  }
  for (const auto& [parameter, given] : column.index.parameters) {
    if (parameter != "buckets") fail("index=match takes buckets=, not " + parameter + "=");
    if (column.plain == PlainType::kText) fail("buckets= applies to columns of numbers");
    std::uint32_t buckets = 0;
    const char* end = given.data() + given.size();
    const auto result = std::from_chars(given.data(), end, buckets);
    if (result.ec != std::errc() || result.ptr != end || buckets == 0 || buckets > kMostBuckets) {
      fail("buckets= must be an integer from 1 to " + std::to_string(kMostBuckets) + ", got \"" +
           given + "\"");
    }
  }
}

void ArgumentParser::text_index(ColumnDefinition& column) const {
  const std::string& kind = column.index.kind;
  const bool by_edits = column.text.by_edits();
  if (by_edits && kind == "words") fail("index=words does not go with distance=edit");
  if (!by_edits && index::is_text_metric(kind)) {
    fail("index=" + kind + " on a TEXT column needs distance=edit");
  }
  try {
    column.text = index::parse_text_index(column.index);
  } catch (const Error& error) {
    fail(error.what(), error.kind());
  }
}

void ArgumentParser::check_index(const ColumnDefinition& column) const {
  try {
    index::make_index(column.index, {column.element, column.dim, column.distance});
  } catch (const Error& error) {
    fail(error.what(), error.kind());
  }
}

}  // namespace warplite::sql
