#include "cpu/search.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "cpu/nominator.h"
#include "cpu/scan.h"
#include "cpu/screen.h"
#include "cpu/thread_pool.h"
#include "cpu/worker.h"

namespace warplite::cpu {
namespace {

// Queries searched together, which bounds the memory of a search.
constexpr std::size_t kQueryGroup = 2048;
constexpr std::size_t kQueryBytes = std::size_t{64} << 20;
// Waking a thread costs about as much as comparing this many bytes.
constexpr std::size_t kThreadBytes = std::size_t{1} << 20;
constexpr std::size_t kLargestSpan = std::size_t{4} << 20;  // bytes
constexpr std::size_t kSmallestSpan = std::size_t{64} << 10;

// Spans shrink towards the end, so that threads end together: each is half of what is left
// for a thread, in units of `unit` rows.
std::vector<Span> cut(const compute::Workload& work, unsigned threads, std::size_t unit) {
  std::size_t left = 0;
  for (const compute::Block& block : work.blocks) left += block.live_rows == 0 ? 0 : block.rows;
  const std::size_t most = std::max(unit, kLargestSpan / work.queries.stride() / unit * unit);
  std::vector<Span> spans;
  for (const compute::Block& block : work.blocks) {
    if (block.live_rows == 0) continue;
    for (std::uint32_t at = 0; at < block.rows;) {
      const std::size_t share = threads == 1 ? most : left / (2 * threads) / unit * unit;
      const std::size_t rows =
          std::min<std::size_t>(std::clamp(share, unit, most), block.rows - at);
      spans.push_back({&block, at, at + static_cast<std::uint32_t>(rows)});
      at += static_cast<std::uint32_t>(rows);
      left -= rows;
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
        context_{work_, kernels, queries_, thresholds_, k, 0} {
    for (std::size_t q = 0; q < bounds.size(); ++q) thresholds_.set(q, bounds[q]);
    const std::size_t live = count_live_rows(work_);
    if (k == 0) context_.expected = expected_hits(work_, live);
    // A whole number of bitmap words, so that threads share none.
    std::size_t unit = std::max<std::size_t>(64, kSmallestSpan / work_.queries.stride() / 64 * 64);
    if (Nominator::suits(work_, k, live)) {
      nominator_.emplace(context_);
      unit = nominator_->tile_rows();
    } else if (Screen::suits(work_, kernels)) {
      screen_.emplace(work_, kernels);
    }
    const std::size_t useful = live * work_.queries.stride() * work_.queries.rows / kThreadBytes;
    threads_ = static_cast<unsigned>(
        std::clamp<std::size_t>(useful, 1, compute::thread_count()));
    spans_ = cut(work_, threads_, unit);
    threads_ = static_cast<unsigned>(std::clamp<std::size_t>(spans_.size(), 1, threads_));
    thresholds_.expect(threads_, k);
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
      workers_[number] = std::make_unique<Worker>(context_, number);
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
    if (nominator_) {
      Nominator::Tile tile = nominator_->make_tile();
      take_spans(worker, [&](const Span& span) { nominator_->search(worker, tile, span); });
      nominator_->finish(worker, tile);
    } else {
      Scan scan(worker, screen_ ? &*screen_ : nullptr);
      take_spans(worker, [&](const Span& span) { scan.search(span); });
    }
  }

  template <class Visit>
  void take_spans(Worker& worker, const Visit& visit) {
    for (std::size_t i = next_span_++; i < spans_.size() && !worker.stopped(); i = next_span_++) {
      visit(spans_[i]);
    }
  }

  const compute::Workload work_;
  QuerySet queries_;
  SharedThresholds thresholds_;
  SearchContext context_;
  std::vector<Span> spans_;
  std::optional<Nominator> nominator_;
  std::optional<Screen> screen_;
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
