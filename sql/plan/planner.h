// The inside of xBestIndex: plan_terms.cc says what the constraints are, plan.cc what is made of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sql/host/older_hosts.h"
#include "sql/plan/plan.h"

namespace warplite::sql {

// The constraints, and the arguments, that sqlite3_vtab_in() knows of.
inline int served_by_in() { return tells_operands() ? 32 : 0; }

class Planner {
 public:
  Planner(sqlite3* db, const TableDefinition& table, SearchMemo& memo, sqlite3_index_info* info)
      : db_(db), table_(table), memo_(memo), info_(info) {}

  int run();

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
  bool is_in(int i) const { return tells_operands() && sqlite3_vtab_in(info_, i, -1) != 0; }
  // Null: it is not known yet.
  sqlite3_value* known_value(int i) const {
    sqlite3_value* value = nullptr;
    const bool told = tells_operands() && sqlite3_vtab_rhs_value(info_, i, &value) == SQLITE_OK;
    return told ? value : nullptr;
  }

  void remember();
  void classify(int i);
  void classify_match(int i);
  void classify_single(int i, int& slot, const char* name);
  void classify_bound(int i, std::vector<int>& bounds);
  void classify_filter(int i);
  bool filters(int i) const;
  void classify_unusable(int i);
  std::optional<engine::Comparison> comparison(int i) const;
  bool text_filter(int i, Filter& filter) const;
  bool above_all_numbers(int i) const;
  bool is_overloaded(engine::Comparison op);
  bool is_point(const Filter& filter) const;

  void plan_search();
  void plan_point();
  void plan_scan();
  void plan_refusal(std::string reason);
  void refuse_late_in();
  // Says whether MATCH is on the table's own name.
  bool counts() const {
    return match_ >= 0 && constraint(match_).iColumn == table_.hidden(kCommand);
  }
  // Says whether MATCH is on a column with index=words.
  bool words() const {
    const ColumnDefinition* matched = match_ < 0 ? nullptr : column(constraint(match_).iColumn);
    return matched != nullptr && matched->text.kind == index::TextIndex::Kind::kWords;
  }
  // Consumes bounds; returns how many of them have values that are not known.
  int use_bounds(const std::vector<int>& bounds, std::vector<engine::Comparison>& planned);
  bool ordered_by_result() const;
  sqlite3_int64 rows_of_search() const;
  bool orders_by_distance() const;
  bool ordered_by_rowid() const;
  bool shows_values() const;
  bool shows_aux() const;
  bool is_read(std::size_t column) const {
    // All columns from the 64th on share a bit.
    return (info_->colUsed >> std::min<std::size_t>(column, 63) & 1) != 0;
  }
  void emit();

  void use(int i, bool omit) { uses_.push_back({i, omit}); }
  void use_filters();

  sqlite3* db_;
  const TableDefinition& table_;
  SearchMemo& memo_;
  sqlite3_index_info* info_;
  Plan plan_;
  std::vector<Use> uses_;  // in the order of xFilter's arguments
  std::vector<Filter> filters_;
  std::vector<int> bounds_;        // constraints on distance
  std::vector<int> match_bounds_;  // constraints on matches
  int matches_ = 0, match_ = -1, k_ = -1, nprobe_ = -1, recall_ = -1, limit_ = -1, offset_ = -1;
  int point_ = -1;  // index into filters_
  bool unusable_ = false;
  int perhaps_in_ = -1;    // a constraint that is not usable, and = or IN
  bool shows_in_ = false;  // one that is usable
  bool counts_needed_ = false;         // matches is constrained
  bool descending_ = false;            // the scan
  const char* needs_match_ = nullptr;  // the hidden column that does
  const char* misused_ = nullptr;      // k, nprobe or recall, with anything but one =
  double factor_ = 1;  // of plans without MATCH
  std::optional<bool> overloaded_[2];  // LIKE and GLOB
};

inline bool is_range(engine::Comparison op) {
  using engine::Comparison;
  return op == Comparison::kLess || op == Comparison::kLessEqual || op == Comparison::kGreater ||
         op == Comparison::kGreaterEqual;
}

}  // namespace warplite::sql
