// Tiles of texts and their metric indexes (compute/edit_metric.h): which searches use them, and
// what goes with a search to the GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/device.h"
#include "gpu/metric/texts.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// MetricTiles say which tiles of a search have an index.
struct MetricTiles {
  std::vector<compute::EditTile> indexed, plain;
};

// Says whether indexes may be of use to a search for all within a distance, by how many queries it
// has.
bool metric_suits(const compute::EditWork& work);

// Decides, from what the first queries of as many words evaluated through the indexes, whether that
// is faster than comparing all texts whose length may be near. It decides by counts alone.
class MetricChoice {
 public:
  // REQUIRES: the tiles have indexes.
  explicit MetricChoice(std::span<const compute::EditTile* const> tiles);

  // Queries that tell about so many; 0: all are compared with all texts.
  static std::size_t sample(std::size_t queries);
  // A query that is part of the sample.
  void add(std::uint32_t length, std::uint32_t threshold);
  // `totals`: of the sample, whose queries have so many words.
  bool faster(const MetricTotals& totals, std::uint32_t words) const;

 private:
  std::vector<std::uint64_t> shorter_;  // texts that are shorter than so many code points
  double texts_ = 0, positions_ = 0;    // of all tiles; positions of groups of 32
  double clusters_ = 0, groups_ = 0;
  bool pivots_ = false;
  // Counts of the sample: queries, and texts of about their lengths.
  double queries_ = 0, near_ = 0;
};

// Makes the indexes that have become worth it; `host` computes their distances. Throws
// Error{kInterrupted}.
MetricTiles metric_tiles(compute::Device& host, Lane& lane, const compute::EditWork& work);
// REQUIRES: the tile has an index.
const MetricTextsView& metric_of(const compute::EditTile& tile);

}  // namespace warplite::gpu
