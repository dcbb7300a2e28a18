#include "engine/filter/predicate.h"

#include <algorithm>
#include <optional>

#include "core/process/interruption.h"
#include "engine/filter/collation.h"

namespace warplite::engine {
namespace {

bool is_number(const Cell& cell) {
  return cell.kind == CellKind::kInteger || cell.kind == CellKind::kReal;
}

// The integer that equals a number exactly, or the double that does.
std::optional<std::int64_t> exact_integer(const Cell& cell) {
  if (!is_number(cell)) return std::nullopt;
  const Interval<std::int64_t> equal = integer_interval(Comparison::kEqual, cell);
  if (equal.empty()) return std::nullopt;
  return equal.low;
}

std::optional<double> exact_real(const Cell& cell) {
  if (!is_number(cell)) return std::nullopt;
  const Interval<double> equal = real_interval(Comparison::kEqual, cell);
  if (equal.empty()) return std::nullopt;
  return equal.low;
}

// Returns what values between `low` and `high` say of `interval`.
template <typename T>
CompiledPredicate::Verdict judge_interval(const Interval<T>& interval, T low, T high) {
  using Verdict = CompiledPredicate::Verdict;
  if (interval.empty() || interval.high < low || interval.low > high) return Verdict::kNone;
  return interval.low <= low && high <= interval.high ? Verdict::kAll : Verdict::kSome;
}

template <typename T>
CompiledPredicate::Verdict judge_set(const std::vector<T>& sorted, T low, T high) {
  using Verdict = CompiledPredicate::Verdict;
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), low);
  if (at == sorted.end() || *at > high) return Verdict::kNone;
  return low == high ? Verdict::kAll : Verdict::kSome;
}

template <typename T>
CompiledPredicate::Verdict judge_ranges(const std::vector<Interval<T>>& ranges, T low, T high) {
  const auto at = first_range_from(ranges, low);
  if (at == ranges.end()) return CompiledPredicate::Verdict::kNone;
  return judge_interval(*at, low, high);
}

// Sorted values as intervals without gaps; none when those are too many.
template <typename T, typename Follows>
std::vector<Interval<T>> few_runs(const std::vector<T>& sorted, std::size_t most,
                                  const Follows& follows) {
  std::vector<Interval<T>> runs;
  for (const T& value : sorted) {
    if (!runs.empty() && follows(runs.back().high, value)) {
      runs.back().high = value;
    } else if (runs.size() == most) {
      return {};
    } else {
      runs.push_back({value, value});
    }
  }
  return runs;
}

template <typename Values>
Sieve make_sieve(const Values& values) {
  Sieve sieve(values.size());
  for (const auto& value : values) sieve.add(sieve_key(value));
  return sieve;
}

template <typename T>
Interval<T> intersection(const Interval<T>& a, const Interval<T>& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

// Bounds of texts may be loose, but they are bounds.
CompiledPredicate::Verdict judge_text(Comparison op, std::string_view text, std::string_view low,
                                      std::string_view high) {
  using Verdict = CompiledPredicate::Verdict;
  const int of_low = low.compare(text);
  const int of_high = high.compare(text);
  if (op == Comparison::kEqual) {
    if (of_low > 0 || of_high < 0) return Verdict::kNone;
    return of_low == 0 && of_high == 0 ? Verdict::kAll : Verdict::kSome;
  }
  const bool first = satisfies(op, of_low);
  const bool last = satisfies(op, of_high);
  return first == last ? (first ? Verdict::kAll : Verdict::kNone) : Verdict::kSome;
}

}  // namespace

CompiledPredicate::CompiledPredicate(const Predicate& predicate, PlainType type)
    : column_(predicate.column), op_(predicate.op), type_(type), collation_(predicate.collation) {
  compile(predicate);
}

