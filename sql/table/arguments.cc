#include "sql/table/arguments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/process/interruption.h"
#include "engine/search/search.h"
#include "sql/definition/match_query.h"
#include "sql/definition/sparse_values.h"
#include "sql/definition/values.h"
#include "sql/host/older_hosts.h"
#include "sql/table/host_pattern.h"

namespace warplite::sql {
namespace {

using engine::Comparison;
using engine::Predicate;

constexpr std::uint64_t kFirstRows = 64;  // fetched at first when neither k nor LIMIT is known

PlainType type_of(const TableDefinition& table, int column) {
  return column == Predicate::kRowId ? PlainType::kInteger
                                     : table.columns[static_cast<std::size_t>(column)].plain;
}

bool is_number(CellKind kind) { return kind == CellKind::kInteger || kind == CellKind::kReal; }

// Appends the operand; false when the predicate must be left to SQLite.
bool read_operand(sqlite3_value* value, PlainType type, Predicate& predicate) {
  Value operand = compare_operand(value, type);
  if (type == PlainType::kText && is_number(operand.kind())) return false;
  // Of LIKE and GLOB, perhaps: planning leaves such bounds alone where it is told of them.
  const bool lower =
      predicate.op == Comparison::kGreater || predicate.op == Comparison::kGreaterEqual;
  if (!tells_operands() && type != PlainType::kText && lower && operand.kind() == CellKind::kText) {
    return false;
  }
  predicate.operands.push_back(std::move(operand));
  return true;
}

// The engine tests texts and integers by SQLite's own LIKE and GLOB. False when SQLite takes no
// pattern of that length.
bool read_pattern(sqlite3* db, const Plan::Term& term, PlainType type, sqlite3_value* value,
                  Predicate& predicate) {
  if (term.overloaded || type == PlainType::kReal || sqlite3_value_type(value) != SQLITE_TEXT) {
    predicate.host = std::make_shared<HostPattern>(db, term.op, cell_of(value));
    return true;
  }
  const Cell pattern = cell_of(value);
  const int longest = sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, -1);
  if (pattern.bytes.size() > static_cast<std::size_t>(longest)) return false;
  predicate.operands.emplace_back(pattern);
  return true;
}

void read_set(const std::string& table, sqlite3_value* set, PlainType type,
              std::optional<Predicate>& predicate) {
  sqlite3_value* value = nullptr;
  int code = sqlite3_vtab_in_first(set, &value);
  SparsePoll poll;
  for (; code == SQLITE_OK && value != nullptr; code = sqlite3_vtab_in_next(set, &value)) {
    poll();
    if (read_operand(value, type, *predicate)) continue;
    predicate = std::nullopt;
    return;
  }
  if (code != SQLITE_OK && code != SQLITE_DONE) {
    throw Error(ErrorKind::kHost, code, table + ": cannot read the values of IN");
  }
}

// Returns nothing for a predicate that does not filter.
std::optional<Predicate> read_predicate(sqlite3* db, const Plan::Term& term,
                                        const TableDefinition& table, sqlite3_value* argument) {
  std::optional<Predicate> predicate(std::in_place);
  predicate->column = term.column == Predicate::kRowId
                          ? Predicate::kRowId
                          : table.columns[static_cast<std::size_t>(term.column)].slot;
  predicate->op = term.op;
  predicate->collation = term.collation;
  const PlainType type = type_of(table, term.column);
  switch (term.op) {
    case Comparison::kIsNull:
    case Comparison::kIsNotNull: break;
    case Comparison::kLike:
    case Comparison::kGlob:
      if (!read_pattern(db, term, type, argument, *predicate)) predicate = std::nullopt;
      break;
    case Comparison::kIn: read_set(table.table, argument, type, predicate); break;
    default:
      if (!read_operand(argument, type, *predicate)) predicate = std::nullopt;
  }
  return predicate;
}

[[noreturn]] void refuse(const TableDefinition& table, const char* what, sqlite3_value* value,
                         const std::string& expected) {
  throw Error(ErrorKind::kInvalid, table.table + ": " + what + " must be " + expected + ", got " +
                                       describe(cell_of(value)));
}

// k and nprobe. `expected` says what lies between `least` and `most`.
std::uint64_t read_count(const TableDefinition& table, const char* what, std::int64_t least,
                         std::int64_t most, const std::string& expected, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  if (type == SQLITE_NULL || type == SQLITE_BLOB) refuse(table, what, value, expected);
  Cell cell;
  try {
    cell = to_column(value, PlainType::kInteger, Place(table.table, what));
  } catch (const Error&) {
    refuse(table, what, value, expected);
  }
  if (cell.integer < least || cell.integer > most) refuse(table, what, value, expected);
  return static_cast<std::uint64_t>(cell.integer);
}

// A recall that is asked for.
double read_recall(const TableDefinition& table, sqlite3_value* value) {
  const std::string name = table.hidden_name(kRecall);
  const int type = sqlite3_value_type(value);
  Cell cell;
  try {
    if (type != SQLITE_NULL && type != SQLITE_BLOB) {
      cell = to_column(value, PlainType::kReal, Place(table.table, name));
    }
  } catch (const Error&) {
    cell = Cell::null();
  }
  if (cell.kind != CellKind::kReal || !engine::is_recall(cell.real)) {
    refuse(table, name.c_str(), value, engine::kRecallExpected);
  }
  return cell.real;
}

// LIMIT and OFFSET as SQLite has checked them; negative means none.
std::int64_t read_limit(sqlite3_value* value) { return sqlite3_value_int64(value); }

// The doubles next to an integer, which lie on both sides when none equals it.
struct Neighbours {
  double below, above;
};
Neighbours neighbours(std::int64_t value) {
  const double near = static_cast<double>(value);
  constexpr double kEnd = 9223372036854775808.0;  // 2^63, past every int64
  if (near >= kEnd) return {std::nextafter(near, 0), near};
  const std::int64_t back = static_cast<std::int64_t>(near);
  if (back == value) return {near, near};
  return back < value ? Neighbours{near, std::nextafter(near, kEnd)}
                      : Neighbours{std::nextafter(near, -kEnd), near};
}

void raise_low(DistanceRange& range, double low, bool open) {
  if (low < range.low || (low == range.low && !open)) return;
  range.low = low;
  range.low_open = open;
}

void lower_high(DistanceRange& range, double high, bool open) {
  if (high > range.high || (high == range.high && !open)) return;
  range.high = high;
  range.high_open = open;
}

// Narrows the range by `distance op value`; false when no distance satisfies it.
bool narrow(DistanceRange& range, Comparison op, sqlite3_value* value) {
  const Value operand = compare_operand(value, PlainType::kReal);
  if (operand.is_null()) return false;
  const bool upper = op == Comparison::kLess || op == Comparison::kLessEqual;
  // Text and blobs are greater than every number.
  if (!is_number(operand.kind())) return upper;
  const Cell cell = operand.cell();
  const Neighbours bound = cell.kind == CellKind::kReal ? Neighbours{cell.real, cell.real}
                                                        : neighbours(cell.integer);
  const bool exact = bound.below == bound.above;
  if (op == Comparison::kEqual && !exact) return false;
  if (upper || op == Comparison::kEqual) {
    lower_high(range, bound.below, exact && op == Comparison::kLess);
  }
  if (!upper) raise_low(range, bound.above, exact && op == Comparison::kGreater);
  return true;
}

// Returns the whole numbers, from 0 on, of a range of distances or counts; nothing when there is
// none.
std::optional<engine::CountRange> whole_numbers(const DistanceRange& range) {
  engine::CountRange result{0, std::numeric_limits<std::uint64_t>::max()};
  constexpr double kMost = 9007199254740992.0;  // 2^53; no query has so much weight
  double low = std::ceil(range.low);
  if (range.low_open && low == range.low) ++low;
  double high = std::floor(range.high);
  if (range.high_open && high == range.high) --high;
  if (high < 0 || low > high || low > kMost) return std::nullopt;
  if (low > 0) result.low = static_cast<std::uint64_t>(low);
  if (high < kMost) result.high = static_cast<std::uint64_t>(high);
  return result;
}

// The counts that bounds on matches and on distance, which is the weight that is missing, admit;
// nothing when there is none.
std::optional<engine::CountRange> admitted_counts(const DistanceRange& matches,
                                                  const DistanceRange& distance,
                                                  std::uint64_t weight) {
  const auto counts = whole_numbers(matches);
  const auto missing = whole_numbers(distance);
  if (!counts || !missing || missing->low > weight) return std::nullopt;
  engine::CountRange result;
  result.low = std::max({result.low, counts->low, weight - std::min(weight, missing->high)});
  result.high = std::min(counts->high, weight - missing->low);
  if (result.low > result.high) return std::nullopt;
  return result;
}

// Returns how many rows to fetch at first.
std::uint64_t first_rows(const Plan& plan, sqlite3_value** arguments) {
  const std::int64_t limit = plan.limit ? read_limit(*arguments++) : -1;
  const std::int64_t offset = plan.offset ? std::max<std::int64_t>(0, read_limit(*arguments)) : 0;
  if (limit >= 0) {
    return std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(limit) + static_cast<std::uint64_t>(offset));
  }
  if (plan.limit) return 0;  // all of them
  const bool bounded_counts = plan.access == Plan::Access::kCount &&
                              !(plan.bounds.empty() && plan.match_bounds.empty());
  return plan.access == Plan::Access::kRange || bounded_counts ? 0 : kFirstRows;
}

