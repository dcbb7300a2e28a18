#include "cpu/search.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "cpu/nominator.h"
#include "cpu/thread_pool.h"
#include "cpu/worker.h"

namespace warplite::cpu {
namespace {

// Queries searched together, which bounds the memory of a search.
constexpr std::size_t kQueryGroup = 2048;
constexpr std::size_t kQueryBytes = std::size_t{64} << 20;
// Waking a thread costs about as much as comparing this many bytes.
constexpr std::size_t kThreadBytes = std::size_t{1} << 20;
constexpr std::size_t kSpanBytes = std::size_t{1} << 20;
constexpr std::size_t kGroupBytes = std::size_t{32} << 10;

std::vector<Span> cut(const compute::Workload& work) {
  const std::size_t fitting = kSpanBytes / std::max<std::size_t>(1, work.queries.stride());
  const auto rows = static_cast<std::uint32_t>(std::clamp<std::size_t>(fitting, 64, 8192) & ~63u);
  std::vector<Span> spans;
  for (const compute::Block& block : work.blocks) {
    if (block.live_rows == 0) continue;
    for (std::uint32_t at = 0; at < block.rows; at += rows) {
      spans.push_back({&block, at, std::min(block.rows, at + rows)});
    }
  }
  return spans;
}

// Every live row, when the range admits them all. Memory that is not written costs
// little, so each thread may be ready for the whole.
std::size_t expected_hits(const compute::Workload& work, std::size_t live_rows) {
  constexpr std::size_t kMost = std::size_t{1} << 26;  // over all queries
  if (!work.range.unbounded() || work.has_after) return 0;
  return live_rows * work.queries.rows <= kMost ? live_rows : 0;
}

std::size_t count_live_rows(const compute::Workload& work) {
  std::size_t rows = 0;
  for (const compute::Block& block : work.blocks) rows += block.live_rows;
  return rows;
}

// One group of queries over all blocks.
class Search {
 public:
  Search(const compute::Workload& work, const Kernels& kernels, std::size_t k,
         const std::vector<double>& bounds)
      : work_(work),
        queries_(work_, kernels),
        thresholds_(work_.queries.rows),
        context_{work_, kernels, queries_, thresholds_, k, 0},
        spans_(cut(work_)) {
    for (std::size_t q = 0; q < bounds.size(); ++q) thresholds_.set(q, bounds[q]);
    const std::size_t live = count_live_rows(work_);
    if (k == 0) context_.expected = expected_hits(work_, live);
    if (Nominator::suits(work_, k, live)) nominator_.emplace(context_);
    const std::size_t useful = live * work_.queries.stride() * work_.queries.rows / kThreadBytes;
    threads_ = static_cast<unsigned>(std::clamp<std::size_t>(
        std::min(useful, spans_.size()), 1, compute::thread_count()));
  }

  // Returns the workers, each with its collectors.
  std::vector<std::unique_ptr<Worker>>& run() {
    workers_.resize(threads_);
    ThreadPool::instance().run(
        threads_, [this](unsigned number) { take_part(number); }, [this] { poll(); });
    if (failure_) std::rethrow_exception(failure_);
    if (context_.stop) throw Error(ErrorKind::kInterrupted, "interrupted");
    return workers_;
  }

 private:
  void take_part(unsigned number) noexcept {
    try {
      if (next_span_ >= spans_.size() && number != 0) return;
      workers_[number] = std::make_unique<Worker>(context_, number == 0);
      search_spans(*workers_[number]);
    } catch (...) {
      fail();
    }
  }

  // While the calling thread waits for the others.
  void poll() noexcept {
    try {
      if (workers_[0] != nullptr) workers_[0]->stopped();
    } catch (...) {
      fail();
    }
  }

  void fail() noexcept {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
    context_.stop = true;
  }

  void search_spans(Worker& worker) {
    std::optional<Nominator::Tile> tile;
    if (nominator_) tile = nominator_->make_tile();
    std::vector<std::uint32_t> rows;
    for (std::size_t i = next_span_++; i < spans_.size() && !worker.stopped(); i = next_span_++) {
      if (nominator_) {
        nominator_->search(worker, *tile, spans_[i]);
      } else {
        scan(worker, rows, spans_[i]);
      }
    }
  }

  // Scores every row canonically, a group that fits the first-level cache at a time.
  void scan(Worker& worker, std::vector<std::uint32_t>& rows, const Span& span) {
    rows.resize(std::clamp<std::size_t>(kGroupBytes / work_.queries.stride(), 8, 256));
    std::uint32_t at = span.begin;
    while (const std::size_t n =
               next_live_rows(*span.block, at, span.end, rows.size(), rows.data())) {
      for (std::size_t q = 0; q < queries_.size(); ++q) {
        if (worker.stopped()) return;
        worker.score(q, *span.block, rows.data(), n);
      }
    }
  }

  const compute::Workload work_;
  QuerySet queries_;
  SharedThresholds thresholds_;
  SearchContext context_;
  std::vector<Span> spans_;
  std::optional<Nominator> nominator_;
  unsigned threads_ = 1;
  std::atomic<std::size_t> next_span_{0};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

// The queries from `first` on that are searched together.
compute::Workload group_of(const compute::Workload& work, std::size_t first) {
  const std::size_t fitting = kQueryBytes / (work.queries.dim * sizeof(double));
  compute::Workload group = work;
  group.queries.data = work.queries.row(first);
  group.queries.rows = std::min(std::clamp<std::size_t>(fitting, 16, kQueryGroup),
                                work.queries.rows - first);
  return group;
}

}  // namespace

void search_nearest(const compute::Workload& work, compute::HitTable& best) {
  if (best.k() == 0) return;
  for (std::size_t first = 0, end = 0; first < work.queries.rows; first = end) {
    const compute::Workload group = group_of(work, first);
    end = first + group.queries.rows;
    std::vector<double> bounds(group.queries.rows);
    for (std::size_t q = 0; q < bounds.size(); ++q) {
      bounds[q] = std::min(best.row(first + q).threshold(), work.range.high);
    }
    Search search(group, active_kernels(), best.k(), bounds);
    for (const auto& worker : search.run()) {
      if (worker == nullptr) continue;
      for (std::size_t q = 0; q < bounds.size(); ++q) {
        best.row(first + q).merge(worker->collector(q).best());
      }
    }
  }
}

void search_within(const compute::Workload& work, compute::HitLists& out) {
  for (std::size_t first = 0, end = 0; first < work.queries.rows; first = end) {
    const compute::Workload group = group_of(work, first);
    end = first + group.queries.rows;
    const std::vector<double> bounds(group.queries.rows, work.range.high);
    Search search(group, active_kernels(), 0, bounds);
    for (const auto& worker : search.run()) {
      if (worker == nullptr) continue;
      for (std::size_t q = 0; q < bounds.size(); ++q) {
        std::vector<Hit>& to = out[first + q];
        std::vector<Hit>& from = worker->collector(q).hits();
        if (to.empty()) {
          to = std::move(from);
        } else {
          to.insert(to.end(), from.begin(), from.end());
        }
      }
    }
  }
}

}  // namespace warplite::cpu
