// One thread's part in a search: its collectors, and the one place where rows are scored
// canonically and kept or dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/device.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/scan/collector.h"
#include "cpu/scan/query_set.h"
#include "cpu/scan/scan_kernels.h"

namespace warplite::cpu {

// Holds what the threads of one search share.
struct SearchContext {
  const compute::Workload& work;
  const ScanKernels& kernels;
  const QuerySet& queries;
  SharedThresholds& thresholds;
  std::size_t k;         // the largest of all queries; 0: all within the range
  std::size_t expected;  // hits of each query when all are wanted; 0: unknown
  ItemLoop& loop;        // whose items the threads take
  std::vector<std::size_t> ks = {};  // of each query; none: k

  std::size_t k_of(std::size_t query) const { return ks.empty() ? k : ks[query]; }
};

// Consecutive rows of a block.
struct Span {
  const compute::Block* block;
  std::uint32_t begin, end;
};

// Writes up to `limit` rows from `at` on that are in `live` (null: all are); `at` moves past them.
std::size_t next_live_rows(const std::uint64_t* live, std::uint32_t& at, std::uint32_t end,
                           std::size_t limit, std::uint32_t* rows);

// The rows that take part for a query, if it has some of its own; else null.
inline const std::uint64_t* own_live(const compute::Workload& work, std::size_t query,
                                     const compute::Block& block) {
  if (work.own.empty() || work.own[query].live == nullptr) return nullptr;
  return work.own[query].live[&block - work.blocks.data()];
}

class Worker {
 public:
  // `number`: of the thread in the loop.
  Worker(SearchContext& context, unsigned number);

  // True once the search is to end early.
  bool stopped() { return context_.loop.stopped(number_); }
  // The query's threshold, with what other threads have found.
  double threshold(std::size_t query);
  // A distance that at least k live rows of the range do not exceed.
  void tighten(std::size_t query, double bound);
  // Scores `n` rows canonically and keeps those that the result may need; returns how many.
  std::size_t score(std::size_t query, const compute::Block& block, const std::uint32_t* rows,
                    std::size_t n);

  // Writes only the distances of `n` rows.
  void measure(std::size_t query, const compute::Block& block, const std::uint32_t* rows,
               std::size_t n, double* distances) const;

  SearchContext& context() { return context_; }
  Collector& collector(std::size_t query) { return collectors_[query]; }

 private:
  void share(std::size_t query, double threshold);

  SearchContext& context_;
  const unsigned number_;
  ScoreRows score_rows_;
  std::vector<Collector> collectors_;
  std::vector<double> scores_;
};

}  // namespace warplite::cpu
