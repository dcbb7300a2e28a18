#include "engine/predicate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

namespace warplite::engine {
namespace {

bool is_number(const Cell& cell) {
  return cell.kind == CellKind::kInteger || cell.kind == CellKind::kReal;
}

char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::string_view without_trailing_spaces(std::string_view text) {
  const std::size_t last = text.find_last_not_of(' ');
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

int sign_of(std::ptrdiff_t difference) { return difference < 0 ? -1 : difference > 0; }

// A number as SQLite prints it, for LIKE and GLOB.
std::string print_real(double value) {
  if (std::isinf(value)) return value < 0 ? "-Inf" : "Inf";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.15g", value == 0 ? 0.0 : value);
  std::string text = buffer;
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string print_cell(const Cell& cell) {
  switch (cell.kind) {
    case CellKind::kInteger: return std::to_string(cell.integer);
    case CellKind::kReal: return print_real(cell.real);
    default: return std::string(cell.bytes);
  }
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

// What values between `low` and `high` say of `interval`.
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

bool passes(Comparison op, int order) {
  switch (op) {
    case Comparison::kLess: return order < 0;
    case Comparison::kLessEqual: return order <= 0;
    case Comparison::kGreater: return order > 0;
    case Comparison::kGreaterEqual: return order >= 0;
    default: return order == 0;
  }
}

// Bounds of texts may be loose, but they are bounds.
CompiledPredicate::Verdict judge_text(Comparison op, std::string_view text, std::string_view low,
                                      std::string_view high) {
  using Verdict = CompiledPredicate::Verdict;
  const int of_low = sign_of(low.compare(text));
  const int of_high = sign_of(high.compare(text));
  if (op == Comparison::kEqual) {
    if (of_low > 0 || of_high < 0) return Verdict::kNone;
    return of_low == 0 && of_high == 0 ? Verdict::kAll : Verdict::kSome;
  }
  const bool first = passes(op, of_low);
  const bool last = passes(op, of_high);
  return first == last ? (first ? Verdict::kAll : Verdict::kNone) : Verdict::kSome;
}

// The words of `rows` that have bits, each cut by mask(first row of the word, rows in it).
template <typename Mask>
void cut_words(Bitmap& rows, const Mask& mask) {
  std::uint64_t* words = rows.words();
  for (std::size_t word = 0; word < rows.word_count(); ++word) {
    if (words[word] == 0) continue;
    const std::size_t first = word * 64;
    words[word] &= mask(first, std::min<std::size_t>(64, rows.size() - first));
  }
}

// One bit for each of `count` values that is in the interval.
template <typename T>
std::uint64_t interval_mask(const T* values, std::size_t count, const Interval<T>& interval) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < count; ++i) {
    mask |= static_cast<std::uint64_t>((values[i] >= interval.low) & (values[i] <= interval.high))
            << i;
  }
  return mask;
}

template <typename Test>
std::uint64_t each_mask(std::size_t count, const Test& test) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < count; ++i) mask |= static_cast<std::uint64_t>(test(i)) << i;
  return mask;
}

// Keeps the bits first ≤ row < last, or all but those.
void cut_range(Bitmap& rows, std::size_t first, std::size_t last, bool inverted) {
  cut_words(rows, [&](std::size_t begin, std::size_t count) {
    const std::size_t from = std::clamp(first, begin, begin + count) - begin;
    const std::size_t to = std::clamp(last, begin, begin + count) - begin;
    std::uint64_t mask = 0;
    if (to > from) {
      mask = (to - from == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (to - from)) - 1) << from;
    }
    return inverted ? ~mask : mask;
  });
}

}  // namespace

