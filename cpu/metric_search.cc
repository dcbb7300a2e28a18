#include "cpu/metric_search.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cpu/ivf_parallel.h"
#include "cpu/metric_blocks.h"
#include "cpu/metric_walk.h"
#include "cpu/search.h"

namespace warplite::cpu {
namespace {

// Queries searched together, which bounds the memory of a search.
constexpr std::size_t kQueryGroup = 2048;
// The first queries of a batch tell what the index evaluates; alone, queries decide for themselves.
constexpr std::size_t kSample = 16;
constexpr std::size_t kBatch = 64;

// The share of rows up to which an index evaluates them in less time than all of them take without
// it: of a batch, whose product reads a row once for many queries, and of a query alone
// (nanoseconds a row; bench/NOTES.md).
double worthwhile_share(std::uint32_t dim, std::size_t queries, bool pivots, bool nearest) {
  // Rows that pivots leave over lie anywhere, and are compared one by one; the nearest take a
  // bound first, and clusters in order.
  const double indexed = (pivots ? 40 + 0.4 * dim : 1 + 0.1 * dim) * (nearest ? 2.5 : 1);
  const double plain = queries >= kBatch ? 0.35 + 0.015 * dim : 1 + 0.7 * dim;
  return std::min(0.7, plain / indexed);
}

compute::Workload some_queries(const compute::Workload& work, std::size_t first,
                               std::size_t count) {
  compute::Workload some = work;
  some.sample = {};  // which names blocks of `work`
  some.queries.data = work.queries.row(first);
  some.queries.rows = count;
  return some;
}

// What is collected: the k nearest, or all.
class Target {
 public:
  Target(compute::HitTable& best) : best_(&best) {}
  Target(compute::HitLists& all) : all_(&all) {}

  std::size_t k() const { return best_ != nullptr ? best_->k() : 0; }
  double bound(std::size_t query, const compute::Workload& work) const {
    return best_ != nullptr ? std::min(best_->row(query).threshold(), work.range.high)
                            : work.range.high;
  }
  void take(std::size_t query, Collector& from) {
    if (best_ != nullptr) {
      best_->row(query).merge(from.best());
      best_->sorted(query);  // which tells the threshold
      return;
    }
    std::vector<Hit>& to = (*all_)[query];
    if (to.empty()) {
      to = std::move(from.hits());
    } else {
      to.insert(to.end(), from.hits().begin(), from.hits().end());
    }
  }
  // Without an index: queries from `first` on, which `work` has.
  void compare(const compute::Workload& work, std::size_t first) {
    count_all(work);
    if (best_ == nullptr) {
      compute::HitLists lists(work.queries.rows);
      search_within(work, lists);
      for (std::size_t i = 0; i < lists.size(); ++i) {
        std::vector<Hit>& to = (*all_)[first + i];
        to.insert(to.end(), lists[i].begin(), lists[i].end());
      }
      return;
    }
    compute::HitTable table(work.queries.rows, k());
    for (std::size_t i = 0; i < work.queries.rows; ++i) {
      table.row(i).tighten(bound(first + i, work));
    }
    search_nearest(work, table);
    for (std::size_t i = 0; i < work.queries.rows; ++i) {
      best_->row(first + i).merge(table.row(i));
      best_->sorted(first + i);
    }
  }

 private:
  compute::HitTable* best_ = nullptr;
  compute::HitLists* all_ = nullptr;
};

// Some queries through the indexes of blocks.
class GroupSearch {
 public:
  GroupSearch(const compute::Workload& work, std::span<const MetricBlock> blocks, std::size_t first,
              Target& target)
      : work_(work), blocks_(blocks), first_(first), target_(target),
        queries_(work_, active_kernels()), thresholds_(work_.queries.rows),
        context_{work_, active_kernels(), queries_, thresholds_, target.k(), 0} {
    for (std::size_t q = 0; q < work_.queries.rows; ++q) {
      thresholds_.set(q, target.bound(first + q, work_));
    }
  }

  // Distances evaluated.
  std::uint64_t run() {
    constexpr std::size_t kQueries = 8;  // a thread's at a time
    const bool batch = work_.queries.rows >= kQueries;
    const double share = batch ? 1 : worthwhile_share(work_.queries.dim, work_.queries.rows, pivots(),
                                                          target_.k() != 0);
    const std::size_t chunks = (work_.queries.rows + kQueries - 1) / kQueries;
    const std::size_t items = chunks * blocks_.size();
    const auto threads =
        static_cast<unsigned>(std::clamp<std::size_t>(items, 1, compute::thread_count()));
    workers_.resize(threads);
    walks_.resize(threads);
    ItemLoop loop(work_.cancellation);
    std::vector<char> left_out(work_.queries.rows * blocks_.size());
    loop.run(threads, items, [&](unsigned thread, std::size_t item) {
      if (workers_[thread] == nullptr) {
        workers_[thread] = std::make_unique<Worker>(context_, thread);
        walks_[thread] = std::make_unique<MetricWalk>(*workers_[thread],
                                                      blocks_[0].metric->space);
      }
      const std::size_t b = item / chunks, begin = item % chunks * kQueries;
      const std::size_t end = std::min(begin + kQueries, work_.queries.rows);
      for (std::size_t q = begin; q < end; ++q) {
        loop.check(thread);
        const bool done = walks_[thread]->search(q, blocks_[b], share);
        left_out[q * blocks_.size() + b] = !done;
      }
    });
    finish(left_out);
    return evaluated_;
  }

