#include "sql/functions/rank_fusion.h"

#include <new>
#include <string>

#include "core/error.h"
#include "sql/definition/values.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"

namespace warplite::sql {
namespace {

struct Rounded {
  double sum, rest;  // what rounding took
};
Rounded add_exactly(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

}  // namespace

void ScoreSum::add(double term) {
  int kept = 0;
  for (int i = 0; i < count_; ++i) {
    const Rounded next = add_exactly(term, parts_[i]);
    term = next.sum;
    if (next.rest != 0) parts_[kept++] = next.rest;
  }
  parts_[kept++] = term;
  count_ = kept;
}

// From the largest part down. What is left halfway between two doubles goes to the even one, unless
// the parts below say otherwise.
double ScoreSum::value() const {
  if (count_ == 0) return 0;
  Rounded top{parts_[count_ - 1], 0};
  int at = count_ - 1;
  while (at > 0 && top.rest == 0) top = add_exactly(top.sum, parts_[--at]);
  if (at > 0 && (top.rest < 0) == (parts_[at - 1] < 0)) {
    const double twice = 2 * top.rest;
    const double away = top.sum + twice;
    if (away - top.sum == twice) return away;
  }
  return top.sum;
}

namespace {

[[noreturn]] void refuse(const char* what, const char* expected, sqlite3_value* value) {
  throw Error(ErrorKind::kInvalid, std::string("warp_rrf: ") + what + ": expected " + expected +
                                       ", got " + describe(cell_of(value)));
}

std::int64_t read_rank(sqlite3_value* value) {
  if (sqlite3_value_type(value) != SQLITE_INTEGER || sqlite3_value_int64(value) < 1) {
    refuse("rank", "an integer of 1 or more, a row's place in its list", value);
  }
  return sqlite3_value_int64(value);
}

double read_weight(sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  const double weight = type == SQLITE_INTEGER || type == SQLITE_FLOAT
                            ? sqlite3_value_double(value) : -1;
  if (!is_weight(weight)) refuse("weight", kWeightExpected, value);
  return weight;
}

ScoreSum* sum_of(sqlite3_context* context, bool make) {
  return static_cast<ScoreSum*>(
      sqlite3_aggregate_context(context, make ? static_cast<int>(sizeof(ScoreSum)) : 0));
}

void add_rank(sqlite3_context* context, int count, sqlite3_value** arguments) {
  for (int i = 0; i < count; ++i) {
    if (sqlite3_value_type(arguments[i]) == SQLITE_NULL) return;
  }
  guarded(context, [&] {
    const std::int64_t rank = read_rank(arguments[0]);
    const double weight = count == 2 ? read_weight(arguments[1]) : 1;
    ScoreSum* const sum = sum_of(context, true);
    if (sum == nullptr) throw std::bad_alloc();
    sum->add(rrf_term(rank, weight));
  });
}

void finish(sqlite3_context* context) {
  const ScoreSum* const sum = sum_of(context, false);
  sqlite3_result_double(context, sum == nullptr ? 0 : sum->value());
}

}  // namespace

int register_rank_fusion(sqlite3* db) {
  constexpr int kPure = SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC;
  const int code = create_aggregate<add_rank, finish>(db, "warp_rrf", 1, kPure);
  return code != SQLITE_OK ? code : create_aggregate<add_rank, finish>(db, "warp_rrf", 2, kPure);
}

}  // namespace warplite::sql
