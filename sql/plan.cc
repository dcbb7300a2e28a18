// xBestIndex.
//
// Strategies, by what SQLite offers:
//
//   access  chosen when                         consumes                          rows est.
//   ------  ----------------------------------  --------------------------------  ---------
//   knn     MATCH on a vector column            MATCH, filters, bounds, k,        k, or many
//                                               nprobe, limit, offset
//   range   the same, an upper distance bound   MATCH, filters, bounds, nprobe,   some
//           and no k                            limit, offset
//   count   MATCH on the table's own name       MATCH, filters, bounds on         k, or many
//                                               distance and matches, k, nprobe,
//                                               limit, offset
//   rowid=  no MATCH; rowid = value             that term                         1
//   key     no MATCH; TEXT PRIMARY KEY = value  that term                         1
//   scan    no MATCH                            filters                           many
//   refused k, nprobe, distance or matches,     nothing                           -
//           no MATCH; matches, MATCH on a
//           vector column
//
// SQLITE_CONSTRAINT ("not like this") when MATCH or k is there but not usable in this order of
// tables. A refusal is a plan that fails with a message when it runs, dearer than all others:
// SQLite takes another where there is one (branches of an OR are offered without the terms around
// them, and `(e MATCH ? OR e MATCH ?) AND k = 3` as a whole without a MATCH), and where there is
// none the user reads the reason instead of "no query solution".
//
// A plan never changes an answer. With k, it matters whether a predicate filters before the k
// are chosen or joins afterwards. It filters when its value is known wherever MATCH's arguments
// are. SQLite asks once for every set of tables that may stand to the left; each time all usable
// terms are consumed, and the plan must lose when a term was usable only thanks to tables that
// MATCH does not need. So a consumed term of unknown value multiplies the cost, while the
// estimated rows do not depend on filters: then the plan that needs fewer tables is at least as
// good in every respect, and SQLite drops the others before it looks at joins.
//
// A branch of an OR is offered right after the table itself, without the terms around it:
// `e MATCH ? AND (id = 1 OR year = 2)` looks like two cheap scans, which cannot answer MATCH.
// So a plan without MATCH, for a table that was offered with one, costs more than any with
// MATCH. Other plans without MATCH cost what they cost: a factor on all of them would hide the
// costs of the tables they are joined with.
#include "sql/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "sql/argument_lexer.h"

namespace warplite::sql {
namespace {

using engine::Comparison;

constexpr double kUnknownPenalty = 1e12;
constexpr int kMaxPenalties = 12;
constexpr double kWithoutMatch = 1e155;  // above the dearest plan with MATCH
constexpr double kRefusedCost = 1e300;   // above everything
constexpr double kTableRows = 1e6;       // what a table is taken to hold
// In SQLite's unit, about a step of its own: 3 for each row it reads, 20 for a look-up by rowid.
constexpr double kSearchCost = 1e5;
constexpr double kFilterCost = kTableRows / 100;
constexpr double kRowCost = 3;
constexpr double kPointCost = 20;

constexpr const char* kMatchable =
    "a vector column, a TEXT column with index=ngram or words, or the table's own name for match "
    "counts";

class Planner {
 public:
  Planner(sqlite3* db, const TableDefinition& table, SearchMemo& memo, sqlite3_index_info* info)
      : db_(db), table_(table), memo_(memo), info_(info) {}

  int run() {
    for (int i = 0; i < info_->nConstraint; ++i) classify(i);
    remember();
    if (matches_ > 1) {
      throw Error(ErrorKind::kInvalid, table_.table + ": one MATCH at a time, found " +
                                           std::to_string(matches_) + " on one table");
    }
    if (matches_ == 1 && misused_ != nullptr) {
      throw Error(ErrorKind::kInvalid,
                  table_.table + ": " + misused_ + " takes one =, as in k = 10");
    }
    if (counts_needed_ && !counts() && !words()) {
      plan_refusal("matches needs a MATCH on the table's own name beside it, or on a column with "
                   "index=words, as in " +
                   table_.table + " MATCH '{\"year\":[2015,2020]}'");
    } else if (matches_ == 0 && needs_match_ != nullptr) {
      plan_refusal(std::string(needs_match_) +
                   " needs a MATCH on a vector column or on the table's own name beside it");
    } else if (unusable_) {
      return SQLITE_CONSTRAINT;
    } else if (matches_ == 1) {
      plan_search();
    } else if (point_ >= 0) {
      plan_point();
    } else {
      plan_scan();
    }
    emit();
    return SQLITE_OK;
  }

