#include "cpu/metric/edit_metric.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "cpu/edit/scan.h"
#include "cpu/metric/edit_clusters.h"
#include "cpu/metric/edit_pivots.h"
#include "cpu/metric/state.h"

namespace warplite::cpu {
namespace {

using compute::EditTile;
using compute::EditWork;

// Lengths tell as much of longer queries; and distances do not fit.
constexpr std::size_t kLongestQuery = 2 * compute::kLongestEditText;

// A tile's index as the CPU reads it: either of both.
struct TextIndex {
  std::shared_ptr<const compute::TextMetric> clusters;
  std::unique_ptr<const PivotTable> pivots;

  // Centres or pivots: each query is compared with them first.
  std::size_t points() const {
    return pivots != nullptr ? pivots->count() : clusters->clusters->count;
  }

  explicit TextIndex(std::shared_ptr<const compute::TextMetric> made) {
    if (made->pivots != nullptr) {
      pivots = std::make_unique<PivotTable>(*made->pivots);
    } else {
      clusters = std::move(made);
    }
  }
};

struct IndexedTile {
  const EditTile* tile;
  std::shared_ptr<const TextIndex> index;
};

// Indexes holds the metric indexes that are there, or are made now because it is worth it. The
// tiles that are left go to `plain`.
class Indexes {
 public:
  Indexes(compute::Device& host, const EditWork& work) : host_(host), work_(work) {
    claim();
    build();
    for (const EditTile& tile : work.tiles) {
      auto index = indexable(tile) ? state_of(tile).find() : nullptr;
      if (index != nullptr && tile.live_rows >= index->points()) {
        indexed_.push_back({&tile, std::move(index)});
      } else {
        plain_.push_back(tile);
      }
    }
  }

  std::span<const IndexedTile> indexed() const { return indexed_; }
  std::span<const EditTile> plain() const { return plain_; }

 private:
  using State = MetricState<TextIndex>;
  struct Job {
    const EditTile* tile;
    MetricClaim<TextIndex> claim;
  };

  static bool indexable(const EditTile& tile) {
    return tile.host != nullptr && tile.texts != 0 && tile.live_rows != 0;
  }
  static State& state_of(const EditTile& tile) { return State::of(*tile.bytes); }

  void claim() {
    const auto missing = compute::missing_metrics(work_, work_.tiles.size(), [&](std::size_t i) {
      return indexable(work_.tiles[i]) && state_of(work_.tiles[i]).find() == nullptr;
    });
    jobs_.reserve(missing.size());  // what is claimed is kept, or free again
    compute::claim_missing(missing, [&](const compute::MissingMetric& one, bool at_once) {
      const EditTile& tile = work_.tiles[one.which];
      auto claim = MetricClaim<TextIndex>::ask(state_of(tile), one, at_once);
      if (claim) jobs_.push_back({&tile, std::move(*claim)});
    });
  }

  void build() {
    if (jobs_.empty()) return;
    ItemLoop loop(work_.cancellation);
    const auto threads =
        static_cast<unsigned>(std::min<std::size_t>(jobs_.size(), compute::thread_count()));
    loop.run(threads, jobs_.size(), [&](unsigned thread, std::size_t i) {
      LoopCancellation cancellation(loop, thread);
      const EditTile& tile = *jobs_[i].tile;
      jobs_[i].claim.set(std::make_shared<const TextIndex>(
          work_.metric->build(host_, tile, tile.host, &cancellation)));
    });
    jobs_.clear();
  }

  compute::Device& host_;
  const EditWork& work_;
  std::vector<Job> jobs_;
  std::vector<IndexedTile> indexed_;
  std::vector<EditTile> plain_;
};

class MetricSearch {
 public:
  MetricSearch(const EditWork& work, std::size_t k, EditResults& results)
      : work_(work), k_(k), results_(results), threads_(work, results) {}

  void run(const Indexes& indexes) {
    std::vector<std::uint32_t> all(work_.queries()), some, others;
    std::iota(all.begin(), all.end(), 0u);
    for (const std::uint32_t q : all) {
      (work_.query(q).size() <= kLongestQuery ? some : others).push_back(q);
    }
    const EditBatches batches(work_, some);
    for (const IndexedTile& indexed : indexes.indexed()) {
      const std::span<const EditTile> tile(indexed.tile, 1);
      const std::vector<std::uint32_t> left_out = search(indexed, batches);
      scan_texts(work_, left_out, tile, results_);
      for (const std::uint32_t q : left_out) results_.set_band(q, -1);
      scan_texts(work_, others, tile, results_);
    }
    scan_texts(work_, all, indexes.plain(), results_);
    threads_.count();
  }

 private:
  // Returns queries for which comparing all takes less.
  std::vector<std::uint32_t> search(const IndexedTile& indexed, const EditBatches& batches) {
    const EditTileView view(*indexed.tile, indexed.tile->host);
    const TextIndex& index = *indexed.index;
    std::vector<std::uint32_t> left_out;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const std::span<const std::uint32_t> queries = batches.queries(i);
      if (index.pivots != nullptr) {
        run(PivotSearch(work_, view, *index.pivots, queries, k_, results_, threads_), left_out);
      } else {
        run(ClusterSearch(work_, view, *index.clusters->clusters, queries, k_, results_, threads_),
            left_out);
      }
    }
    if (work_.counters != nullptr) {
      work_.counters->indexed += (batches.order.size() - left_out.size()) * indexed.tile->live_rows;
    }
    return left_out;
  }

  template <class Search>
  void run(Search&& search, std::vector<std::uint32_t>& left_out) {
    const std::vector<std::uint32_t> rest = search.run();
    left_out.insert(left_out.end(), rest.begin(), rest.end());
    if (work_.counters != nullptr) work_.counters->clusters += search.visited();
  }

  const EditWork& work_;
  const std::size_t k_;
  EditResults& results_;
  EditThreads threads_;
};

}  // namespace

void search_edit_metric(compute::Device& host, const EditWork& work, std::size_t k,
                        EditResults& results) {
  const Indexes indexes(host, work);
  MetricSearch(work, k, results).run(indexes);
}

}  // namespace warplite::cpu
