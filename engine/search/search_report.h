// Reports what a search by vectors or by edit distance has done: warp_explain() shows the last
// report.
// Threads: one search adds at a time; the counters may be added to by many.
#pragma once

#include <cstdint>
#include <string>

#include "compute/metric.h"

namespace warplite::engine {

struct SearchReport {
  std::string table, column, index;
  std::uint64_t queries = 0;
  std::uint64_t rows = 0;  // selected ones, times queries: what brute force compares
  compute::SearchCounters counters;
};

}  // namespace warplite::engine