std::string canonical_text(std::string_view text, Collation collation) {
  if (collation == Collation::kRTrim) return std::string(without_trailing_spaces(text));
  std::string out(text);
  if (collation == Collation::kBinary) return out;
  // NOCASE looks no further than the first NUL, and then compares lengths.
  const std::size_t end = std::min(out.find('\0'), out.size());
  for (std::size_t i = 0; i < end; ++i) out[i] = fold(out[i]);
  for (std::size_t i = end; i < out.size(); ++i) out[i] = '\0';
  return out;
}

int compare_text(std::string_view a, std::string_view b, Collation collation) {
  if (collation == Collation::kRTrim) {
    return sign_of(without_trailing_spaces(a).compare(without_trailing_spaces(b)));
  }
  if (collation == Collation::kBinary) return sign_of(a.compare(b));
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    const auto x = static_cast<unsigned char>(fold(a[i]));
    const auto y = static_cast<unsigned char>(fold(b[i]));
    if (x != y) return x < y ? -1 : 1;
    if (x == 0) break;
  }
  return sign_of(static_cast<std::ptrdiff_t>(a.size()) - static_cast<std::ptrdiff_t>(b.size()));
}

IntegerSet::IntegerSet(const std::vector<std::int64_t>& values) {
  const std::size_t size = std::bit_ceil(values.size() * 2 + 1);
  mask_ = size - 1;
  slots_.resize(size);
  filled_.resize(size);
  for (std::int64_t value : values) {
    std::size_t at = hash(value) & mask_;
    while (filled_[at] != 0 && slots_[at] != value) at = (at + 1) & mask_;
    slots_[at] = value;
    filled_[at] = 1;
  }
}

bool IntegerSet::contains(std::int64_t value) const {
  for (std::size_t at = hash(value) & mask_; filled_[at] != 0; at = (at + 1) & mask_) {
    if (slots_[at] == value) return true;
  }
  return false;
}

CompiledPredicate::CompiledPredicate(const Predicate& predicate, PlainType type)
    : column_(predicate.column),
      op_(predicate.op),
      type_(type),
      collation_(predicate.collation) {
  compile(predicate);
}

void CompiledPredicate::compile(const Predicate& predicate) {
  if (op_ == Comparison::kIn) return compile_in(predicate.operands);
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
  if (op_ == Comparison::kLike || op_ == Comparison::kGlob) return compile_pattern(operand);
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
  if (!is_number(operand)) return decide(passes(op, -1));  // numbers come before all else
  if (type_ == PlainType::kReal) {
    test_ = Test::kReals;
    reals_ = real_interval(op, operand);
  } else {
    test_ = Test::kIntegers;
    integers_ = integer_interval(op, operand);
  }
}

void CompiledPredicate::compile_text(Comparison op, const Cell& operand) {
  if (operand.kind != CellKind::kText) return decide(passes(op, is_number(operand) ? 1 : -1));
  test_ = Test::kTextCompare;
  text_ = operand.bytes;
}

void CompiledPredicate::compile_pattern(const Cell& operand) {
  test_ = Test::kPattern;
  text_ = print_cell(operand);
}

void CompiledPredicate::compile_in(const std::vector<Value>& operands) {
  if (type_ == PlainType::kText) {
    test_ = Test::kTextSet;
    for (const Value& operand : operands) {
      const Cell cell = operand.cell();
      if (cell.kind == CellKind::kText) texts_.insert(canonical_text(cell.bytes, collation_));
    }
    return;
  }
  if (type_ == PlainType::kReal) {
    test_ = Test::kRealSet;
    for (const Value& operand : operands) {
      if (const auto value = exact_real(operand.cell())) sorted_reals_.push_back(*value);
    }
    std::sort(sorted_reals_.begin(), sorted_reals_.end());
    return;
  }
  test_ = Test::kIntegerSet;
  for (const Value& operand : operands) {
    if (const auto value = exact_integer(operand.cell())) sorted_.push_back(*value);
  }
  std::sort(sorted_.begin(), sorted_.end());
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
  integer_set_ = std::make_unique<IntegerSet>(sorted_);
}

