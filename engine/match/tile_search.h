// Counts matches over tiles (tiles.h), on the device that is worth it.
// Threads: as the view's connection.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compute/ops.h"
#include "engine/filter/filter.h"
#include "engine/match/tiles.h"
#include "engine/table/view.h"

namespace warplite::engine {

// A search of tiles. Everything it refers to outlives the call.
struct TileRequest {
  std::string device;  // empty: the configured one
  // Items of the queries, laid out as in compute::MatchWork.
  std::span<const std::uint32_t> begins;
  std::span<const compute::MatchItem> items;
  double share;        // of the postings that a query meets, about
  compute::Cancellation* cancellation = nullptr;
};

// Adds to `best` the selected rows that match most items of each query, as hits at distance −count;
// rows that match none are left out. When a device fails, the CPU answers, unless the request
// insisted on that device. Only parts with selected rows are looked at.
void search_tiles(const View& view, const Selection& rows, const TileMaker& maker,
                  const TileRequest& request, compute::HitTable& best);

}  // namespace warplite::engine
