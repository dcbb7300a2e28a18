// Reports what a search by vectors or by edit distance has done: warp_explain() shows the last
// report.
// Threads: one search adds at a time; the counters may be added to by many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "compute/metric.h"

namespace warplite::engine {

struct SearchReport {
  std::string table, column, index;
  std::uint64_t queries = 0;
  std::uint64_t rows = 0;  // selected ones, times queries: what brute force compares
  compute::SearchCounters counters;
  // Of a search through an index that learns (index/trained.h): `rows` are then those that it had no
  // codes of, and what was compared besides.
  bool approximate = false;
  std::uint32_t nprobe = 0;              // lists that a query looked into, at most; 0: it has none
  std::optional<std::size_t> refine;     // where codes were compared
  std::optional<double> expected_recall;  // none: it was never measured
  bool recall_fell = false;              // since the index learnt, as rows became others
  bool out_of_time = false;              // it has not learnt, since that took longer than it may
  bool recall_unknown = false;           // a recall was asked for that was never measured
};

}  // namespace warplite::engine
