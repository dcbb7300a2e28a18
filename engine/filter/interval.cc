// Comparisons with a constant as closed intervals of the column's own type. Integers and
// reals are compared exactly: no constant is rounded.
#include <cmath>
#include <limits>

#include "engine/filter/predicate.h"

namespace warplite::engine {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTwo63 = 9223372036854775808.0;

// The integers that `value <= bound`, or `value < bound` when strict, admits.
Interval<std::int64_t> at_most(const Cell& bound, bool strict) {
  if (bound.kind == CellKind::kInteger) {
    if (strict && bound.integer == kLowest) return {0, -1};
    return {kLowest, bound.integer - (strict ? 1 : 0)};
  }
  const double floor = std::floor(bound.real);
  if (floor >= kTwo63) return {kLowest, kHighest};
  if (floor < -kTwo63) return {0, -1};
  const auto whole = static_cast<std::int64_t>(floor);
  return at_most(Cell::of(whole), strict && floor == bound.real);
}

Interval<std::int64_t> at_least(const Cell& bound, bool strict) {
  if (bound.kind == CellKind::kInteger) {
    if (strict && bound.integer == kHighest) return {0, -1};
    return {bound.integer + (strict ? 1 : 0), kHighest};
  }
  const double ceiling = std::ceil(bound.real);
  if (ceiling < -kTwo63) return {kLowest, kHighest};
  if (ceiling >= kTwo63) return {0, -1};
  const auto whole = static_cast<std::int64_t>(ceiling);
  return at_least(Cell::of(whole), strict && ceiling == bound.real);
}

// The largest double that is not above `bound`, or is below it when strict.
double last_up_to(const Cell& bound, bool strict) {
  double at = bound.kind == CellKind::kInteger ? static_cast<double>(bound.integer) : bound.real;
  int order = 0;
  if (bound.kind == CellKind::kInteger) order = compare_exactly(at, bound.integer);
  const bool excluded = order > 0 || (order == 0 && strict);
  return excluded ? std::nextafter(at, -kInfinity) : at;
}

double first_from(const Cell& bound, bool strict) {
  double at = bound.kind == CellKind::kInteger ? static_cast<double>(bound.integer) : bound.real;
  int order = 0;
  if (bound.kind == CellKind::kInteger) order = compare_exactly(at, bound.integer);
  const bool excluded = order < 0 || (order == 0 && strict);
  return excluded ? std::nextafter(at, kInfinity) : at;
}

}  // namespace

Interval<std::int64_t> integer_interval(Comparison op, const Cell& operand) {
  switch (op) {
    case Comparison::kLess:
      return at_most(operand, true);
    case Comparison::kLessEqual:
      return at_most(operand, false);
    case Comparison::kGreater:
      return at_least(operand, true);
    case Comparison::kGreaterEqual:
      return at_least(operand, false);
    default: {
      const Interval<std::int64_t> from = at_least(operand, false);
      const Interval<std::int64_t> to = at_most(operand, false);
      if (from.empty() || to.empty()) return {0, -1};
      return {from.low, to.high};
    }
  }
}

Interval<double> real_interval(Comparison op, const Cell& operand) {
  const bool integer = operand.kind == CellKind::kInteger;
  switch (op) {
    case Comparison::kLess:
      if (!integer && operand.real == -kInfinity) return {0, -1};
      return {-kInfinity, last_up_to(operand, true)};
    case Comparison::kLessEqual:
      return {-kInfinity, last_up_to(operand, false)};
    case Comparison::kGreater:
      if (!integer && operand.real == kInfinity) return {0, -1};
      return {first_from(operand, true), kInfinity};
    case Comparison::kGreaterEqual:
      return {first_from(operand, false), kInfinity};
    default:
      return {first_from(operand, false), last_up_to(operand, false)};
  }
}

}  // namespace warplite::engine
