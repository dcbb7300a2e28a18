#include "cpu/scan/threshold_select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace warplite::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostBatch = 128;  // queries: their nominees stay in the second-level cache
// Rows that are read together for all queries of a batch.
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

std::size_t batch_for(std::size_t queries, unsigned threads) {
  constexpr std::size_t kBatchesPerThread = 4;
  return std::clamp<std::size_t>(queries / (kBatchesPerThread * threads), 1, kMostBatch);
}

bool before(const Nominator::Candidate& a, const Nominator::Candidate& b) {
  return a.block != b.block ? a.block < b.block : a.row < b.row;
}

}  // namespace

OtherRows::OtherRows(const compute::Workload& work)
    : blocks_(work.blocks.begin(), work.blocks.end()), live_(work.blocks.size()) {
  for (const compute::SampleRow& at : work.sample) {
    compute::Block& block = blocks_[at.block];
    Bitmap& live = live_[at.block];
    if (live.size() == 0) {
      live = Bitmap(block.rows, block.live == nullptr);
      if (block.live != nullptr) std::copy_n(block.live, live.word_count(), live.words());
      block.live = live.words();
    }
    live.reset(at.row);
    --block.live_rows;
  }
}

bool ThresholdSelect::suits(const compute::Workload& work, std::size_t k, std::size_t live_rows) {
  return k != 0 && work.sample.size() >= k && work.range.low == -kInfinity &&
         Nominator::suits(work, k, live_rows);
}

std::size_t ThresholdSelect::query_bytes(const compute::Workload& work, std::size_t k,
                                         unsigned threads) {
  // The sample takes its products; and half of its rows, if the threshold tells little.
  return work.sample.size() * (sizeof(float) + sizeof(Candidate) / 2) +
         (threads + 1) * Nominator::pending_bytes(k);
}

ThresholdSelect::ThresholdSelect(const SearchContext& context, const Nominator& nominator,
                                 unsigned threads)
    : context_(context),
      nominator_(nominator),
      batch_queries_(batch_for(context.work.queries.rows, threads)),
      dots_(context.work.queries.rows * context.work.sample.size()),
      halves_(context.work.sample.size()),
      norms_(context.work.sample.size()),
      sampled_(context.work.queries.rows) {}

std::size_t ThresholdSelect::sample_tiles() const {
  const std::size_t rows = nominator_.tile_rows();
  return (context_.work.sample.size() + rows - 1) / rows;
}

std::size_t ThresholdSelect::query_batches() const {
  return (context_.work.queries.rows + batch_queries_ - 1) / batch_queries_;
}

void ThresholdSelect::multiply_sample(Worker& worker, Nominator::Tile& tile,
                                      std::size_t sample_tile) {
  const compute::Workload& work = context_.work;
  const BoundedProduct& product = nominator_.product();
  const BoundedProduct::Queries& queries = nominator_.queries();
  const std::size_t begin = sample_tile * nominator_.tile_rows();
  const std::size_t n = std::min(nominator_.tile_rows(), work.sample.size() - begin);
  BoundedProduct::Vectors rows;
  for (const compute::SampleRow& at : work.sample.subspan(begin, n)) {
    rows.push_back(vectors_of(work.blocks[at.block]) + at.row * work.queries.stride());
  }
  product.pack_rows(rows, &tile.packed);
  std::copy_n(tile.packed.halves.begin(), n, halves_.begin() + static_cast<std::ptrdiff_t>(begin));
  std::copy_n(tile.packed.norms.begin(), n, norms_.begin() + static_cast<std::ptrdiff_t>(begin));
  auto* const dots = reinterpret_cast<float*>(tile.dots.data());
  const std::size_t count = queries.bounds.size(), panels = product.panels_of(count);
  const std::size_t width = product.panel_queries();
  for (std::size_t panel = 0; panel < panels; panel += product.panel_group()) {
    if (worker.stopped()) return;
    const std::size_t group = std::min(product.panel_group(), panels - panel);
    product.multiply(queries, panel, group, tile.packed, n, dots);
    const std::size_t first = panel * width, end = std::min(count, first + group * width);
    for (std::size_t q = first; q < end; ++q) {
      std::copy_n(dots + (q - first) * nominator_.tile_rows(), n,
                  &dots_[q * work.sample.size() + begin]);
    }
  }
}

// None, where the norm of either is out of range.
BoundedProduct::Bounds ThresholdSelect::bounds(std::size_t query, std::size_t sample_row) const {
  const BoundedProduct::Query& bounds = nominator_.queries().bounds[query];
  const float half = halves_[sample_row];
  if (!bounds.usable || !std::isfinite(half)) return {-kInfinity, kInfinity};
  return BoundedProduct::bounds(bounds, dots_[query * halves_.size() + sample_row], half,
                                norms_[sample_row]);
}

