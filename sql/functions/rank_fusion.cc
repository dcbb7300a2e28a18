#include "sql/functions/rank_fusion.h"

#include <new>
#include <string>

#include "core/error.h"
#include "sql/definition/values.h"
#include "sql/host/entry.h"
#include "sql/host/guard.h"

namespace warplite::sql {
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
  if (!is_weight(weight)) refuse("weight", "a number, 0 or more", value);
  return weight;
}

ScoreSum* sum_of(sqlite3_context* context, bool make) {
  return static_cast<ScoreSum*>(
      sqlite3_aggregate_context(context, make ? static_cast<int>(sizeof(ScoreSum)) : 0));
}

// Memory that SQLite gives is of zeros, as a sum of nothing is.
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
