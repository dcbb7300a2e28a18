// xBestIndex.
//
// Strategies, by what SQLite offers:
//
//   access  chosen when                         consumes                          rows est.
//   ------  ----------------------------------  --------------------------------  ---------
//   knn     MATCH on a vector column            MATCH, filters, bounds, k,        k, or many
//                                               nprobe, recall, limit, offset
//   range   the same, an upper distance bound   MATCH, filters, bounds, nprobe,   some
//           and no k                            recall, limit, offset
//   count   MATCH on the table's own name       MATCH, filters, bounds on         k, or many
//                                               distance and matches, k, nprobe,
//                                               recall, limit, offset
//   rowid=  no MATCH; rowid = value             that term                         1
//   key     no MATCH; TEXT PRIMARY KEY = value  that term                         1
//   scan    no MATCH                            filters                           many
//   refused k, nprobe, recall, distance or      nothing                           -
//           matches, no MATCH; matches, MATCH on a
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
// SQLite says of its first 32 constraints which ones are IN, and offers a later one as =, with one
// value after the other. Without k that gives the same rows. With k it must not be: SQLite then
// asks once more without any IN, and a later = that is missing there is refused, since it may be
// one. (It may also need another table: the two are not told apart, unless another IN shows.)
// SQLite before 3.38 tells of no constraint whether it is IN, nor any value: all are late ones there
// (statement_words.h), and every value is one that is not known.
//
// A branch of an OR is offered right after the table itself, without the terms around it:
// `e MATCH ? AND (id = 1 OR year = 2)` looks like two cheap scans, which cannot answer MATCH.
// So a plan without MATCH, for a table that was offered with one, costs more than any with
// MATCH. Other plans without MATCH cost what they cost: a factor on all of them would hide the
// costs of the tables they are joined with.
#include "sql/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/error.h"
#include "engine/search/searcher.h"
#include "sql/plan/planner.h"

namespace warplite::sql {
namespace {

using engine::Comparison;

constexpr double kUnknownPenalty = 1e12;
constexpr double kUntoldPenalty = 1e6;   // of hosts that tell of no value: there are more of them
constexpr double kMaxPenalty = 1e144;
constexpr double kRefusedCost = 1e300;   // above everything
constexpr double kTableRows = 1e6;       // what a table is taken to hold
// Costs are in SQLite's unit, about a step of its own: 3 for each row it reads, 20 for a look-up by
// rowid.
constexpr double kSearchCost = 1e5;
constexpr double kFilterCost = kTableRows / 100;
constexpr double kRowCost = 3;
constexpr double kPointCost = 20;

}  // namespace

int Planner::run() {
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
  } else if (matches_ == 0 && orders_by_distance()) {
    plan_refusal("ORDER BY distance needs a MATCH on a vector column or on the table's own name");
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

int Planner::use_bounds(const std::vector<int>& bounds, std::vector<Comparison>& planned) {
  int unknown = 0;
  for (int i : bounds) {
    planned.push_back(*comparison(i));
    use(i, true);
    unknown += known_value(i) != nullptr ? 0 : 1;
  }
  return unknown;
}

// Terms of IN come first if sqlite3_vtab_in() would not know all arguments.
void Planner::use_filters() {
  if (static_cast<int>(filters_.size()) > served_by_in()) {
    std::stable_partition(filters_.begin(), filters_.end(),
                          [](const Filter& filter) { return filter.term.op == Comparison::kIn; });
  }
  for (const Filter& filter : filters_) {
    plan_.filters.push_back(filter.term);
    uses_.push_back(filter.use);
  }
}

// With k. An older host takes every term for late, so that the cursor looks again.
void Planner::refuse_late_in() {
  const int at = constraint(perhaps_in_).iColumn;
  const std::string name = at == table_.hidden(kDistance) ? "distance"
                           : column(at) == nullptr        ? "rowid"
                                                          : column(at)->name;
  if (!tells_operands()) {
    plan_.unsure = name;
    return;
  }
  throw Error(ErrorKind::kInvalid,
              table_.table + "." + name + ": with k, IN must be among the first " +
                  std::to_string(served_by_in()) +
                  " terms on this table (SQLite does not tell later ones from comparisons with "
                  "other tables); write it earlier");
}

void Planner::plan_search() {
  plan_.access = counts() ? Plan::Access::kCount : Plan::Access::kKnn;
  if (!counts()) plan_.column = constraint(match_).iColumn;
  if (k_ >= 0 && perhaps_in_ >= 0 && !shows_in_) refuse_late_in();
  use_filters();
  use(match_, true);
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
        std::tuple{recall_, &plan_.recall, true}, std::tuple{limit_, &plan_.limit, false},
        std::tuple{offset_, &plan_.offset, false}}) {
    *flag = constraint_index >= 0;
    if (*flag) use(constraint_index, omit);
  }
  info_->estimatedRows = rows_of_search();
  const double penalty = std::pow(tells_operands() ? kUnknownPenalty : kUntoldPenalty, unknown);
  info_->estimatedCost = kSearchCost * std::min(penalty, kMaxPenalty);
  info_->orderByConsumed = ordered_by_result();
  plan_.ordered = info_->orderByConsumed && plan_.comes_in_batches(table_);
}

