// All rows within a radius of many queries through metric indexes (metric.h): the rows that
// ScanSearch finds, from fewer distances.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/device.h"
#include "gpu/metric/metric.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"
#include "gpu/select/hit_taker.h"

namespace warplite::gpu {

// MetricBlocks say which blocks of a workload have an index.
struct MetricBlocks {
  std::vector<compute::Block> indexed, plain;
};

class MetricSearch {
 public:
  // Says whether it is faster than ScanSearch, as far as that is known before.
  static bool suits(const compute::Workload& work);
  // Makes the indexes that have become worth it; `host` computes their distances. Throws
  // Error{kInterrupted}.
  static MetricBlocks blocks(compute::Device& host, Lane& lane, const compute::Workload& work);
  // Adds what comparing every row with every query evaluates.
  static void count_all(const compute::Workload& work, compute::SearchCounters& counters);

  // All blocks of the set have an index; `table` was uploaded on the lane.
  MetricSearch(Lane& lane, const compute::Workload& work, const RowSet& rows,
               const RowTable& table, compute::SearchCounters& counters);

  // Returns the queries that it left out, since their distances have no bounds.
  std::vector<std::uint32_t> within(compute::HitLists& out);

 private:
  struct Pieces;
  using Queries = std::span<const std::uint32_t>;

  // Returns the number of hits, more than `room`: not all of them are there.
  std::uint64_t run(Queries queries, std::uint64_t room);
  void search_group(Queries queries, compute::HitLists& out);
  void fill(Queries queries, const Pieces& at, const Staging& host) const;
  void fill_tile(Queries queries, float* points) const;
  MetricSearchView view_of(const Pieces& at, const Arena& arena) const;
  // Takes the hits of the last run, mostly while others are searched for.
  void take_hits(Queries queries, compute::HitLists& out);
  void take_many(std::uint32_t query, compute::HitLists& out);
  void take(std::uint32_t query, std::span<const Candidate> hits, compute::HitLists& out) const;

  Lane& lane_;
  const compute::Workload& work_;
  const RowSet& rows_;
  const RowTable& table_;
  compute::SearchCounters& counters_;
  const compute::MetricSpace space_;
  const double radius_;
  std::vector<MetricBlockView> views_;
  bool pivots_ = false, clusters_ = false;  // some block has them
  HitTaker<Candidate> hits_;
};

}  // namespace warplite::gpu
