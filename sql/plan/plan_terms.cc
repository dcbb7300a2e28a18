// Reads what SQLite offers to xBestIndex, term by term.
#include <algorithm>
#include <new>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/plan/planner.h"

namespace warplite::sql {
namespace {

using engine::Comparison;

constexpr double kWithoutMatch = 1e155;  // above the dearest plan with MATCH

constexpr const char* kMatchable =
    "a vector column, a TEXT column with index=ngram or words, or the table's own name for match "
    "counts";

bool is_null_test(std::optional<Comparison> op) {
  return op == Comparison::kIsNull || op == Comparison::kIsNotNull;
}

}  // namespace

// The statement being prepared is the first of the connection's list.
void Planner::remember() {
  const sqlite3_stmt* statement = sqlite3_next_stmt(db_, nullptr);
  if (memo_.statement != statement || memo_.columns != info_->colUsed) {
    memo_ = {statement, info_->colUsed, matches_ > 0};
  }
  if (matches_ == 0 && memo_.searched) factor_ = kWithoutMatch;
}

void Planner::classify(int i) {
  const auto& c = constraint(i);
  if (c.op == SQLITE_INDEX_CONSTRAINT_LIMIT || c.op == SQLITE_INDEX_CONSTRAINT_OFFSET) {
    if (c.usable) (c.op == SQLITE_INDEX_CONSTRAINT_LIMIT ? limit_ : offset_) = i;
  } else if (c.op == SQLITE_INDEX_CONSTRAINT_MATCH) {
    classify_match(i);
  } else if (c.iColumn >= table_.hidden(kDistance) && is_null_test(comparison(i))) {
    // Left to SQLite: without a MATCH hidden columns are NULL, and tools probe every column so.
  } else if (c.iColumn == table_.hidden(kDistance)) {
    needs_match_ = "distance";
    classify_bound(i, bounds_);
  } else if (c.iColumn == table_.hidden(kMatches)) {
    counts_needed_ = true;
    classify_bound(i, match_bounds_);
  } else if (c.iColumn == table_.hidden(kK)) {
    classify_single(i, k_, "k");
  } else if (c.iColumn == table_.hidden(kNprobe)) {
    classify_single(i, nprobe_, "nprobe");
  } else if (c.iColumn == table_.hidden(kRecall)) {
    classify_single(i, recall_, "recall");
  } else if (c.usable) {
    classify_filter(i);
  } else if (filters(i)) {
    classify_unusable(i);
  }
}

void Planner::classify_match(int i) {
  const int at = constraint(i).iColumn;
  const ColumnDefinition* matched = column(at);
  if (matched == nullptr && at != table_.hidden(kCommand)) {
    throw Error(ErrorKind::kInvalid, table_.table + ": MATCH needs " + kMatchable);
  }
  if (matched != nullptr && !matched->is_vector() &&
      matched->text.kind == index::TextIndex::Kind::kNone) {
    throw Error(ErrorKind::kInvalid, table_.table + "." + matched->name + ": MATCH needs " +
                                         kMatchable + ", this is " +
                                         (matched->declared.empty() ? "a +column"
                                                                    : matched->declared));
  }
  ++matches_;
  match_ = i;
  if (!constraint(i).usable) unusable_ = true;
}

void Planner::classify_single(int i, int& slot, const char* name) {
  needs_match_ = name;
  const auto& c = constraint(i);
  if (c.op != SQLITE_INDEX_CONSTRAINT_EQ || is_in(i) || slot >= 0) misused_ = name;
  if (!c.usable) unusable_ = true;
  slot = i;
}

void Planner::classify_bound(int i, std::vector<int>& bounds) {
  const auto op = comparison(i);
  if (!constraint(i).usable) return classify_unusable(i);
  if (!op) return;
  if (*op == Comparison::kEqual || is_range(*op)) bounds.push_back(i);
}

std::optional<Comparison> Planner::comparison(int i) const {
  switch (constraint(i).op) {
    case SQLITE_INDEX_CONSTRAINT_EQ: return is_in(i) ? Comparison::kIn : Comparison::kEqual;
    case SQLITE_INDEX_CONSTRAINT_NE: return Comparison::kNotEqual;
    case SQLITE_INDEX_CONSTRAINT_LT: return Comparison::kLess;
    case SQLITE_INDEX_CONSTRAINT_LE: return Comparison::kLessEqual;
    case SQLITE_INDEX_CONSTRAINT_GT: return Comparison::kGreater;
    case SQLITE_INDEX_CONSTRAINT_GE: return Comparison::kGreaterEqual;
    case SQLITE_INDEX_CONSTRAINT_IS: return Comparison::kIs;
    case SQLITE_INDEX_CONSTRAINT_ISNOT: return Comparison::kIsNot;
    case SQLITE_INDEX_CONSTRAINT_ISNULL: return Comparison::kIsNull;
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL: return Comparison::kIsNotNull;
    case SQLITE_INDEX_CONSTRAINT_LIKE: return Comparison::kLike;
    case SQLITE_INDEX_CONSTRAINT_GLOB: return Comparison::kGlob;
    default: return std::nullopt;
  }
}

// Vectors, +columns and hidden columns are left to SQLite.
bool Planner::filters(int i) const {
  const int at = constraint(i).iColumn;
  const ColumnDefinition* filtered = column(at);
  return comparison(i).has_value() &&
         (at < 0 || (filtered != nullptr && !filtered->is_vector() &&
                     filtered->kind != ColumnKind::kAux));
}

void Planner::classify_unusable(int i) {
  if (i >= served_by_in() && constraint(i).op == SQLITE_INDEX_CONSTRAINT_EQ) perhaps_in_ = i;
}

void Planner::classify_filter(int i) {
  if (!filters(i)) return;
  const int at = constraint(i).iColumn;
  const auto op = comparison(i);
  const bool rowid = at < 0 || at == table_.rowid_column;
  const ColumnDefinition* filtered = column(at);
  Filter filter{{rowid ? engine::Predicate::kRowId : at, *op, Collation::kBinary}, {i, true}, true};
  const bool null_test = is_null_test(op);
  filter.known = null_test || known_value(i) != nullptr;
  if (*op == Comparison::kLike || *op == Comparison::kGlob) {
    filter.use.omit = false;
    filter.term.overloaded = is_overloaded(*op);
  } else if (!null_test && !rowid && filtered->plain == PlainType::kText) {
    if (!text_filter(i, filter)) return;
  } else if (is_range(*op) && !tells_operands()) {
    filter.use.omit = false;  // as below, if it turns out to be text (arguments.cc)
  } else if (is_range(*op) && above_all_numbers(i)) {
    if (*op == Comparison::kGreater || *op == Comparison::kGreaterEqual) return;
    filter.use.omit = false;
  }
  shows_in_ = shows_in_ || *op == Comparison::kIn;
  if (is_point(filter)) point_ = static_cast<int>(filters_.size());
  filters_.push_back(filter);
}

// A text that is no number, compared with numbers. SQLite derives such ranges from LIKE and GLOB,
// where the lower bound is wrong: r LIKE 'i%' is true of infinity.
bool Planner::above_all_numbers(int i) const {
  sqlite3_value* const value = known_value(i);
  if (value == nullptr || sqlite3_value_type(value) != SQLITE_TEXT) return false;
  sqlite3_value* const copy = sqlite3_value_dup(value);
  if (copy == nullptr) throw std::bad_alloc();
  const int type = sqlite3_value_numeric_type(copy);
  sqlite3_value_free(copy);
  return type == SQLITE_TEXT;
}

// A TEXT column against a number is SQLite's business: '5' or 5, as the other operand's affinity
// says, which is not shown here. So omit only what is known to be no number.
bool Planner::text_filter(int i, Filter& filter) const {
  sqlite3_value* const value = known_value(i);
  const bool known = value != nullptr;
  const int type = known ? sqlite3_value_type(value) : SQLITE_NULL;
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) return false;
  // SQLite tells no collation for <> and IS NOT: they find more than under the column's own.
  const bool unequal = filter.term.op == Comparison::kNotEqual || filter.term.op == Comparison::kIsNot;
  // SQLite must itself test what it derives from LIKE, for the rows that a LEFT JOIN adds.
  const bool derived =
      filter.term.op == Comparison::kGreaterEqual || filter.term.op == Comparison::kLess;
  filter.use.omit = known && !derived &&
                    !(unequal && column(filter.term.column)->declared != "TEXT");
  const std::string collation = ascii_lower(sqlite3_vtab_collation(info_, i));
  if (collation == "nocase") {
    filter.term.collation = Collation::kNoCase;
  } else if (collation == "rtrim") {
    filter.term.collation = Collation::kRTrim;
  } else if (collation != "binary") {
    return false;
  }
  return true;
}

bool Planner::is_overloaded(Comparison op) {
  std::optional<bool>& overloaded = overloaded_[op == Comparison::kLike ? 0 : 1];
  if (!overloaded) overloaded = !PatternProbe::is_own(db_, table_, memo_, op);
  return *overloaded;
}

bool Planner::is_point(const Filter& filter) const {
  if (filter.term.op != Comparison::kEqual) return false;
  if (filter.term.column == engine::Predicate::kRowId) return true;
  return column(filter.term.column)->kind == ColumnKind::kTextKey &&
         filter.term.collation == Collation::kBinary;
}

}  // namespace warplite::sql
