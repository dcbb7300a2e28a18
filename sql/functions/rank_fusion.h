// Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a row's score is the sum of
// weight / (60 + rank) over the lists that it is in; and the aggregate warp_rrf(rank [, weight]).
#pragma once

#include <cmath>
#include <cstdint>

#include "storage/sqlite_api.h"

namespace warplite::sql {

inline double rrf_term(std::int64_t rank, double weight) {
  constexpr double kOffset = 60;
  return weight / (kOffset + static_cast<double>(rank));
}

inline bool is_weight(double value) { return std::isfinite(value) && value >= 0; }

// The sum of the scores that lists give to a row, to the nearest double: it keeps what rounding
// takes. So rows of the same ranks have the same score, whichever list gave them which.
class ScoreSum {
 public:
  void add(double term) {
    const double sum = high_ + term;
    const double part = sum - high_;
    low_ += (high_ - (sum - part)) + (term - part);
    high_ = sum;
  }
  double value() const {
    const double sum = high_ + low_;
    return std::isnan(sum) ? high_ : sum;  // beyond the largest double
  }

 private:
  double high_ = 0, low_ = 0;
};

// Registers warp_rrf on a connection. Returns a SQLite result code.
int register_rank_fusion(sqlite3* db);

}  // namespace warplite::sql