void read_vector(sqlite3_value* query, const TableDefinition& table,
                 const ColumnDefinition& column, MatchQuestion& question) {
  question.distance = column.distance;
  question.type = column.element;
  question.dim = column.dim;
  question.of_sparse = column.kind == ColumnKind::kSparse;
  if (sqlite3_value_type(query) == SQLITE_NULL) return;
  const VectorInput vector = column_vector(query, column, Place(table.table, column.name));
  question.query.assign(vector.data, vector.data + vector.size);
}

void read_text(sqlite3_value* query, const TableDefinition& table, const ColumnDefinition& column,
               MatchQuestion& question) {
  question.text = column.text;
  const Cell cell = cell_of(query);
  if (cell.is_null()) return;
  if (cell.kind != CellKind::kText) {
    throw Error(ErrorKind::kInvalid, table.table + "." + column.name +
                                         ": MATCH expects a text, got " + describe(cell));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(cell.bytes.data());
  question.query.assign(bytes, bytes + cell.bytes.size());
  if (column.text.kind == index::TextIndex::Kind::kWords) {
    question.words = index::count_keywords(column.text, cell.bytes);
  }
}

void read_items(sqlite3_value* query, const TableDefinition& table, MatchQuestion& question) {
  question.of_counts = true;
  const Cell cell = cell_of(query);
  if (cell.is_null()) return;
  question.items = MatchQueryReader(table).read(cell);
  const auto* bytes = reinterpret_cast<const std::byte*>(cell.bytes.data());
  question.query.assign(bytes, bytes + cell.bytes.size());
}

}  // namespace

