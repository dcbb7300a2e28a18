// Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a row's score is the sum of
// weight / (60 + rank) over the lists that it is in; and the aggregate warp_rrf(rank [, weight]).
#pragma once

#include <cstdint>

#include "storage/sqlite_api.h"

namespace warplite::sql {

inline double rrf_term(std::int64_t rank, double weight) {
  constexpr double kOffset = 60;
  return weight / (kOffset + static_cast<double>(rank));
}

inline constexpr char kWeightExpected[] = "a number from 0 to 1000000";
inline bool is_weight(double value) { return value >= 0 && value <= 1e6; }

// The sum of the scores that lists give to a row, to the nearest double. So rows of the same ranks
// have the same score, whichever list gave them which. Memory of zeros is a sum of nothing.
class ScoreSum {
 public:
  void add(double term);
  double value() const;

 private:
  static constexpr int kMost = 40;  // of 53 bits each, there are no more in all exponents

  // They add up to the sum exactly: none has a bit at or above another's lowest, and they ascend.
  double parts_[kMost] = {};
  int count_ = 0;
};

// Registers warp_rrf on a connection. Returns a SQLite result code.
int register_rank_fusion(sqlite3* db);

}  // namespace warplite::sql