void CompiledPredicate::compile(const Predicate& predicate) {
  if (predicate.host != nullptr) {
    test_ = Test::kHost;
    host_ = predicate.host;
    return;
  }
  if (op_ == Comparison::kWithin) return compile_ranges(predicate.ranges);
  if (op_ == Comparison::kIn) return compile_in(predicate);
  const bool null_operand = predicate.operands.empty() || predicate.operands[0].is_null();
  if (op_ == Comparison::kIsNull || (op_ == Comparison::kIs && null_operand)) {
    nulls_pass_ = true;
    return;
  }
  if (op_ == Comparison::kIsNotNull || (op_ == Comparison::kIsNot && null_operand)) {
    return decide(true);
  }
  if (null_operand) return;
  const Cell operand = predicate.operands[0].cell();
  if (op_ == Comparison::kLike || op_ == Comparison::kGlob) {
    test_ = Test::kPattern;
    text_ = operand.bytes;
    return;
  }
  nulls_pass_ = op_ == Comparison::kIsNot;
  negated_ = op_ == Comparison::kIsNot || op_ == Comparison::kNotEqual;
  if (negated_ || op_ == Comparison::kIs) op_ = Comparison::kEqual;
  if (type_ == PlainType::kText) {
    compile_text(op_, operand);
  } else {
    compile_numeric(op_, operand);
  }
}

void CompiledPredicate::compile_numeric(Comparison op, const Cell& operand) {
  if (!is_number(operand)) return decide(satisfies(op, -1));  // numbers come before all else
  if (type_ == PlainType::kReal) {
    test_ = Test::kReals;
    reals_ = real_interval(op, operand);
    if (reals_.empty()) decide(false);
  } else {
    test_ = Test::kIntegers;
    integers_ = integer_interval(op, operand);
    if (integers_.empty()) decide(false);
  }
}

void CompiledPredicate::compile_text(Comparison op, const Cell& operand) {
  if (operand.kind != CellKind::kText) return decide(satisfies(op, is_number(operand) ? 1 : -1));
  test_ = Test::kTextCompare;
  text_ = operand.bytes;
}

void CompiledPredicate::compile_ranges(const std::shared_ptr<const NumberRanges>& ranges) {
  const auto& integers = ranges->integers();
  const auto& reals = ranges->reals();
  if (integers.size() + reals.size() == 0) return decide(false);
  if (integers.size() == 1) {
    test_ = Test::kIntegers;
    integers_ = integers[0];
  } else if (reals.size() == 1) {
    test_ = Test::kReals;
    reals_ = reals[0];
  } else {
    test_ = reals.empty() ? Test::kIntegerRanges : Test::kRealRanges;
    ranges_ = ranges;
  }
}

void CompiledPredicate::compile_in(const Predicate& predicate) {
  switch (type_) {
    case PlainType::kText: return compile_text_set(predicate.operands);
    case PlainType::kReal: return compile_real_set(predicate.operands);
    default: return compile_integer_set(predicate);
  }
}

void CompiledPredicate::compile_text_set(const std::vector<Value>& operands) {
  test_ = Test::kTextSet;
  SparsePoll poll;
  for (const Value& operand : operands) {
    poll();
    const Cell cell = operand.cell();
    if (cell.kind == CellKind::kText) texts_.insert(canonical_text(cell.bytes, collation_));
  }
  if (texts_.empty()) return decide(false);
  if (collation_ != Collation::kBinary) return;
  sieve_ = Sieve(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) sieve_.add(sieve_key(texts_[i]));
}

void CompiledPredicate::compile_real_set(const std::vector<Value>& operands) {
  test_ = Test::kRealSet;
  for (const Value& operand : operands) {
    if (const auto value = exact_real(operand.cell())) sorted_reals_.push_back(*value);
  }
  if (sorted_reals_.empty()) return decide(false);
  interruptible_sort(sorted_reals_.begin(), sorted_reals_.end());
  real_runs_ = few_runs(sorted_reals_, kFewRuns, [](double a, double b) { return a == b; });
  if (real_runs_.empty()) sieve_ = make_sieve(sorted_reals_);
}

