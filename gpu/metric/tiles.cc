#include "gpu/metric/tiles.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "gpu/metric/build.h"
#include "gpu/runtime/cuda_buffer.h"

namespace warplite::gpu {
namespace {

using compute::EditTile;

// Fewer queries are compared with all texts faster.
constexpr std::size_t kLeastQueries = 4096;
constexpr std::size_t kSample = 512;
// Costs of a search through an index, beside a text of kWord code points that a scan compares with
// a query of one word: to compare such a text, to look at 32 members of a cluster for one query,
// and to look up a text's distances to pivots (bench/kernels/GPU_NOTES.md).
constexpr double kWord = 10, kEvaluation = 1.9, kVisit = 66, kLookUp = 1;

// WARPLITE_GPU_METRIC=always: for tests, which have few queries.
bool always() {
  static const bool is = [] {
    const char* const value = std::getenv("WARPLITE_GPU_METRIC");
    return value != nullptr && std::string_view(value) == "always";
  }();
  return is;
}

MetricIndexes& indexes_of(const EditTile& tile) {
  return metric_indexes(tile.bytes);
}

bool may_have_index(const EditTile& tile) {
  return tile.host != nullptr && tile.texts != 0 && tile.width == 1 &&
         !CudaBuffer::of(tile.bytes).mapped();
}

}  // namespace

bool metric_suits(const compute::EditWork& work) {
  return work.metric != nullptr && work.range.high < compute::kLongestEditText &&
         (always() || work.queries() >= kLeastQueries);
}

MetricChoice::MetricChoice(std::span<const EditTile* const> tiles)
    : shorter_(compute::kLongestEditText + 2) {
  for (const EditTile* tile : tiles) {
    const auto at =
        compute::EditLayout::of(tile->alphabet, tile->texts, tile->positions, tile->width);
    const auto* const lengths = reinterpret_cast<const std::uint16_t*>(tile->host + at.lengths);
    for (std::uint32_t i = 0; i < tile->texts; ++i) ++shorter_[lengths[i] + std::size_t{1}];
    texts_ += tile->texts;
    positions_ += tile->positions;
    const MetricTextsView& metric = metric_of(*tile);
    clusters_ += metric.count;
    groups_ += metric.groups;
    pivots_ |= metric.pivots;
  }
  for (std::size_t i = 1; i < shorter_.size(); ++i) shorter_[i] += shorter_[i - 1];
}

std::size_t MetricChoice::sample(std::size_t queries) {
  if (always()) return queries;
  return queries < kLeastQueries ? 0 : kSample;
}

void MetricChoice::add(std::uint32_t length, std::uint32_t threshold) {
  const std::size_t most = shorter_.size() - 1;
  const std::size_t begin = length > threshold ? length - threshold : 0;
  const std::size_t end = std::size_t{length} + threshold + 1;
  near_ += static_cast<double>(shorter_[std::min(end, most)] - shorter_[std::min(begin, most)]);
  ++queries_;
}

bool MetricChoice::faster(const MetricTotals& totals, std::uint32_t words) const {
  if (always()) return true;
  const double length = positions_ * compute::kEditGroup / std::max(texts_, 1.0);
  const double text = words * std::max(length, 1.0) / kWord;
  const double visits = pivots_ ? 0 : static_cast<double>(totals.clusters) * groups_ /
                                          std::max(clusters_, 1.0);
  const double look_ups = pivots_ ? queries_ * texts_ : 0;
  return kEvaluation * text * static_cast<double>(totals.distances) + kVisit * visits +
             kLookUp * look_ups <
         text * near_;
}

MetricTiles metric_tiles(compute::Device& host, Lane& lane, const compute::EditWork& work) {
  std::vector<const EditTile*> missing;
  MetricClaims claims;
  const auto lacking = compute::missing_metrics(work, work.tiles.size(), [&](std::size_t i) {
    return may_have_index(work.tiles[i]) && indexes_of(work.tiles[i]).texts() == nullptr;
  });
  missing.reserve(lacking.size());  // what is claimed is kept, or free again
  claims.reserve(lacking.size());
  compute::claim_missing(lacking, [&](const compute::MissingMetric& one, bool at_once) {
    const EditTile& tile = work.tiles[one.which];
    if (!indexes_of(tile).claim(one, at_once)) return;
    missing.push_back(&tile);
    claims.add(indexes_of(tile));
  });
  claims.make(
      work.cancellation,
      [&](std::size_t i, compute::Cancellation* cancellation) {
        return work.metric->build(host, *missing[i], missing[i]->host, cancellation);
      },
      [&](MetricIndexes& indexes, const compute::TextMetric& metric) {
        indexes.finish(metric, lane);
      });
  MetricTiles out;
  for (const EditTile& tile : work.tiles) {
    const bool indexed = may_have_index(tile) && indexes_of(tile).texts() != nullptr;
    (indexed ? out.indexed : out.plain).push_back(tile);
  }
  return out;
}

const MetricTextsView& metric_of(const EditTile& tile) { return *indexes_of(tile).texts(); }

}  // namespace warplite::gpu
