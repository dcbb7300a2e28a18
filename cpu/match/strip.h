// Counters of some rows of a tile, and how the best of them become results; of searches by
// postings (match.cc) and by codes (codes.cc).
// Threads: a keeper by one at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/bytes.h"
#include "cpu/match/kernels.h"
#include "cpu/match/results.h"

namespace warplite::cpu {

// Rows [first, end) of a tile, and their counters.
template <class Count>
struct Strip {
  std::uint32_t first, end;
  std::size_t padded;  // that there are counters for; those behind the rows are 0
  Count* counts;
};

// Room for n of T; what was in it is lost when it grows.
template <class T>
T* room_for(Bytes& bytes, std::size_t n) {
  if (bytes.size() < n * sizeof(T)) bytes = Bytes(n * sizeof(T));
  return reinterpret_cast<T*>(bytes.data());
}

// Rows that take no part count nothing.
template <class Tile, class Count>
void forget_dead(const Tile& tile, const Strip<Count>& strip) {
  if (tile.live == nullptr) return;
  for (std::uint32_t first = strip.first; first < strip.end; first += 64) {
    const std::uint64_t live = tile.live[first / 64];
    if (live == ~std::uint64_t{0}) continue;
    Count* const counts = strip.counts + (first - strip.first);
    for (std::uint32_t i = 0; i < std::min(strip.end - first, 64u); ++i) {
      const Count mask = static_cast<Count>(Count{0} - static_cast<Count>((live >> i) & 1));
      counts[i] = static_cast<Count>(counts[i] & mask);
    }
  }
}

class StripKeeper {
 public:
  explicit StripKeeper(MatchResults& results)
      : results_(results), kernels_(match_kernels()) {}

  // Adds the rows of a strip that may be among the best. No count exceeds `bound`.
  template <class Tile, class Count>
  void keep(std::size_t query, const Tile& tile, std::uint64_t bound, const Strip<Count>& strip) {
    const CountScans<Count>& scans = kernels_.scans(Count{});
    const Bar bar = results_.bar(query);
    std::uint32_t floor = bar.floor;
    // Ties come too late where rowids ascend.
    const RowIdView& rowids = tile.rowids;
    if (rowids.list == nullptr && rowids[strip.first] > bar.last) ++floor;
    if (floor > bound) return;
    const std::size_t found = scans.at_least(strip.counts, strip.padded, static_cast<Count>(floor));
    if (found == 0) return;
    const std::uint32_t raised = found > results_.k() ? raise(floor, bound, strip) : 0;
    floor = std::max(floor, raised);
    auto* const places = room_for<std::uint32_t>(places_, strip.padded);
    const std::size_t kept =
        scans.collect(strip.counts, strip.padded, static_cast<Count>(floor), places);
    results_.add(query, tile, kept, [&](std::size_t i) {
      return RowCount{strip.first + places[i], strip.counts[places[i]]};
    }, raised);
  }

 private:
  // The greatest floor that k rows reach. REQUIRES: they reach `low`
  template <class Count>
  std::uint32_t raise(std::uint32_t low, std::uint64_t bound, const Strip<Count>& strip) const {
    const CountScans<Count>& scans = kernels_.scans(Count{});
    std::uint32_t end = static_cast<std::uint32_t>(bound) + 1;
    while (end - low > 1) {
      const std::uint32_t middle = low + (end - low) / 2;
      const std::size_t n = scans.at_least(strip.counts, strip.padded, static_cast<Count>(middle));
      (n >= results_.k() ? low : end) = middle;
    }
    return low;
  }

  MatchResults& results_;
  const MatchKernels& kernels_;
  Bytes places_;
};

}  // namespace warplite::cpu
