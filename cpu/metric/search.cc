#include "cpu/metric/search.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"
#include "cpu/metric/blocks.h"
#include "cpu/metric/cost.h"
#include "cpu/metric/walk.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/scan/search.h"

namespace warplite::cpu {
namespace {

// Queries searched together, which bounds the memory of a search.
constexpr std::size_t kQueryGroup = 2048;
// Of at least this many queries, some tell what the index does for the others: every eighth is such
// a sample, up to kMostSample of them.
constexpr std::size_t kBatch = 8;
constexpr std::size_t kSampled = 8, kMostSample = 16;

using Numbers = std::span<const std::uint32_t>;  // of queries, ascending

// Queries by their numbers, copied where they do not follow one another.
class SomeQueries {
 public:
  SomeQueries(const compute::Workload& all, Numbers numbers) : work_(all) {
    const std::size_t stride = all.queries.stride();
    work_.sample = {};  // which names blocks of `all`
    work_.queries.rows = numbers.size();
    work_.queries.data = all.queries.row(numbers.front());
    if (numbers.back() - numbers.front() + std::size_t{1} == numbers.size()) return;
    copied_ = Bytes(numbers.size() * stride);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(copied_.data() + i * stride, all.queries.row(numbers[i]), stride);
    }
    work_.queries.data = copied_.data();
  }
  SomeQueries(const SomeQueries&) = delete;
  SomeQueries& operator=(const SomeQueries&) = delete;

  compute::Workload& work() { return work_; }

 private:
  compute::Workload work_;
  Bytes copied_;
};

// A Target is where hits are collected: the k nearest, or all.
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
    } else {
      take(query, from.hits());
    }
  }
  // Compares without an index.
  void compare(const compute::Workload& all, Numbers queries,
               std::span<const compute::Block> blocks) {
    for (; !queries.empty(); queries = queries.subspan(std::min(kQueryGroup, queries.size()))) {
      const Numbers group = queries.first(std::min(kQueryGroup, queries.size()));
      SomeQueries some(all, group);
      some.work().blocks = blocks;
      count_all(some.work());
      if (best_ != nullptr) {
        compare_nearest(some.work(), group);
      } else {
        compare_within(some.work(), group);
      }
    }
  }

 private:
  void compare_within(const compute::Workload& work, Numbers queries) {
    compute::HitLists lists(queries.size());
    search_within(work, lists);
    for (std::size_t i = 0; i < lists.size(); ++i) take(queries[i], lists[i]);
  }
  void compare_nearest(const compute::Workload& work, Numbers queries) {
    compute::HitTable table(queries.size(), k());
    for (std::size_t i = 0; i < queries.size(); ++i) {
      table.row(i).tighten(bound(queries[i], work));
    }
    search_nearest(work, table);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      best_->row(queries[i]).merge(table.row(i));
      best_->sorted(queries[i]);
    }
  }
  // Results may be most of the memory of a search: nowhere twice.
  void take(std::size_t query, std::vector<Hit>& from) {
    std::vector<Hit>& to = (*all_)[query];
    if (to.empty()) {
      to.swap(from);
    } else {
      to.insert(to.end(), from.begin(), from.end());
    }
    std::vector<Hit>().swap(from);
  }

  compute::HitTable* best_ = nullptr;
  compute::HitLists* all_ = nullptr;
};

// Some queries through the indexes of blocks.
class GroupSearch {
 public:
  // `rate`: nanoseconds that the search of a query may take for each row.
  GroupSearch(const compute::Workload& work, Numbers numbers, std::span<const MetricBlock> blocks,
              double rate, bool careful, Target& target)
      : some_(work, numbers), numbers_(numbers), blocks_(blocks), rate_(rate), careful_(careful),
        target_(target), queries_(some_.work(), scan_kernels()), thresholds_(numbers.size()),
        context_{some_.work(), scan_kernels(), queries_, thresholds_, target.k(), 0, loop_},
        left_out_(numbers.size() * blocks.size()) {
    for (std::size_t q = 0; q < numbers.size(); ++q) {
      thresholds_.set(q, target.bound(numbers[q], work));
    }
  }

  void run() {
    constexpr std::size_t kQueries = 8;  // a thread's at a time
    const std::size_t chunks = (numbers_.size() + kQueries - 1) / kQueries;
    const std::size_t items = chunks * blocks_.size();
    const unsigned threads = loop_.begin_with_meanwhile(
        static_cast<unsigned>(std::clamp<std::size_t>(items, 1, compute::thread_count())));
    workers_.resize(threads);
    walks_.resize(threads);
    loop_.run(threads, items, [&](unsigned thread, std::size_t item) {
      if (workers_[thread] == nullptr) {
        workers_[thread] = std::make_unique<Worker>(context_, thread);
        walks_[thread] = std::make_unique<MetricWalk>(*workers_[thread],
                                                      blocks_[0].metric->space);
      }
      const std::size_t b = item / chunks, begin = item % chunks * kQueries;
      const std::size_t end = std::min(begin + kQueries, numbers_.size());
      const double most = rate_ * blocks_[b].block->live_rows;
      for (std::size_t q = begin; q < end; ++q) {
        loop_.check(thread);
        left_out_[q * blocks_.size() + b] = !walks_[thread]->search(q, blocks_[b], most, careful_);
      }
    });
    take();
  }

  // The index of this block was not worth it for this query of the group.
  bool left_out(std::size_t query, std::size_t block) const {
    return left_out_[query * blocks_.size() + block] != 0;
  }
  double nanoseconds() const { return nanoseconds_; }