 private:
  struct Use {
    int constraint;
    bool omit;
  };
  struct Filter {
    Plan::Term term;
    Use use;
    bool known;
  };

  const sqlite3_index_info::sqlite3_index_constraint& constraint(int i) const {
    return info_->aConstraint[i];
  }
  const ColumnDefinition* column(int i) const {
    return i >= 0 && i < static_cast<int>(table_.columns.size())
               ? &table_.columns[static_cast<std::size_t>(i)]
               : nullptr;
  }
  bool is_in(int i) const { return sqlite3_vtab_in(info_, i, -1) != 0; }
  bool is_known(int i) const {
    sqlite3_value* value = nullptr;
    return sqlite3_vtab_rhs_value(info_, i, &value) == SQLITE_OK && value != nullptr;
  }

  void remember();
  void classify(int i);
  void classify_match(int i);
  void classify_single(int i, int& slot, const char* name);
  void classify_bound(int i, std::vector<int>& bounds);
  void classify_filter(int i);
  std::optional<Comparison> comparison(int i) const;
  bool text_filter(int i, Filter& filter) const;
  bool is_point(const Filter& filter) const;

  void plan_search();
  void plan_point();
  void plan_scan();
  void plan_refusal(std::string reason);
  // Whether MATCH is on the table's own name.
  bool counts() const {
    return match_ >= 0 && constraint(match_).iColumn == table_.hidden(kCommand);
  }
  // Whether MATCH is on a column with index=words.
  bool words() const {
    const ColumnDefinition* matched = match_ < 0 ? nullptr : column(constraint(match_).iColumn);
    return matched != nullptr && matched->text.kind == index::TextIndex::Kind::kWords;
  }
  // Consumes bounds; returns how many of them have values that are not known.
  int use_bounds(const std::vector<int>& bounds, std::vector<Comparison>& planned);
  bool ordered_by_result() const;
  bool ordered_by_rowid() const;
  bool shows_values() const;
  void emit();

  void use(int i, bool omit) { uses_.push_back({i, omit}); }
  void use_filters() {
    for (const Filter& filter : filters_) {
      plan_.filters.push_back(filter.term);
      uses_.push_back(filter.use);
    }
  }

  sqlite3* db_;
  const TableDefinition& table_;
  SearchMemo& memo_;
  sqlite3_index_info* info_;
  Plan plan_;
  std::vector<Use> uses_;  // in the order of xFilter's arguments
  std::vector<Filter> filters_;
  std::vector<int> bounds_;        // constraints on distance
  std::vector<int> match_bounds_;  // constraints on matches
  int matches_ = 0, match_ = -1, k_ = -1, nprobe_ = -1, limit_ = -1, offset_ = -1;
  int point_ = -1;  // index into filters_
  bool unusable_ = false;
  bool counts_needed_ = false;         // matches is constrained
  const char* needs_match_ = nullptr;  // the hidden column that does
  const char* misused_ = nullptr;      // k or nprobe, with anything but one =
  double factor_ = 1;  // of plans without MATCH
};

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
  } else if (c.usable) {
    classify_filter(i);
  }
}

