// Estimates what searches of vectors take, through a metric index and without: nanoseconds of a
// core, about (bench/kernels/NOTES.md). These numbers decide which way is taken, never what is
// found.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/ops.h"

namespace warplite::cpu {

// Returns the time to compare a query with a row of a block, when so many queries do at once.
double plain_nanoseconds(const compute::Workload& work, std::size_t queries, std::size_t k,
                         std::size_t rows);

// The steps of a metric index.
struct MetricCosts {
  double distance;              // to one of the rows of a group, in float32
  double score;                 // the canonical distance of a row that lies anywhere
  double place = 0.6;           // to test a row's distance to a pivot, of rows one after another
  double test = 4;              // the same of rows that are left over
  double touched = 30;          // to look at a cluster, and to put it in order

  explicit MetricCosts(std::uint32_t dim) : distance(1 + 0.1 * dim), score(40 + 0.4 * dim) {}
};

}  // namespace warplite::cpu
