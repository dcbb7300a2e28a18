// The loops of a filter: rows of a part tested by a predicate, 64 to a word.
#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include "core/process/interruption.h"
#include "engine/filter/collation.h"
#include "engine/filter/predicate.h"
#include "engine/filter/text_equality.h"

namespace warplite::engine {
namespace {

// Prints an integer as everybody does, because LIKE and GLOB test texts.
std::string print_integer(const Cell& cell) { return std::to_string(cell.integer); }

constexpr std::size_t kRun = 32;  // words; their values fill half of a nearest cache

// One bit for each of up to 64 tests.
template <typename Test>
std::uint64_t each_mask(std::size_t count, const Test& test) {
  std::uint64_t mask = 0;
  for (std::size_t i = count; i-- > 0;) mask = mask + mask + static_cast<std::uint64_t>(test(i));
  return mask;
}

// Returns those of the rows in `bits` that pass.
template <typename Test>
std::uint64_t tested(std::uint64_t bits, std::size_t first, const Test& test) {
  std::uint64_t mask = 0;
  for (; bits != 0; bits &= bits - 1) {
    const auto bit = static_cast<std::size_t>(std::countr_zero(bits));
    mask |= static_cast<std::uint64_t>(test(first + bit)) << bit;
  }
  return mask;
}

// Consecutive rows that begin with a word of their own.
struct Run {
  std::size_t first;
  std::size_t rows;
  std::size_t words() const { return (rows + 63) / 64; }
  std::size_t whole_words() const { return rows / 64; }
  std::size_t rest() const { return rows % 64; }
};

// Runs of words that have bits, each cut by what make(run, masks) says of its rows.
template <typename Make>
void cut_runs(const RowWords& rows, const Make& make) {
  std::uint64_t masks[kRun];
  for (std::size_t word = rows.first; word < rows.last;) {
    if (rows.bits[word] == 0) {
      ++word;
      continue;
    }
    std::size_t end = word + 1;
    while (end < rows.last && end - word < kRun && rows.bits[end] != 0) ++end;
    make(Run{word * 64, std::min(end * 64, rows.rows) - word * 64}, masks);
    for (std::size_t i = 0; word < end; ++i, ++word) rows.bits[word] &= masks[i];
  }
}

// Words that have bits, each cut by mask(first row of the word, rows in it).
template <typename Mask>
void cut_words(const RowWords& rows, const Mask& mask) {
  for (std::size_t word = rows.first; word < rows.last; ++word) {
    if (rows.bits[word] == 0) continue;
    const std::size_t first = word * 64;
    rows.bits[word] &= mask(first, std::min<std::size_t>(64, rows.rows - first));
  }
}

RowWords all_words(Bitmap& rows) { return {rows.words(), 0, rows.word_count(), rows.size()}; }

template <typename T>
void interval_run(const T* values, const Run& run, const Interval<T>& interval,
                  std::uint64_t* masks) {
  values += run.first;
  const std::size_t whole = run.whole_words();
  interval_masks(values, whole, interval, masks);
  if (run.rest() == 0) return;
  values += whole * 64;
  masks[whole] = each_mask(run.rest(), [&](std::size_t i) { return interval.contains(values[i]); });
}

template <typename T>
void intervals_run(const T* values, const Run& run, std::span<const Interval<T>> intervals,
                   std::uint64_t* masks) {
  interval_run(values, run, intervals[0], masks);
  std::uint64_t more[kRun];
  for (const Interval<T>& interval : intervals.subspan(1)) {
    interval_run(values, run, interval, more);
    for (std::size_t i = 0; i < run.words(); ++i) masks[i] |= more[i];
  }
}

// Texts of a length; each begins where the one before ends.
void length_run(const std::vector<std::uint32_t>& text_ends, const Run& run, std::size_t length,
                std::uint64_t* masks) {
  const auto wanted = static_cast<std::uint32_t>(length);
  const std::uint32_t* ends = text_ends.data() + run.first;
  const auto one_by_one = [&](std::size_t word, std::size_t count) {
    masks[word] = each_mask(count, [&](std::size_t i) {
      const std::size_t at = word * 64 + i;
      return ends[at] - (run.first + at == 0 ? 0 : ends[at - 1]) == wanted;
    });
  };
  const std::size_t whole = run.whole_words();
  const std::size_t from = run.first == 0 && whole != 0 ? 1 : 0;
  if (from != 0) one_by_one(0, 64);
  compute::host_kernels().mask_lengths(ends + from * 64, whole - from, wanted, masks + from);
  if (run.rest() != 0) one_by_one(whole, run.rest());
}

// Says whether 64 values are one; false where there are fewer.
template <typename T>
bool are_equal(const T* values, std::size_t count) {
  const T value = values[0];
  if (count != 64 || !(values[63] == value && values[21] == value && values[42] == value)) return false;
  std::uint64_t mask;
  interval_masks(values, 1, Interval<T>{value, value}, &mask);
  return mask == ~std::uint64_t{0};
}

template <typename T>
bool is_within(const std::vector<Interval<T>>& ranges, T value) {
  const auto at = first_range_from(ranges, value);
  return at != ranges.end() && at->contains(value);
}

// Keeps the bits first ≤ row < last, or all but those.
void cut_range(Bitmap& rows, std::size_t first, std::size_t last, bool inverted) {
  cut_words(all_words(rows), [&](std::size_t begin, std::size_t count) {
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

// What a test says becomes what a predicate says: negated, and with SQL's say on NULL.
struct CompiledPredicate::Passes {
  bool negated;
  bool nulls_pass;
  const std::uint64_t* nulls;  // null: no row is NULL

  std::uint64_t operator()(std::uint64_t mask, std::size_t word) const {
    if (negated) mask = ~mask;
    if (nulls == nullptr) return mask;
    return nulls_pass ? mask | nulls[word] : mask & ~nulls[word];
  }
  // Calls cut_runs(), and makes of each mask that it fills what (*this) says.
  template <typename Make>
  void cut(const RowWords& rows, const Make& make) const {
    cut_runs(rows, [&](const Run& run, std::uint64_t* masks) {
      make(run, masks);
      const std::size_t word = run.first / 64;
      for (std::size_t i = 0; i < run.words(); ++i) masks[i] = (*this)(masks[i], word + i);
    });
  }
  void cut_all_alike(const RowWords& rows, bool pass) const {
    cut(rows, [pass](const Run& run, std::uint64_t* masks) {
      std::fill_n(masks, run.words(), pass ? ~std::uint64_t{0} : 0);
    });
  }
  template <typename T>
  void cut_by_intervals(const RowWords& rows, const T* values,
                        std::span<const Interval<T>> intervals) const {
    cut(rows, [&](const Run& run, std::uint64_t* masks) {
      intervals_run(values, run, intervals, masks);
    });
  }
  // REQUIRES: merged ones.
  template <typename T>
  void cut_by_ranges(const RowWords& rows, const T* values,
                     const std::vector<Interval<T>>& ranges) const {
    if (ranges.size() <= kFewRuns) return cut_by_intervals(rows, values, std::span(ranges));
    cut_words(rows, [&](std::size_t first, std::size_t) {
      const auto test = [&](std::size_t row) { return is_within(ranges, values[row]); };
      return (*this)(tested(rows.bits[first / 64], first, test), first / 64);
    });
  }
  // The branch predictor cannot foresee which rows are in a set, but few get through the sieve. Rows of
  // one value mostly follow one another where it names what they are of: a document, a tenant.
  template <typename T, typename Has>
  void cut_by_set(const RowWords& rows, const T* values, const Sieve& sieve, const Has& has) const {
    cut_words(rows, [&](std::size_t first, std::size_t count) {
      if (are_equal(values + first, count)) {
        return (*this)(has(values[first]) ? ~std::uint64_t{0} : 0, first / 64);
      }
      const std::uint64_t maybe = each_mask(
          count, [&](std::size_t i) { return sieve.may_have(sieve_key(values[first + i])); });
      const auto test = [&](std::size_t row) { return has(values[row]); };
      return (*this)(tested(maybe & rows.bits[first / 64], first, test), first / 64);
    });
  }
};

void CompiledPredicate::apply(const Column& column, const RowWords& rows) const {
  const Passes passes{negated_, nulls_pass_,
                      column.has_nulls() ? column.nulls().words() : nullptr};
  const std::int64_t* integers = column.integers().data();
  const double* reals = column.reals().data();
  switch (test_) {
    case Test::kNothing:
    case Test::kEverything:
      return passes.cut_all_alike(rows, test_ == Test::kEverything);
    case Test::kIntegers:
      return passes.cut_by_intervals(rows, integers, std::span(&integers_, 1));
    case Test::kReals:
      return passes.cut_by_intervals(rows, reals, std::span(&reals_, 1));
    case Test::kIntegerRanges:
      return passes.cut_by_ranges(rows, integers, ranges_->integers());
    case Test::kRealRanges:
      return passes.cut_by_ranges(rows, reals, ranges_->reals());
    case Test::kIntegerSet:
      if (!integer_runs_.empty()) {
        return passes.cut_by_intervals(rows, integers, std::span(integer_runs_));
      }
      return passes.cut_by_set(rows, integers, sieve_,
                               [&](std::int64_t value) { return integer_set_->contains(value); });
    case Test::kRealSet:
      if (!real_runs_.empty()) {
        return passes.cut_by_intervals(rows, reals, std::span(real_runs_));
      }
      return passes.cut_by_set(rows, reals, sieve_, [&](double value) {
        return std::binary_search(sorted_reals_.begin(), sorted_reals_.end(), value);
      });
    case Test::kTextCompare:
    case Test::kTextSet:
    case Test::kPattern:
    case Test::kHost:
      return apply_to_texts(column, rows, passes);
  }
}

// Texts are long to test: only rows that are still in are looked at.
void CompiledPredicate::apply_to_texts(const Column& column, const RowWords& rows,
                                       const Passes& passes) const {
  const auto cut_tested = [&](const auto& test) {
    cut_words(rows, [&](std::size_t first, std::size_t) {
      poll_interruption();
      return passes(tested(rows.bits[first / 64], first, test), first / 64);
    });
  };
  if (test_ == Test::kHost) {
    // A NULL may pass as well.
    return cut_words(rows, [&](std::size_t first, std::size_t) {
      poll_interruption();
      return tested(rows.bits[first / 64], first,
                    [&](std::size_t row) { return host_->passes(column.cell(row)); });
    });
  }
  if (test_ == Test::kPattern && type_ != PlainType::kText) {
    return cut_tested([&](std::size_t row) { return tests_text(print_integer(column.cell(row))); });
  }
  if (column.coded() && column.entries() <= (rows.last - rows.first) * 64) {
    return cut_entries(column, rows, passes);
  }
  const bool binary = collation_ == Collation::kBinary;
  if (!column.coded() && test_ == Test::kTextCompare && op_ == Comparison::kEqual &&
      collation_ != Collation::kRTrim) {
    return cut_equal_texts(column, rows, passes, {text_});
  }
  constexpr std::size_t kFewTexts = 4;
  if (!column.coded() && test_ == Test::kTextSet && binary && texts_.size() <= kFewTexts) {
    std::vector<std::string_view> wanted;
    for (std::size_t i = 0; i < texts_.size(); ++i) wanted.push_back(texts_[i]);
    return cut_equal_texts(column, rows, passes, wanted);
  }
  if (test_ == Test::kTextSet && binary) {
    return cut_tested([&](std::size_t row) {
      const std::string_view text = column.text(row);
      return sieve_.may_have(sieve_key(text)) != 0 && texts_.contains(text);
    });
  }
  cut_tested([&](std::size_t row) { return tests_text(column.text(row)); });
}

// Each text of the dictionary is tested once, whichever rows have it.
void CompiledPredicate::cut_entries(const Column& column, const RowWords& rows,
                                    const Passes& passes) const {
  std::vector<std::uint8_t> passing(column.entries());
  for (std::size_t code = 0; code < passing.size(); ++code) {
    passing[code] = tests_text(column.entry(code)) ? 1 : 0;
  }
  const std::vector<std::uint32_t>& codes = column.text_codes();
  cut_words(rows, [&](std::size_t first, std::size_t count) {
    const std::uint64_t mask =
        each_mask(count, [&](std::size_t i) { return passing[codes[first + i]]; });
    return passes(mask, first / 64);
  });
}

// Most texts are told from those asked for by their length, which costs least to compare.
void CompiledPredicate::cut_equal_texts(const Column& column, const RowWords& rows,
                                        const Passes& passes,
                                        const std::vector<std::string_view>& wanted) const {
  const std::vector<std::uint32_t>& ends = column.text_ends();
  const char* bytes = column.text_bytes().data();
  const std::vector<TextEquality> equal(wanted.begin(), wanted.end());
  const std::vector<TextEquality64> equal64(wanted.begin(), wanted.end());
  const bool binary = collation_ == Collation::kBinary;
  passes.cut(rows, [&](const Run& run, std::uint64_t* masks) {
    std::uint64_t by_length[kRun];
    std::fill_n(masks, run.words(), 0);
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      const std::size_t length = wanted[n].size();
      const auto test = [&](std::size_t row) {
        const char* text = bytes + (ends[row] - length);
        return binary ? equal[n](text) : compare_text({text, length}, wanted[n], collation_) == 0;
      };
      length_run(ends, run, length, by_length);
      for (std::size_t i = 0; i < run.words(); ++i) {
        const std::size_t first = run.first + i * 64;
        const std::uint64_t bits = by_length[i] & rows.bits[first / 64];
        const bool dense = binary && equal64[n].usable() &&
                           std::popcount(bits) >= TextEquality64::kWorthwhile &&
                           ends[first] >= equal64[n].reach() && first + 64 <= rows.rows;
        masks[i] |= dense ? bits & equal64[n](bytes, ends.data() + first)
                          : tested(bits, first, test);
      }
    }
  });
}

bool CompiledPredicate::tests_text(std::string_view text) const {
  switch (test_) {
    case Test::kTextCompare:
      return satisfies(op_, compare_text(text, text_, collation_));
    case Test::kTextSet:
      return texts_.contains(canonical_text(text, collation_));
    default:
      return op_ == Comparison::kLike ? like_match(text_, text) : glob_match(text_, text);
  }
}

void CompiledPredicate::apply_to_rowids(const Part& part, Bitmap& out) const {
  const RowIdView rowids = part.rowids();
  const auto row_mask = [&](const auto& test) {
    cut_words(all_words(out), [&](std::size_t first, std::size_t count) {
      poll_interruption();
      const std::uint64_t mask =
          each_mask(count, [&](std::size_t i) { return test(rowids[first + i]); });
      return negated_ ? ~mask : mask;
    });
  };
  if (test_ == Test::kIntegerSet) return apply_rowid_set(part, out);
  if (test_ == Test::kPattern || test_ == Test::kHost) {
    const auto passes = [&](std::size_t row) {
      const Cell rowid = Cell::of(rowids[row]);
      return test_ == Test::kHost ? host_->passes(rowid) : tests_text(print_integer(rowid));
    };
    return cut_words(all_words(out), [&](std::size_t first, std::size_t) {
      poll_interruption();
      return tested(out.words()[first / 64], first, passes);
    });
  }
  if (test_ == Test::kIntegerRanges) {
    return row_mask([&](RowId rowid) { return is_within(ranges_->integers(), rowid); });
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
    if (integer_set_ == nullptr) integer_set_ = std::make_unique<IntegerSet>(sorted_);
    for (std::uint32_t row = 0; row < part.rows(); ++row) {
      if (integer_set_->contains(rowids[row])) mask.set(row);
    }
  }
  out &= mask;
}

}  // namespace warplite::engine