 private:
  void finish(const std::vector<char>& left_out) {
    std::uint64_t visited = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i] == nullptr) continue;
      evaluated_ += walks_[i]->evaluated();
      visited += walks_[i]->visited();
      for (std::size_t q = 0; q < work_.queries.rows; ++q) {
        target_.take(first_ + q, workers_[i]->collector(q));
      }
    }
    std::uint64_t indexed = 0;
    for (std::size_t q = 0; q < work_.queries.rows; ++q) {
      std::vector<compute::Block> plain;
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        if (left_out[q * blocks_.size() + b]) {
          plain.push_back(*blocks_[b].block);
        } else {
          indexed += blocks_[b].block->live_rows;
        }
      }
      if (plain.empty()) continue;
      compute::Workload one = some_queries(work_, q, 1);
      one.blocks = plain;
      target_.compare(one, first_ + q);
    }
    if (work_.counters == nullptr) return;
    work_.counters->distances += evaluated_;
    work_.counters->clusters += visited;
    work_.counters->indexed += indexed;
  }

  bool pivots() const { return blocks_[0].metric->pivots != nullptr; }

  const compute::Workload work_;
  const std::span<const MetricBlock> blocks_;
  const std::size_t first_;
  Target& target_;
  QuerySet queries_;
  SharedThresholds thresholds_;
  SearchContext context_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<MetricWalk>> walks_;
  std::uint64_t evaluated_ = 0;
};

// All queries of a workload.
void search_indexed(const compute::Workload& work, const std::vector<MetricBlock>& blocks,
                    Target target) {
  std::uint64_t rows = 0;
  std::vector<compute::Block> all;
  for (const MetricBlock& block : blocks) {
    rows += block.block->rows;
    all.push_back(*block.block);
  }
  const std::size_t queries = work.queries.rows;
  std::size_t first = 0;
  while (first < queries) {
    const bool sample = first == 0 && queries >= kBatch;
    const std::size_t count = sample ? kSample : std::min(kQueryGroup, queries - first);
    const std::uint64_t evaluated =
        GroupSearch(some_queries(work, first, count), blocks, first, target).run();
    first += count;
    const double share = static_cast<double>(evaluated) / static_cast<double>(rows * count);
    const bool pivots = blocks[0].metric->pivots != nullptr;
    const double most = worthwhile_share(work.queries.dim, queries, pivots, target.k() != 0);
    if (sample && share > most) break;
  }
  if (first == queries) return;
  compute::Workload rest = some_queries(work, first, queries - first);
  rest.blocks = all;
  target.compare(rest, first);
}

// Where everything within the range may be everything, nothing can be passed over.
bool any_use(const compute::Workload& work, std::size_t k) {
  std::uint64_t live = 0;
  for (const compute::Block& block : work.blocks) live += block.live_rows;
  return k != 0 ? k < live / 4 : work.range.high < std::numeric_limits<double>::infinity();
}

void search(compute::Device& host, const compute::Workload& work, Target target) {
  const MetricBlocks blocks =
      any_use(work, target.k()) ? metric_blocks(host, work)
                                : MetricBlocks{{}, {work.blocks.begin(), work.blocks.end()}};
  if (!blocks.indexed.empty()) search_indexed(work, blocks.indexed, target);
  if (blocks.plain.empty()) return;
  compute::Workload rest = some_queries(work, 0, work.queries.rows);
  rest.blocks = blocks.plain;
  target.compare(rest, 0);
}

}  // namespace

void search_metric_nearest(compute::Device& host, const compute::Workload& work,
                           compute::HitTable& best) {
  if (best.k() != 0) search(host, work, best);
}

void search_metric_within(compute::Device& host, const compute::Workload& work,
                          compute::HitLists& out) {
  search(host, work, out);
}

void count_all(const compute::Workload& work) {
  if (work.counters == nullptr) return;
  std::uint64_t live = 0;
  for (const compute::Block& block : work.blocks) live += block.live_rows;
  work.counters->distances += live * work.queries.rows;
}

}  // namespace warplite::cpu