engine::Filter read_filter(sqlite3* db, const Plan& plan, const TableDefinition& table,
                           sqlite3_value**& arguments) {
  engine::Filter filter;
  for (const Plan::Term& term : plan.filters) {
    if (auto predicate = read_predicate(db, term, table, *arguments++)) {
      filter.push_back(std::move(*predicate));
    }
  }
  return filter;
}

void read_query(sqlite3_value* query, const TableDefinition& table, const ColumnDefinition& column,
                MatchQuestion& question) {
  question.column = static_cast<std::size_t>(column.slot);
  if (column.is_vector()) {
    read_vector(query, table, column, question);
  } else {
    read_text(query, table, column, question);
  }
}

std::optional<MatchQuestion> read_question(sqlite3* db, const Plan& plan,
                                           const TableDefinition& table,
                                           sqlite3_value** arguments) {
  MatchQuestion question;
  question.filter = read_filter(db, plan, table, arguments);
  sqlite3_value* query = *arguments++;
  if (plan.access == Plan::Access::kCount) {
    read_items(query, table, question);
  } else {
    read_query(query, table, table.columns[static_cast<std::size_t>(plan.column)], question);
  }
  bool satisfiable = sqlite3_value_type(query) != SQLITE_NULL;
  for (Comparison op : plan.bounds) {
    satisfiable = narrow(question.range, op, *arguments++) && satisfiable;
  }
  DistanceRange matches;
  for (Comparison op : plan.match_bounds) {
    satisfiable = narrow(matches, op, *arguments++) && satisfiable;
  }
  if (question.of_counts && satisfiable) {
    const auto counts =
        admitted_counts(matches, question.range, engine::total_weight(question.items));
    satisfiable = counts.has_value();
    if (counts) question.counts = *counts;
  }
  if (!plan.match_bounds.empty() && question.of_text() && satisfiable) {
    const auto counts = admitted_counts(matches, question.range, question.words);
    satisfiable = counts.has_value();
    const auto missing = [&](std::uint64_t count) {
      return static_cast<double>(question.words - std::min(question.words, count));
    };
    if (counts) question.range = {missing(counts->high), missing(counts->low)};
  }
  if (plan.k) {
    question.k = read_count(table, "k", 0, std::numeric_limits<std::int64_t>::max(),
                            "an integer of 0 or more", *arguments++);
  }
  if (plan.nprobe) {
    question.nprobe = static_cast<std::uint32_t>(
        read_count(table, "nprobe", 1, engine::kMostProbes,
                   "an integer from 1 to " + std::to_string(engine::kMostProbes), *arguments++));
  }
  if (plan.recall) question.recall = read_recall(table, *arguments++);
  question.first = first_rows(plan, arguments);
  if (!satisfiable) return std::nullopt;
  return question;
}

std::optional<RowId> read_rowid(sqlite3_value* value) {
  const Value operand = compare_operand(value, PlainType::kInteger);
  const Cell cell = operand.cell();
  if (cell.kind == CellKind::kInteger) return cell.integer;
  if (cell.kind != CellKind::kReal) return std::nullopt;
  constexpr double kEnd = 9223372036854775808.0;
  if (!(cell.real >= -kEnd && cell.real < kEnd)) return std::nullopt;
  const RowId rowid = static_cast<RowId>(cell.real);
  if (static_cast<double>(rowid) != cell.real) return std::nullopt;
  return rowid;
}

}  // namespace warplite::sql
