// The loops of a filter: rows of a part tested by a predicate, 64 to a word.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "engine/collation.h"
#include "engine/predicate.h"

namespace warplite::engine {
namespace {

// A number as SQLite prints it, for LIKE and GLOB.
std::string print_real(double value) {
  if (std::isinf(value)) return value < 0 ? "-Inf" : "Inf";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.15g", value == 0 ? 0.0 : value);
  std::string text = buffer;
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
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

template <typename Test>
std::uint64_t each_mask(std::size_t count, const Test& test) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < count; ++i) mask |= static_cast<std::uint64_t>(test(i)) << i;
  return mask;
}

// One bit for each of `count` values that is in the interval.
template <typename T>
std::uint64_t interval_bits(const T* values, std::size_t count, const Interval<T>& interval) {
  if (count == 64) return interval_mask(values, interval);
  return each_mask(count, [&](std::size_t i) { return interval.contains(values[i]); });
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

std::string print_cell(const Cell& cell) {
  switch (cell.kind) {
    case CellKind::kInteger:
      return std::to_string(cell.integer);
    case CellKind::kReal:
      return print_real(cell.real);
    default:
      return std::string(cell.bytes);
  }
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
    case Test::kNothing:
      return cut([](std::size_t, std::size_t) { return std::uint64_t{0}; });
    case Test::kEverything:
      return cut([](std::size_t, std::size_t) { return ~std::uint64_t{0}; });
    case Test::kIntegers:
      return cut([&](std::size_t first, std::size_t count) {
        return interval_bits(integers + first, count, integers_);
      });
    case Test::kReals:
      return cut([&](std::size_t first, std::size_t count) {
        return interval_bits(reals + first, count, reals_);
      });
    case Test::kIntegerSet:
      return cut([&](std::size_t first, std::size_t count) {
        return each_mask(
            count, [&](std::size_t i) { return integer_set_->contains(integers[first + i]); });
      });
    case Test::kRealSet:
      return cut([&](std::size_t first, std::size_t count) {
        return each_mask(count, [&](std::size_t i) {
          return std::binary_search(sorted_reals_.begin(), sorted_reals_.end(), reals[first + i]);
        });
      });
    case Test::kTextCompare:
    case Test::kTextSet:
      return cut_tested([&](std::size_t row) { return tests_text(column.text(row)); });
    case Test::kPattern:
      return cut_tested([&](std::size_t row) {
        return type_ == PlainType::kText ? tests_text(column.text(row))
                                         : tests_text(print_cell(column.cell(row)));
      });
  }
}

bool CompiledPredicate::tests_text(std::string_view text) const {
  switch (test_) {
    case Test::kTextCompare:
      if (op_ == Comparison::kEqual && collation_ == Collation::kBinary) return text == text_;
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