// So many decide whether SQLite makes an index for a table that is joined: too few, and each result reads all
// of that table.
sqlite3_int64 Planner::rows_of_search() const {
  constexpr sqlite3_int64 kSome = 100, kMany = 1000, kMost = 1 << 20;
  if (k_ < 0) return kMany;
  sqlite3_value* const k = known_value(k_);
  return k == nullptr ? kSome : std::clamp<sqlite3_int64>(sqlite3_value_int64(k), 1, kMost);
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
  descending_ = info_->orderByConsumed && info_->aOrderBy[0].desc;
}

void Planner::plan_refusal(std::string reason) {
  plan_.access = Plan::Access::kRefused;
  plan_.refusal = std::move(reason);
  info_->estimatedCost = kRefusedCost;
}

// Without a MATCH every distance is NULL, and such an order would mean nothing. (GROUP BY and DISTINCT ask
// for an order in the same way, and may have it.)
bool Planner::orders_by_distance() const {
  constexpr int kOrderBy = 0;
  if (!tells_operands() || sqlite3_vtab_distinct(info_) != kOrderBy) return false;
  for (int i = 0; i < info_->nOrderBy; ++i) {
    if (info_->aOrderBy[i].iColumn == table_.hidden(kDistance)) return true;
  }
  return false;
}

// What follows a unique key in ORDER BY decides nothing. Beside an ordinary table the walk is an ascending one.
bool Planner::ordered_by_rowid() const {
  if (info_->nOrderBy < 1 || (info_->aOrderBy[0].desc && table_.has_content())) return false;
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

// A LIMIT that SQLite hands down is all that is read.
bool Plan::comes_in_batches(const TableDefinition& table) const {
  if (access != Access::kKnn || !reads_on()) return false;
  return engine::searcher_of(table.columns[static_cast<std::size_t>(column)].index_name()) != nullptr;
}

bool Planner::shows_values() const {
  if (!table_.has_content() || plan_.access != Plan::Access::kScan) return true;
  for (std::size_t i = 0; i < table_.columns.size(); ++i) {
    const ColumnKind kind = table_.columns[i].kind;
    if (kind != ColumnKind::kRowId && kind != ColumnKind::kAux && is_read(i)) return true;
  }
  return false;
}

bool Planner::shows_aux() const {
  for (std::size_t i = 0; i < table_.columns.size(); ++i) {
    if (table_.columns[i].kind == ColumnKind::kAux && is_read(i)) return true;
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
  info_->idxNum = static_cast<int>(plan_.access) | (shows_values() ? 0 : kShowsNoValues) |
                  (table_.has_content() && shows_aux() ? kShowsAux : 0) |
                  (descending_ ? kDescending : 0);
  const std::string text = plan_.text(table_);
  info_->idxStr = sqlite3_mprintf("%s", text.c_str());
  if (info_->idxStr == nullptr) throw std::bad_alloc();
  info_->needToFreeIdxStr = 1;
}

int best_index(sqlite3* db, const TableDefinition& table, SearchMemo& memo,
               sqlite3_index_info* info) {
  memo.statement_read = nullptr;
  if (memo.probe != nullptr) {
    memo.probe->look(info);
    return SQLITE_OK;
  }
  return Planner(db, table, memo, info).run();
}

}  // namespace warplite::sql
