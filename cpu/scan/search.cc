#include "cpu/scan/search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cpu/runtime/item_loop.h"
#include "cpu/scan/nominator.h"
#include "cpu/scan/scan.h"
#include "cpu/scan/screen.h"
#include "cpu/scan/threshold_select.h"
#include "cpu/scan/worker.h"

namespace warplite::cpu {
namespace {

// Queries searched together, which bounds the memory of a search.
constexpr std::size_t kQueryGroup = 2048;
constexpr std::size_t kQueryBytes = std::size_t{64} << 20;
constexpr std::size_t kNomineeBytes = std::size_t{256} << 20;  // selecting by threshold
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

// Returns the number of live rows when the range admits them all, and else 0. Memory that is not
// written costs little, so each thread may be ready for the whole.
std::size_t expected_hits(const compute::Workload& work, std::size_t live_rows) {
  constexpr std::size_t kMost = std::size_t{1} << 26;  // over all queries
  if (!work.range.unbounded() || !work.own.empty() || work.has_after) return 0;
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
  // `k`: the largest of `ks`, which are one a query, or none. If there is a sample, the k nearest are selected
  // by threshold; then the blocks are OtherRows.
  Search(const compute::Workload& work, const ScanKernels& kernels, std::size_t k,
         std::vector<std::size_t> ks, const std::vector<double>& bounds)
      : work_(work),
        queries_(work_, kernels),
        thresholds_(work_.queries.rows),
        loop_(work_.cancellation),
        context_{work_, kernels, queries_, thresholds_, k, 0, loop_, std::move(ks)} {
    for (std::size_t q = 0; q < bounds.size(); ++q) thresholds_.set(q, bounds[q]);
    const std::size_t live = count_live_rows(work_);
    if (k == 0) context_.expected = expected_hits(work_, live);
    // A whole number of bitmap words, so that threads share none.
    std::size_t unit = std::max<std::size_t>(64, kSmallestSpan / work_.queries.stride() / 64 * 64);
    const bool by_threshold = !work_.sample.empty();
    if (by_threshold || Nominator::suits(work_, k, live)) {
      nominator_.emplace(context_, by_threshold);
      unit = nominator_->tile_rows();
    } else if (Screen::suits(work_, kernels)) {
      screen_.emplace(work_, kernels);
    }
    const std::size_t useful = (live + work_.sample.size()) * work_.queries.stride() *
                               work_.queries.rows / kThreadBytes;
    threads_ = static_cast<unsigned>(
        std::clamp<std::size_t>(useful, 1, compute::thread_count()));
    spans_ = cut(work_, threads_, unit);
    threads_ = static_cast<unsigned>(std::clamp<std::size_t>(spans_.size(), 1, threads_));
    threads_ = loop_.begin_with_meanwhile(threads_);
    thresholds_.expect(threads_, k);
    if (by_threshold) threshold_.emplace(context_, *nominator_, threads_);
  }

  // Returns the workers, each with its collectors.
  std::vector<std::unique_ptr<Worker>>& run() {
    workers_.resize(threads_);
    tiles_.resize(nominator_ ? threads_ : 0);
    if (!threshold_) {
      run_spans();
      return workers_;
    }
    loop_.run(threads_, threshold_->sample_tiles(), [this](unsigned number, std::size_t unit) {
      threshold_->multiply_sample(worker(number), tile(number), unit);
    });
    loop_.run(threads_, threshold_->query_batches(), [this](unsigned number, std::size_t batch) {
      threshold_->bound(worker(number), batch, thresholds_);
    });
    run_spans();
    loop_.run(threads_, threshold_->query_batches(), [this](unsigned number, std::size_t batch) {
      threshold_->select(worker(number), batch, tiles_);
    });
    return workers_;
  }

 private:
  // A thread's, once it has something to do.
  Worker& worker(unsigned number) {
    if (workers_[number] == nullptr) {
      workers_[number] = std::make_unique<Worker>(context_, number);
    }
    return *workers_[number];
  }

  // Returns a thread's tile while rows are multiplied; afterwards threads look at the tiles of all.
  Nominator::Tile& tile(unsigned number) {
    if (tiles_[number].pending.empty()) tiles_[number] = nominator_->make_tile();
    return tiles_[number];
  }

  void run_spans() {
    if (nominator_) {
      loop_.run(
          threads_, spans_.size(),
          [this](unsigned number, std::size_t i) {
            nominator_->search(worker(number), tile(number), spans_[i]);
          },
          [this](unsigned number) {
            if (!threshold_) nominator_->finish(worker(number), tile(number));
          });
      return;
    }
    std::vector<std::optional<Scan>> scans(threads_);
    loop_.run(threads_, spans_.size(), [&](unsigned number, std::size_t i) {
      if (!scans[number]) scans[number].emplace(worker(number), screen_ ? &*screen_ : nullptr);
      scans[number]->search(spans_[i]);
    });
  }

  const compute::Workload work_;
  QuerySet queries_;
  SharedThresholds thresholds_;
  ItemLoop loop_;
  SearchContext context_;
  std::vector<Span> spans_;
  std::optional<Nominator> nominator_;
  std::optional<ThresholdSelect> threshold_;
  std::optional<Screen> screen_;
  unsigned threads_ = 1;
  // Workers of the threads that have had something to do.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Nominator::Tile> tiles_;
};

// The queries from `first` on that are searched together.
compute::Workload group_of(const compute::Workload& work, std::size_t first, std::size_t k) {
  std::size_t fitting = kQueryBytes / (work.queries.dim * sizeof(double));
  if (!work.sample.empty()) {
    fitting = std::min(fitting, kNomineeBytes / ThresholdSelect::query_bytes(
                                                    work, k, compute::thread_count()));
  }
  compute::Workload group = work;
  group.queries.data = work.queries.row(first);
  group.queries.rows = std::min(std::clamp<std::size_t>(fitting, 16, kQueryGroup),
                                work.queries.rows - first);
  if (!work.own.empty()) group.own = work.own.subspan(first, group.queries.rows);
  return group;
}

}  // namespace

void search_nearest(const compute::Workload& work, compute::HitTable& best) {
  if (best.k() == 0) return;
  compute::Workload all = work;
  std::optional<OtherRows> others;
  if (ThresholdSelect::suits(work, best.k(), count_live_rows(work))) {
    others.emplace(work);
    all.blocks = others->blocks();
  } else {
    all.sample = {};
  }
  for (std::size_t first = 0, end = 0; first < all.queries.rows; first = end) {
    const compute::Workload group = group_of(all, first, best.k());
    end = first + group.queries.rows;
    std::vector<double> bounds(group.queries.rows);
    std::vector<std::size_t> ks(group.queries.rows);
    for (std::size_t q = 0; q < bounds.size(); ++q) {
      bounds[q] = std::min(best.row(first + q).threshold(), group.range_of(q).high);
      ks[q] = best.row(first + q).k();
    }
    Search search(group, scan_kernels(), best.k(), std::move(ks), bounds);
    for (const auto& worker : search.run()) {
      if (worker == nullptr) continue;
      for (std::size_t q = 0; q < bounds.size(); ++q) {
        best.row(first + q).merge(std::move(worker->collector(q).best()));
      }
    }
  }
}

std::size_t best_batch(std::size_t queries) {
  // Reading and packing a row takes as long as multiplying it by so many queries; measured.
  constexpr std::size_t kPacking = 10;
  const auto cost = [](std::size_t n) {
    const std::size_t width = scan_kernels().gemm.panel_for(n).queries;
    return kPacking + (n + width - 1) / width * width;
  };
  std::size_t best = queries;
  for (std::size_t n = queries; n > 0; --n) {
    if (n * cost(best) > best * cost(n)) best = n;
  }
  return best;
}

void search_within(const compute::Workload& work, compute::HitLists& out) {
  for (std::size_t first = 0, end = 0; first < work.queries.rows; first = end) {
    compute::Workload group = group_of(work, first, 0);
    group.sample = {};
    end = first + group.queries.rows;
    std::vector<double> bounds(group.queries.rows);
    for (std::size_t q = 0; q < bounds.size(); ++q) bounds[q] = group.range_of(q).high;
    Search search(group, scan_kernels(), 0, {}, bounds);
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