 private:
  void take() {
    std::uint64_t evaluated = 0, visited = 0, indexed = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i] == nullptr) continue;
      evaluated += walks_[i]->evaluated();
      visited += walks_[i]->visited();
      nanoseconds_ += walks_[i]->nanoseconds();
      for (std::size_t q = 0; q < numbers_.size(); ++q) {
        target_.take(numbers_[q], workers_[i]->collector(q));
      }
    }
    for (std::size_t q = 0; q < numbers_.size(); ++q) {
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        if (!left_out(q, b)) indexed += blocks_[b].block->live_rows;
      }
    }
    compute::SearchCounters* const counters = some_.work().counters;
    if (counters == nullptr) return;
    counters->distances += evaluated;
    counters->clusters += visited;
    counters->indexed += indexed;
  }

  SomeQueries some_;
  const Numbers numbers_;
  const std::span<const MetricBlock> blocks_;
  const double rate_;
  const bool careful_;
  Target& target_;
  QuerySet queries_;
  SharedThresholds thresholds_;
  ItemLoop loop_{some_.work().cancellation};
  SearchContext context_;
  std::vector<char> left_out_;  // [query][block]
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<MetricWalk>> walks_;
  double nanoseconds_ = 0;
};

// All queries of a workload. Some that lie evenly among them tell whether the index pays, and each
// group of the others whether it still does.
class IndexedSearch {
 public:
  IndexedSearch(const compute::Workload& work, std::span<const MetricBlock> blocks, Target target)
      : work_(work), blocks_(blocks), target_(target), left_out_(blocks.size()) {
    for (const MetricBlock& block : blocks) rows_ += block.block->live_rows;
  }

  void run() {
    const std::size_t queries = work_.queries.rows;
    const std::size_t step =
        queries < kBatch ? 1 : std::max(kSampled, (queries + kMostSample - 1) / kMostSample);
    std::vector<std::uint32_t> sample, others;
    for (std::uint32_t q = 0; q < queries; ++q) {
      (q % step == step / 2 ? sample : others).push_back(q);
    }
    bool pays = search(sample, true);
    Numbers rest = others;
    for (std::size_t most = 64; pays && !rest.empty(); most = std::min(2 * most, kQueryGroup)) {
      const std::size_t count = std::min(most, rest.size());
      pays = search(rest.first(count), false);
      rest = rest.subspan(count);
    }
    for (std::vector<std::uint32_t>& left_out : left_out_) {
      left_out.insert(left_out.end(), rest.begin(), rest.end());
      std::sort(left_out.begin(), left_out.end());
    }
    compare_rest();
  }

 private:
  // Returns what it takes to compare so many queries with all rows, without an index.
  double plain(std::size_t queries) const {
    if (queries == 0) return 0;
    return static_cast<double>(queries) * static_cast<double>(rows_) *
           plain_nanoseconds(work_, queries, target_.k(), rows_);
  }

  // Says whether queries like these take less so.
  bool search(Numbers numbers, bool careful) {
    const std::size_t all = work_.queries.rows;
    // One that takes longer costs less than to begin with brute force for some.
    const double most = (all < kBatch ? 1 : all < 128 ? 2 : 4) *
                        plain_nanoseconds(work_, all, target_.k(), rows_);
    GroupSearch group(work_, numbers, blocks_, most, careful, target_);
    group.run();
    double left_out = 0;  // queries
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      for (std::size_t q = 0; q < numbers.size(); ++q) {
        if (!group.left_out(q, b)) continue;
        left_out_[b].push_back(numbers[q]);
        left_out += static_cast<double>(blocks_[b].block->live_rows) / static_cast<double>(rows_);
      }
    }
    const double of_all = static_cast<double>(all) / static_cast<double>(numbers.size());
    const double indexed =
        of_all * group.nanoseconds() + plain(static_cast<std::size_t>(of_all * left_out));
    return indexed <= plain(all);
  }

  // Compares the queries that every index has left out at once, and the others block by block.
  void compare_rest() {
    std::vector<std::uint32_t> times(work_.queries.rows), everywhere;
    for (const std::vector<std::uint32_t>& left_out : left_out_) {
      for (const std::uint32_t q : left_out) ++times[q];
    }
    for (std::uint32_t q = 0; q < times.size(); ++q) {
      if (times[q] == blocks_.size()) everywhere.push_back(q);
    }
    std::vector<compute::Block> blocks;
    for (const MetricBlock& block : blocks_) blocks.push_back(*block.block);
    target_.compare(work_, everywhere, blocks);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::erase_if(left_out_[b], [&](std::uint32_t q) { return times[q] == blocks.size(); });
      target_.compare(work_, left_out_[b], {&blocks[b], 1});
    }
  }

  const compute::Workload& work_;
  const std::span<const MetricBlock> blocks_;
  Target target_;
  std::uint64_t rows_ = 0;
  std::vector<std::vector<std::uint32_t>> left_out_;  // queries, by block
};

// Returns whether an index can be of use: if everything within the range may be everything, nothing
// can be passed over.
bool any_use(const compute::Workload& work, std::size_t k) {
  std::uint64_t live = 0;
  for (const compute::Block& block : work.blocks) live += block.live_rows;
  return k != 0 ? k < live / 4 : work.range.high < std::numeric_limits<double>::infinity();
}

void search(compute::Device& host, const compute::Workload& work, Target target) {
  const MetricBlocks blocks =
      any_use(work, target.k()) ? metric_blocks(host, work)
                                : MetricBlocks{{}, {work.blocks.begin(), work.blocks.end()}};
  if (work.queries.rows == 0) return;
  if (!blocks.indexed.empty()) IndexedSearch(work, blocks.indexed, target).run();
  if (blocks.plain.empty()) return;
  std::vector<std::uint32_t> queries(work.queries.rows);
  std::iota(queries.begin(), queries.end(), 0u);
  target.compare(work, queries, blocks.plain);
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