void CompiledPredicate::compile_integer_set(const Predicate& predicate) {
  test_ = Test::kIntegerSet;
  sorted_ = predicate.rowids;
  for (const Value& operand : predicate.operands) {
    if (const auto value = exact_integer(operand.cell())) sorted_.push_back(*value);
  }
  if (sorted_.empty()) return decide(false);
  if (!std::is_sorted(sorted_.begin(), sorted_.end())) {
    interruptible_sort(sorted_.begin(), sorted_.end());
  }
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
  if (on_rowid()) return;
  integer_set_ = std::make_unique<IntegerSet>(sorted_);
  // Ascending and distinct: what comes after `a` is more than it.
  integer_runs_ = few_runs(sorted_, kFewRuns, [](std::int64_t a, std::int64_t b) { return a == b - 1; });
  if (integer_runs_.empty()) sieve_ = make_sieve(sorted_);
}

bool CompiledPredicate::absorb(const CompiledPredicate& other) {
  const auto plain = [](const CompiledPredicate& p) { return !p.negated_ && !p.nulls_pass_; };
  if (column_ != other.column_ || test_ != other.test_ || !plain(*this) || !plain(other)) {
    return false;
  }
  if (test_ == Test::kIntegers) {
    integers_ = intersection(integers_, other.integers_);
    if (integers_.empty()) decide(false);
    return true;
  }
  if (test_ == Test::kReals) {
    reals_ = intersection(reals_, other.reals_);
    if (reals_.empty()) decide(false);
    return true;
  }
  return false;
}

CompiledPredicate::Verdict CompiledPredicate::judge(const Part& part) const {
  if (on_rowid()) return judge_rowids(part);
  if (asks_host()) return Verdict::kSome;
  if (test_ == Test::kNothing && !nulls_pass_ && !negated_) return Verdict::kNone;
  const storage::ZoneMap* zone = part.zone(static_cast<std::size_t>(column_));
  if (zone == nullptr) return Verdict::kSome;
  if (zone->all_null) return nulls_pass_ ? Verdict::kAll : Verdict::kNone;
  const Verdict values = judge_values(*zone);
  if (!zone->has_null || values == Verdict::kSome) return values;
  return (values == Verdict::kAll) == nulls_pass_ ? values : Verdict::kSome;
}

CompiledPredicate::Verdict CompiledPredicate::judge_values(const storage::ZoneMap& zone) const {
  const Verdict verdict = judge_test(zone.low.cell(), zone.high.cell());
  if (!negated_ || verdict == Verdict::kSome) return verdict;
  return verdict == Verdict::kAll ? Verdict::kNone : Verdict::kAll;
}

CompiledPredicate::Verdict CompiledPredicate::judge_test(const Cell& low, const Cell& high) const {
  const auto outside = [&](std::string_view text) { return text < low.bytes || high.bytes < text; };
  const bool binary = collation_ == Collation::kBinary;
  switch (test_) {
    case Test::kNothing: return Verdict::kNone;
    case Test::kEverything: return Verdict::kAll;
    case Test::kIntegers: return judge_interval(integers_, low.integer, high.integer);
    case Test::kReals: return judge_interval(reals_, low.real, high.real);
    case Test::kIntegerRanges: return judge_ranges(ranges_->integers(), low.integer, high.integer);
    case Test::kRealRanges: return judge_ranges(ranges_->reals(), low.real, high.real);
    case Test::kIntegerSet: return judge_set(sorted_, low.integer, high.integer);
    case Test::kRealSet: return judge_set(sorted_reals_, low.real, high.real);
    case Test::kTextCompare:
      return binary ? judge_text(op_, text_, low.bytes, high.bytes) : Verdict::kSome;
    case Test::kTextSet:
      for (std::size_t i = 0; i < texts_.size(); ++i) {
        if (!binary || !outside(texts_[i])) return Verdict::kSome;
      }
      return Verdict::kNone;
    case Test::kPattern:
    case Test::kHost: break;
  }
  return Verdict::kSome;
}

CompiledPredicate::Verdict CompiledPredicate::judge_rowids(const Part& part) const {
  storage::ZoneMap zone;
  zone.low = Value(Cell::of(part.min_rowid()));
  zone.high = Value(Cell::of(part.max_rowid()));
  return judge_values(zone);
}

}  // namespace warplite::engine