CompiledPredicate::Verdict CompiledPredicate::judge(const Part& part) const {
  if (on_rowid()) return judge_rowids(part);
  if (test_ == Test::kNothing && !nulls_pass_ && !negated_) return Verdict::kNone;
  const storage::ZoneMap* zone = part.zone(static_cast<std::size_t>(column_));
  if (zone == nullptr) return Verdict::kSome;
  if (zone->all_null) return nulls_pass_ ? Verdict::kAll : Verdict::kNone;
  const Verdict values = judge_values(*zone);
  if (!zone->has_null || values == Verdict::kSome) return values;
  return (values == Verdict::kAll) == nulls_pass_ ? values : Verdict::kSome;
}

CompiledPredicate::Verdict CompiledPredicate::judge_values(const storage::ZoneMap& zone) const {
  const Cell low = zone.low.cell();
  const Cell high = zone.high.cell();
  Verdict verdict = Verdict::kSome;
  switch (test_) {
    case Test::kNothing: verdict = Verdict::kNone; break;
    case Test::kEverything: verdict = Verdict::kAll; break;
    case Test::kIntegers: verdict = judge_interval(integers_, low.integer, high.integer); break;
    case Test::kReals: verdict = judge_interval(reals_, low.real, high.real); break;
    case Test::kIntegerSet: verdict = judge_set(sorted_, low.integer, high.integer); break;
    case Test::kRealSet: verdict = judge_set(sorted_reals_, low.real, high.real); break;
    case Test::kTextCompare:
      if (collation_ == Collation::kBinary) verdict = judge_text(op_, text_, low.bytes, high.bytes);
      break;
    case Test::kTextSet:
      if (collation_ != Collation::kBinary) break;
      if (std::none_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
            return low.bytes <= text && text <= high.bytes;
          })) {
        verdict = Verdict::kNone;
      }
      break;
    case Test::kPattern: break;
  }
  if (!negated_ || verdict == Verdict::kSome) return verdict;
  return verdict == Verdict::kAll ? Verdict::kNone : Verdict::kAll;
}

CompiledPredicate::Verdict CompiledPredicate::judge_rowids(const Part& part) const {
  storage::ZoneMap zone;
  zone.low = Value(Cell::of(part.min_rowid()));
  zone.high = Value(Cell::of(part.max_rowid()));
  return judge_values(zone);
}

void CompiledPredicate::apply(const Part& part, Bitmap& rows) const {
  if (on_rowid()) return apply_to_rowids(part, rows);
  const std::shared_ptr<const Column> column = part.plain(static_cast<std::size_t>(column_));
  if (column == nullptr) {
    if (!nulls_pass_) rows = Bitmap(rows.size());
    return;
  }
  apply_to_column(*column, rows);
}

