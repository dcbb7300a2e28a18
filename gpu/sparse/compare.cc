#include "gpu/sparse/compare.h"

#include <algorithm>

#include "compute/metric.h"
#include "gpu/runtime/lane.h"
#include "gpu/runtime/threads.h"

namespace warplite::gpu {
namespace {

using compute::SparseTile;

// A thread is worth its start from so many values on.
constexpr std::size_t kValuesPerThread = 256;
// Values that are compared between questions whether to go on, and what is then added.
constexpr std::size_t kAtOnce = 64;

// Values are far apart in memory.
void ask_for(const SparseTile& tile, std::uint32_t row) {
  constexpr std::size_t kMost = 1024, kLine = 64;
  const std::string_view value = tile.values->text(row);
  for (std::size_t at = 0; at < std::min(value.size(), kMost); at += kLine) {
    __builtin_prefetch(value.data() + at);
  }
}

}  // namespace

void SparseCompare::for_each(std::size_t n, std::size_t values,
                             const std::function<void(std::size_t)>& body) {
  in_parallel(
      n, std::min(n, values / kValuesPerThread),
      [&](std::size_t i) {
        check();
        body(i);
      },
      [this] { check(); });
}

void SparseCompare::check() {
  if (!stop_ && std::this_thread::get_id() == caller_ && work_.cancellation != nullptr &&
      work_.cancellation->requested()) {
    stop_ = true;
  }
  if (stop_) throw Error(ErrorKind::kInterrupted, "interrupted");
}

void SparseCompare::compare(std::uint32_t query, const SparseTile& tile, std::uint32_t row,
                            std::vector<Hit>& hits) const {
  const double distance = work_.queries[query].distance(tile.values->text(row).data());
  if (distance <= results_.limit(query)) hits.push_back({distance, tile.rowids[row], tile.id, row});
}

void SparseCompare::add(std::uint32_t query, std::vector<Hit>& hits, std::size_t compared) {
  results_.add(query, hits);
  hits.clear();
  if (work_.counters != nullptr) work_.counters->distances += compared;
  check();
}

void SparseCompare::nominees(std::uint32_t query, std::span<const Nominee> nominees) {
  const std::size_t group =
      results_.k() == 0 ? kAtOnce : std::clamp<std::size_t>(results_.k() / 2, 1, kAtOnce);
  std::vector<Hit> hits;
  for (std::size_t first = 0; first < nominees.size(); first += group) {
    const auto some = nominees.subspan(first, std::min(group, nominees.size() - first));
    if (results_.k() != 0 && some.front().most < -results_.limit(query)) return;
    std::size_t compared = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (first + i + 1 < nominees.size()) {
        const Nominee& next = nominees[first + i + 1];
        ask_for(*next.tile, next.row);
      }
      if (!some[i].tile->takes_part(some[i].row)) continue;
      compare(query, *some[i].tile, some[i].row, hits);
      ++compared;
    }
    add(query, hits, compared);
  }
}

void SparseCompare::all(std::uint32_t query, const Rows& rows) {
  std::vector<Hit> hits;
  std::size_t compared = 0;
  for (std::uint32_t row = rows.begin; row < rows.end; ++row) {
    if (!rows.tile.takes_part(row)) continue;
    compare(query, rows.tile, row, hits);
    if (++compared % kAtOnce == 0) add(query, hits, kAtOnce);
  }
  add(query, hits, compared % kAtOnce);
}

void SparseCompare::others(std::uint32_t query, const Rows& rows, const Known& known) {
  constexpr std::size_t kMostHits = 4096;
  std::vector<Hit> hits;
  std::size_t compared = 0;
  auto done = known.done.begin();
  for (std::uint32_t row = rows.begin; row < rows.end; ++row) {
    const std::uint32_t bit = row - rows.begin;
    if (bit % kAtOnce == 0) check();
    if (hits.size() >= kMostHits) add(query, hits, 0);
    if (done != known.done.end() && *done == row) {
      ++done;
      continue;
    }
    if (!rows.tile.takes_part(row)) continue;
    if ((known.marks[bit / 32] >> bit % 32 & 1) != 0) {
      compare(query, rows.tile, row, hits);
      ++compared;
    } else if (results_.limit(query) >= 0) {
      hits.push_back({0, rows.tile.rowids[row], rows.tile.id, row});
    }
  }
  add(query, hits, compared);
}

}  // namespace warplite::gpu
