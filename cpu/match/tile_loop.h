// How threads share a search by match count: each takes some queries of one tile at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "compute/host/parallel.h"
#include "cpu/match/results.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {

// Calls counter.count(tile's number, first, end) of a thread's own Counter for queries first …
// end − 1, until all have been counted in every tile. `useful`: threads that are worth waking.
template <class Counter, class Work>
void count_tiles(const Work& work, std::size_t useful, compute::HitTable& best) {
  const std::size_t queries = work.queries();
  ItemLoop loop(work.cancellation);
  const unsigned threads = loop.begin_with_meanwhile(
      static_cast<unsigned>(std::min<std::size_t>(compute::thread_count(), useful)));
  // Every query of a tile at once, while what it holds is in a cache; fewer when there are more
  // threads than tiles.
  const std::size_t wanted = threads == 1 ? 1 : 4 * threads / (work.tiles.size() + 1) + 1;
  const std::size_t group = (queries + wanted - 1) / wanted;
  const std::size_t groups = (queries + group - 1) / group;

  MatchResults results(work.least, best);
  std::vector<std::unique_ptr<Counter>> counters(threads);
  loop.run(threads, work.tiles.size() * groups, [&](unsigned thread, std::size_t item) {
    const auto& tile = work.tiles[item / groups];
    if (tile.live != nullptr && tile.live_rows == 0) return;
    std::unique_ptr<Counter>& counter = counters[thread];
    if (!counter) counter = std::make_unique<Counter>(work, results, loop, thread);
    const std::size_t first = item % groups * group;
    counter->count(item / groups, first, std::min(first + group, queries));
  });
}

}  // namespace warplite::cpu