void CompiledPredicate::apply_to_column(const Column& column, Bitmap& out) const {
  const std::uint64_t* nulls = column.has_nulls() ? column.nulls().words() : nullptr;
  const auto cut = [&](const auto& mask) {
    cut_words(out, [&](std::size_t first, std::size_t count) {
      const std::uint64_t pass = negated_ ? ~mask(first, count) : mask(first, count);
      if (nulls == nullptr) return pass;
      const std::uint64_t null = nulls[first / 64];
      return nulls_pass_ ? pass | null : pass & ~null;
    });
  };
  // Texts are long to test: only rows that are still in are looked at.
  const auto cut_tested = [&](const auto& test) {
    const std::uint64_t* words = out.words();
    cut([&](std::size_t first, std::size_t) {
      std::uint64_t mask = 0;
      for (std::uint64_t left = words[first / 64]; left != 0; left &= left - 1) {
        const auto bit = static_cast<std::size_t>(std::countr_zero(left));
        mask |= static_cast<std::uint64_t>(test(first + bit)) << bit;
      }
      return mask;
    });
  };
  const std::int64_t* integers = column.integers().data();
  const double* reals = column.reals().data();
  switch (test_) {
    case Test::kNothing: return cut([](std::size_t, std::size_t) { return std::uint64_t{0}; });
    case Test::kEverything: return cut([](std::size_t, std::size_t) { return ~std::uint64_t{0}; });
    case Test::kIntegers:
      return cut([&](std::size_t first, std::size_t count) {
        return interval_mask(integers + first, count, integers_);
      });
    case Test::kReals:
      return cut([&](std::size_t first, std::size_t count) {
        return interval_mask(reals + first, count, reals_);
      });
    case Test::kIntegerSet:
      return cut([&](std::size_t first, std::size_t count) {
        return each_mask(count, [&](std::size_t i) {
          return integer_set_->contains(integers[first + i]);
        });
      });
    case Test::kRealSet:
      return cut([&](std::size_t first, std::size_t count) {
        return each_mask(count, [&](std::size_t i) {
          return std::binary_search(sorted_reals_.begin(), sorted_reals_.end(), reals[first + i]);
        });
      });
    case Test::kTextCompare:
    case Test::kTextSet: return cut_tested([&](std::size_t row) { return tests_text(column.text(row)); });
    case Test::kPattern: return cut_tested([&](std::size_t row) {
      return type_ == PlainType::kText ? tests_text(column.text(row))
                                       : tests_text(print_cell(column.cell(row)));
    });
  }
}

bool CompiledPredicate::tests_text(std::string_view text) const {
  switch (test_) {
    case Test::kTextCompare:
      if (op_ == Comparison::kEqual && collation_ == Collation::kBinary) return text == text_;
      return passes(op_, compare_text(text, text_, collation_));
    case Test::kTextSet: return texts_.contains(canonical_text(text, collation_));
    default: return op_ == Comparison::kLike ? like_match(text_, text) : glob_match(text_, text);
  }
}

void CompiledPredicate::apply_to_rowids(const Part& part, Bitmap& out) const {
  const RowIdView rowids = part.rowids();
  const auto row_mask = [&](const auto& test) {
    cut_words(out, [&](std::size_t first, std::size_t count) {
      const std::uint64_t mask =
          each_mask(count, [&](std::size_t i) { return test(rowids[first + i]); });
      return negated_ ? ~mask : mask;
    });
  };
  if (test_ == Test::kIntegerSet) return apply_rowid_set(part, out);
  if (test_ == Test::kPattern) {
    return row_mask([&](RowId rowid) { return tests_text(std::to_string(rowid)); });
  }
  if (rowids.list != nullptr) {
    return row_mask([&](RowId rowid) { return integers_.contains(rowid); });
  }
  // judge() found that the interval and the run overlap.
  const RowId last = rowids.first + static_cast<RowId>(part.rows() - 1);
  const RowId from = std::max(integers_.low, rowids.first);
  const RowId to = std::min(integers_.high, last);
  cut_range(out, static_cast<std::size_t>(from - rowids.first),
            static_cast<std::size_t>(to - rowids.first) + 1, negated_);
}

void CompiledPredicate::apply_rowid_set(const Part& part, Bitmap& out) const {
  const auto first = std::lower_bound(sorted_.begin(), sorted_.end(), part.min_rowid());
  const auto last = std::upper_bound(first, sorted_.end(), part.max_rowid());
  Bitmap mask(out.size());
  // Each look-up costs about as much as testing a few rows.
  constexpr std::ptrdiff_t kRowsPerLookUp = 4;
  const RowIdView rowids = part.rowids();
  if (rowids.list == nullptr || (last - first) * kRowsPerLookUp < part.rows()) {
    for (auto at = first; at != last; ++at) {
      if (const auto row = part.find(*at)) mask.set(*row);
    }
  } else {
    for (std::uint32_t row = 0; row < part.rows(); ++row) {
      if (integer_set_->contains(rowids[row])) mask.set(row);
    }
  }
  out &= mask;
}

}  // namespace warplite::engine