void ThresholdSelect::bound(Worker& worker, std::size_t batch, SharedThresholds& thresholds) {
  const std::size_t first = batch * batch_queries_;
  const std::size_t end = std::min(context_.work.queries.rows, first + batch_queries_);
  std::vector<float> keys;
  for (std::size_t q = first; q < end && !worker.stopped(); ++q) {
    keys.clear();
    for (std::size_t i = 0; i < halves_.size(); ++i) {
      const float high = to_float(bounds(q, i).high);
      if (std::isfinite(high)) keys.push_back(high);
    }
    if (keys.size() >= context_.k) {
      thresholds.lower(q, nominator_.product().farthest(nominator_.queries().bounds[q],
                                                        bound_of(keys, context_.k)));
    }
    keep_sample(q, thresholds.get(q));
  }
}

void ThresholdSelect::keep_sample(std::size_t query, double threshold) {
  const double farthest =
      -nominator_.product().offset(nominator_.queries().bounds[query], threshold);
  for (std::size_t i = 0; i < halves_.size(); ++i) {
    const BoundedProduct::Bounds key = bounds(query, i);
    if (key.low > farthest) continue;
    const compute::SampleRow& at = context_.work.sample[i];
    sampled_[query].push_back({key.low, key.high, at.block, at.row});
  }
}

void ThresholdSelect::select(Worker& worker, std::size_t batch,
                             std::vector<Nominator::Tile>& tiles) {
  const std::size_t first = batch * batch_queries_;
  const std::size_t end = std::min(context_.work.queries.rows, first + batch_queries_);
  std::vector<Selection> selections(end - first);
  for (std::size_t q = first; q < end && !worker.stopped(); ++q) {
    gather(worker, q, tiles, selections[q - first]);
  }
  measure(worker, first, selections);
  MinMaxHeap<Hit> heap(context_.k);
  for (std::size_t q = first; q < end && !worker.stopped(); ++q) {
    take_nearest(worker, q, selections[q - first], heap);
  }
}

// Gathers what all threads have kept of a query and may still belong to the k nearest.
void ThresholdSelect::gather(Worker& worker, std::size_t query,
                             std::vector<Nominator::Tile>& tiles, Selection& out) {
  Nominator::Pending last;
  std::vector<Candidate>& all = last.candidates;
  all.swap(sampled_[query]);
  nominator_.drop_distant(worker, query, last);
  for (Nominator::Tile& tile : tiles) {
    if (tile.pending.empty()) continue;  // of a thread that had nothing to do
    Nominator::Pending& pending = tile.pending[query];
    nominator_.drop_distant(worker, query, pending);
    const auto middle = static_cast<std::ptrdiff_t>(all.size());
    all.insert(all.end(), pending.candidates.begin(), pending.candidates.end());
    std::inplace_merge(all.begin(), all.begin() + middle, all.end(), before);
    pending.candidates = {};
  }
  std::vector<float> keys;
  for (const Candidate& candidate : all) {
    const float high = to_float(candidate.high);
    if (std::isfinite(high)) keys.push_back(high);
  }
  if (keys.size() > context_.k) {
    const BoundedProduct::Query& bounds = nominator_.queries().bounds[query];
    worker.tighten(query, nominator_.product().farthest(bounds, bound_of(keys, context_.k)));
    nominator_.drop_distant(worker, query, last);
  }
  out.candidates.swap(all);
}

// The distances of all candidates, chunk of rows by chunk of rows.
void ThresholdSelect::measure(Worker& worker, std::size_t first,
                              std::vector<Selection>& batch) const {
  const compute::Workload& work = context_.work;
  const auto chunk = static_cast<std::uint32_t>(
      std::max<std::size_t>(16, kChunkBytes / work.queries.stride()));
  std::vector<std::uint32_t> rows;
  for (Selection& one : batch) one.distances.reserve(one.candidates.size());
  for (std::uint32_t b = 0; b < work.blocks.size(); ++b) {
    const compute::Block& block = work.blocks[b];
    for (std::uint32_t begin = 0, end = 0; begin < block.rows; begin = end) {
      end = begin + std::min(chunk, block.rows - begin);
      if (worker.stopped()) return;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        Selection& one = batch[i];
        rows.clear();
        for (std::size_t at = one.distances.size();
             at < one.candidates.size() && one.candidates[at].block == b &&
             one.candidates[at].row < end; ++at) {
          rows.push_back(one.candidates[at].row);
        }
        if (rows.empty()) continue;
        one.distances.resize(one.distances.size() + rows.size());
        worker.measure(first + i, block, rows.data(), rows.size(),
                       one.distances.data() + one.distances.size() - rows.size());
      }
    }
  }
}

void ThresholdSelect::take_nearest(Worker& worker, std::size_t query, const Selection& from,
                                   MinMaxHeap<Hit>& heap) const {
  const compute::Workload& work = context_.work;
  heap.reset(context_.k);
  for (std::size_t i = 0; i < from.distances.size(); ++i) {
    const Candidate& candidate = from.candidates[i];
    const compute::Block& block = work.blocks[candidate.block];
    const Hit hit{from.distances[i], block.rowids[candidate.row], block.id, candidate.row};
    if (work.admits(hit)) heap.push(hit);
  }
  Collector& collector = worker.collector(query);
  for (const Hit& hit : heap.values()) collector.add(hit);
}

}  // namespace warplite::cpu
