// One predicate of a filter, made ready: constants compared with the column's type once, so
// that rows are tested by tight loops, and whole parts by their bounds.
// Threads: immutable after construction; one that asks the host belongs to the connection's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/filter/filter.h"
#include "engine/filter/integer_set.h"
#include "engine/filter/interval_mask.h"
#include "engine/filter/predicate_sieve.h"
#include "engine/filter/text_set.h"

namespace warplite::engine {

// Some words of a bitmap of `rows` rows.
struct RowWords {
  std::uint64_t* bits;  // of all rows
  std::size_t first;    // word
  std::size_t last;     // one past the last word
  std::size_t rows;
};

class CompiledPredicate {
 public:
  // `type`: the column's, or kInteger for the rowid.
  CompiledPredicate(const Predicate& predicate, PlainType type);

  enum class Verdict { kNone, kAll, kSome };
  // Returns what the part's bounds say of all its rows, dead ones included, without reading them.
  Verdict judge(const Part& part) const;
  // Clear the bits of rows that do not pass. REQUIRES: judge(part) == kSome
  void apply_to_rowids(const Part& part, Bitmap& rows) const;      // of one on_rowid()
  void apply(const Column& column, const RowWords& rows) const;  // of any other
  // Says whether rows are tested by the host, on the connection's thread; else they are on any.
  bool asks_host() const { return test_ == Test::kHost; }

  // Takes over what another predicate on the same values asks for, so that they are read once:
  // value BETWEEN a AND b comes as two. False: they have to stay two.
  bool absorb(const CompiledPredicate& other);

  // The places first … last of values that pass, among `count` ascending ones at the front of a
  // column, where they are found without looking at all: in runs that may meet. False: they are not.
  struct Places {
    std::size_t first, last;
  };
  bool find_places(const Column& ascending, std::size_t count, std::vector<Places>& out) const;

  bool on_rowid() const { return column_ == Predicate::kRowId; }
  std::size_t column() const { return static_cast<std::size_t>(column_); }
  bool nulls_pass() const { return asks_host() ? host_->passes(Cell::null()) : nulls_pass_; }
  // Returns roughly what testing a row costs: 0 (rowid), 1 (number), 2 (text), 3 (what the host
  // tests).
  int cost() const {
    return asks_host() ? 3 : on_rowid() ? 0 : type_ == PlainType::kText ? 2 : 1;
  }

 private:
  // How a value that is not NULL is tested; `negated_` inverts it.
  enum class Test {
    kNothing,
    kEverything,
    kIntegers,
    kReals,
    kIntegerRanges,
    kRealRanges,
    kIntegerSet,
    kRealSet,
    kTextCompare,
    kTextSet,
    kPattern,
    kHost
  };

  // Sets that come to this many intervals at most are tested one interval after another.
  static constexpr std::size_t kFewRuns = 4;

  void compile(const Predicate& predicate);
  void compile_numeric(Comparison op, const Cell& operand);
  void compile_text(Comparison op, const Cell& operand);
  void compile_ranges(const std::shared_ptr<const NumberRanges>& ranges);
  void compile_in(const Predicate& predicate);
  void compile_text_set(const std::vector<Value>& operands);
  void compile_real_set(const std::vector<Value>& operands);
  void compile_integer_set(const Predicate& predicate);
  void decide(bool value_passes) { test_ = value_passes ? Test::kEverything : Test::kNothing; }

  bool tests_text(std::string_view text) const;
  Verdict judge_values(const storage::ZoneMap& zone) const;
  Verdict judge_test(const Cell& low, const Cell& high) const;  // unless negated
  Verdict judge_rowids(const Part& part) const;
  struct Passes;
  void apply_to_texts(const Column& column, const RowWords& rows, const Passes& passes) const;
  void cut_entries(const Column& column, const RowWords& rows, const Passes& passes) const;
  void cut_equal_texts(const Column& column, const RowWords& rows, const Passes& passes,
                       const std::vector<std::string_view>& wanted) const;
  void apply_rowid_set(const Part& part, Bitmap& out) const;

  int column_;
  Comparison op_;
  PlainType type_;
  Collation collation_;
  bool nulls_pass_ = false;
  bool negated_ = false;
  Test test_ = Test::kNothing;
  Interval<std::int64_t> integers_{0, -1};
  Interval<double> reals_{0, -1};
  std::shared_ptr<const NumberRanges> ranges_;  // of kIntegerRanges, kRealRanges
  std::vector<std::int64_t> sorted_;  // of kIntegerSet
  mutable std::unique_ptr<IntegerSet> integer_set_;  // of rowids: made when it is needed
  std::vector<double> sorted_reals_;       // of kRealSet
  // Runs that a set of few values amounts to; empty for others, which have a sieve.
  std::vector<Interval<std::int64_t>> integer_runs_;
  std::vector<Interval<double>> real_runs_;
  Sieve sieve_;
  std::string text_;                       // operand of kTextCompare, kPattern
  std::shared_ptr<HostTest> host_;         // of kHost
  TextSet texts_;                          // of kTextSet, canonical under the collation
};

// Says whether a value that compares with the operand as `order` says satisfies the comparison.
constexpr bool satisfies(Comparison op, int order) {
  switch (op) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    case Comparison::kGreaterEqual:
      return order >= 0;
    default:
      return order == 0;
  }
}

// The integers, and the doubles, that satisfy `value op operand` for =, <, <=, > and >=.
Interval<std::int64_t> integer_interval(Comparison op, const Cell& operand);
Interval<double> real_interval(Comparison op, const Cell& operand);

}  // namespace warplite::engine