void Planner::classify_match(int i) {
  const int at = constraint(i).iColumn;
  const ColumnDefinition* matched = column(at);
  if (matched == nullptr && at != table_.hidden(kCommand)) {
    throw Error(ErrorKind::kInvalid, table_.table + ": MATCH needs " + kMatchable);
  }
  if (matched != nullptr && matched->kind != ColumnKind::kVector &&
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
  if (!constraint(i).usable || !op) return;
  switch (*op) {
    case Comparison::kEqual:
    case Comparison::kLess:
    case Comparison::kLessEqual:
    case Comparison::kGreater:
    case Comparison::kGreaterEqual: bounds.push_back(i); break;
    default: break;
  }
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
void Planner::classify_filter(int i) {
  const int at = constraint(i).iColumn;
  const auto op = comparison(i);
  const bool rowid = at < 0 || at == table_.rowid_column;
  const ColumnDefinition* filtered = column(at);
  if (!op || (!rowid && (filtered == nullptr || filtered->kind == ColumnKind::kVector ||
                         filtered->kind == ColumnKind::kAux))) {
    return;
  }
  Filter filter{{rowid ? engine::Predicate::kRowId : at, *op, Collation::kBinary}, {i, true}, true};
  const bool null_test = *op == Comparison::kIsNull || *op == Comparison::kIsNotNull;
  filter.known = null_test || is_known(i);
  if (*op == Comparison::kLike || *op == Comparison::kGlob) {
    filter.use.omit = false;  // like() and glob() may be overloaded
  } else if (!null_test && !rowid && filtered->plain == PlainType::kText) {
    if (!text_filter(i, filter)) return;
  }
  if (is_point(filter)) point_ = static_cast<int>(filters_.size());
  filters_.push_back(filter);
}

// A TEXT column against a number is SQLite's business: '5' or 5, as the other operand's affinity
// says, which is not shown here. So omit only what is known to be no number.
bool Planner::text_filter(int i, Filter& filter) const {
  sqlite3_value* value = nullptr;
  const bool known = sqlite3_vtab_rhs_value(info_, i, &value) == SQLITE_OK && value != nullptr;
  const int type = known ? sqlite3_value_type(value) : SQLITE_NULL;
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) return false;
  // Of <> and IS NOT SQLite tells no collation: they find more than under the column's own.
  const bool unequal = filter.term.op == Comparison::kNotEqual || filter.term.op == Comparison::kIsNot;
  filter.use.omit = known && !(unequal && column(filter.term.column)->declared != "TEXT");
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

bool Planner::is_point(const Filter& filter) const {
  if (filter.term.op != Comparison::kEqual) return false;
  if (filter.term.column == engine::Predicate::kRowId) return true;
  return column(filter.term.column)->kind == ColumnKind::kTextKey &&
         filter.term.collation == Collation::kBinary;
}

int Planner::use_bounds(const std::vector<int>& bounds, std::vector<Comparison>& planned) {
  int unknown = 0;
  for (int i : bounds) {
    planned.push_back(*comparison(i));
    use(i, true);
    unknown += is_known(i) ? 0 : 1;
  }
  return unknown;
}

void Planner::plan_search() {
  plan_.access = counts() ? Plan::Access::kCount : Plan::Access::kKnn;
  if (!counts()) plan_.column = constraint(match_).iColumn;
  use(match_, true);
  use_filters();
  int unknown = 0;
  for (const Filter& filter : filters_) unknown += filter.known ? 0 : 1;
  unknown += use_bounds(bounds_, plan_.bounds);
  unknown += use_bounds(match_bounds_, plan_.match_bounds);
  const bool bounded = std::any_of(plan_.bounds.begin(), plan_.bounds.end(), [](Comparison op) {
    return op != Comparison::kGreater && op != Comparison::kGreaterEqual;
  });
  if (k_ < 0 && bounded && !counts()) plan_.access = Plan::Access::kRange;
  for (auto [constraint_index, flag, omit] :
       {std::tuple{k_, &plan_.k, true}, std::tuple{nprobe_, &plan_.nprobe, true},
        std::tuple{limit_, &plan_.limit, false}, std::tuple{offset_, &plan_.offset, false}}) {
    *flag = constraint_index >= 0;
    if (*flag) use(constraint_index, omit);
  }
  info_->estimatedRows = k_ >= 0 ? 10 : 1000;
  info_->estimatedCost = kSearchCost * std::pow(kUnknownPenalty, std::min(unknown, kMaxPenalties));
  info_->orderByConsumed = ordered_by_result();
}

void Planner::plan_point() {
  const Filter& filter = filters_[static_cast<std::size_t>(point_)];
  const bool rowid = filter.term.column == engine::Predicate::kRowId;
  plan_.access = rowid ? Plan::Access::kRowId : Plan::Access::kKey;
  plan_.column = filter.term.column;
  // A key compared with a number scans: then it is no unique scan.
  if (rowid || filter.use.omit) info_->idxFlags |= SQLITE_INDEX_SCAN_UNIQUE;
  uses_.push_back(filter.use);
  info_->estimatedRows = 1;
  info_->estimatedCost = factor_ * (rowid ? kPointCost : 2 * kPointCost);
}

void Planner::plan_scan() {
  use_filters();
  double rows = kTableRows;
  for (const Filter& filter : filters_) {
    const Comparison op = filter.term.op;
    const bool equality =
        op == Comparison::kEqual || op == Comparison::kIs || op == Comparison::kIsNull;
    rows *= equality                      ? 0.01
            : op == Comparison::kIn       ? 0.05
            : op == Comparison::kNotEqual ? 0.9
                                          : 0.3;
  }
  rows = std::max(rows, 10.0);
  info_->estimatedRows = static_cast<sqlite3_int64>(rows);
  info_->estimatedCost = factor_ * (kFilterCost + rows * kRowCost);
  info_->orderByConsumed = ordered_by_rowid();
}

void Planner::plan_refusal(std::string reason) {
  plan_.access = Plan::Access::kRefused;
  plan_.refusal = std::move(reason);
  info_->estimatedCost = kRefusedCost;
}

// Scans come in ascending rowid; what follows a unique key in ORDER BY decides nothing.
bool Planner::ordered_by_rowid() const {
  if (info_->nOrderBy < 1 || info_->aOrderBy[0].desc) return false;
  const int column = info_->aOrderBy[0].iColumn;
  return column < 0 || column == table_.rowid_column;
}

// Results are in ascending (distance, rowid), exactly; of match counts also in descending matches.
bool Planner::ordered_by_result() const {
  const int terms = info_->nOrderBy;
  if (terms < 1 || terms > 2) return false;
  const auto& first = info_->aOrderBy[0];
  const bool by_distance = first.iColumn == table_.hidden(kDistance) && !first.desc;
  const bool by_matches = (counts() || words()) && first.iColumn == table_.hidden(kMatches) && first.desc;
  if (!by_distance && !by_matches) return false;
  if (terms == 1) return true;
  const auto& second = info_->aOrderBy[1];
  return !second.desc && (second.iColumn < 0 || second.iColumn == table_.rowid_column);
}

// All columns from the 64th on share a bit of colUsed.
bool Planner::shows_values() const {
  if (!table_.has_content() || plan_.access != Plan::Access::kScan) return true;
  for (std::size_t i = 0; i < table_.columns.size(); ++i) {
    const ColumnKind kind = table_.columns[i].kind;
    if (kind == ColumnKind::kRowId || kind == ColumnKind::kAux) continue;
    if ((info_->colUsed >> std::min<std::size_t>(i, 63) & 1) != 0) return true;
  }
  return false;
}

void Planner::emit() {
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const Use& used = uses_[i];
    auto& usage = info_->aConstraintUsage[used.constraint];
    usage.argvIndex = static_cast<int>(i) + 1;
    usage.omit = used.omit ? 1 : 0;
    if (constraint(used.constraint).op == SQLITE_INDEX_CONSTRAINT_EQ && is_in(used.constraint)) {
      sqlite3_vtab_in(info_, used.constraint, 1);
    }
  }
  info_->idxNum = static_cast<int>(plan_.access) | (shows_values() ? 0 : kShowsNoValues);
  const std::string text = plan_.text(table_);
  info_->idxStr = sqlite3_mprintf("%s", text.c_str());
  if (info_->idxStr == nullptr) throw std::bad_alloc();
  info_->needToFreeIdxStr = 1;
}

}  // namespace

int best_index(sqlite3* db, const TableDefinition& table, SearchMemo& memo,
               sqlite3_index_info* info) {
  return Planner(db, table, memo, info).run();
}

}  // namespace warplite::sql
