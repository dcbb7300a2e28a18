#include "cpu/match.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "cpu/ivf_parallel.h"
#include "cpu/kernels.h"
#include "cpu/match_lists.h"
#include "cpu/match_results.h"
#include "cpu/match_tile.h"
#include "cpu/worker.h"

namespace warplite::cpu {
namespace {

using compute::MatchTile;
using compute::MatchWork;

// Waking a thread costs about as much as a query in this many rows.
constexpr std::size_t kThreadRows = std::size_t{1} << 17;
// Postings between questions whether to go on: about a millisecond.
constexpr std::size_t kCheckedPostings = std::size_t{1} << 20;
// Postings of a slice that are fetched before they are added, and how many slices before.
constexpr std::uint32_t kFetchedPostings = 256;
constexpr std::size_t kFetchedAhead = 3;

// A thread's memory, and what it counts at the moment.
class Counter {
 public:
  Counter(const MatchWork& work, MatchResults& results, ItemLoop& loop, unsigned thread)
      : work_(work), results_(results), loop_(loop), thread_(thread),
        kernels_(active_kernels().match) {}

  void count(const MatchTile& tile, const MatchTileView& view, const LongLists& lists,
             std::size_t q) {
    const std::size_t begin = work_.begins[q], end = work_.begins[q + 1];
    const std::uint64_t bound = lists_.find(view, work_.items.subspan(begin, end - begin));
    if (bound < results_.bar(q).floor) return;
    lists_.take(view, lists);
    const Place at{tile, view.rows(), q, bound};
    if (bound <= std::numeric_limits<std::uint8_t>::max()) return count_as<std::uint8_t>(at);
    if (bound <= std::numeric_limits<std::uint16_t>::max()) return count_as<std::uint16_t>(at);
    count_as<std::uint32_t>(at);
  }

 private:
  // A query in a tile.
  struct Place {
    const MatchTile& tile;
    const std::uint16_t* postings;
    std::size_t query;
    std::uint64_t bound;  // that no count exceeds
  };
  // Some rows of a tile, and their counters.
  template <class Count>
  struct Strip {
    std::uint32_t first, end;
    std::size_t padded;  // that there are counters for
    Count* counts;
  };

  template <class Count>
  void count_as(const Place& at) {
    const std::uint32_t rows = lists_.whole() ? compute::kTileRows : kStripRows;
    auto* const counts = memory<Count>(counters_, rows);
    for (std::uint32_t first = 0; first < at.tile.rows; first += rows) {
      const std::uint32_t n = std::min(at.tile.rows - first, rows);
      const Strip<Count> strip{first, first + n, padded(n), counts};
      begin_counts(strip);
      add_slices(at, strip);
      forget_dead(at.tile, strip);
      keep_best(at, strip);
    }
  }

  // Sums of the bitmaps, or zeros.
  template <class Count>
  void begin_counts(const Strip<Count>& strip) {
    std::vector<const std::uint8_t*>& bitmaps = lists_.bitmaps();
    if (bitmaps.empty()) {
      std::memset(strip.counts, 0, strip.padded * sizeof(Count));
      return;
    }
    const std::size_t stride = strip.padded / 8;
    if constexpr (sizeof(Count) == 1) {
      kernels_.sum_bitmaps(bitmaps.data(), bitmaps.size(), stride, strip.counts);
    } else {
      auto* const sums = memory<std::uint8_t>(sums_, strip.padded);
      kernels_.sum_bitmaps(bitmaps.data(), bitmaps.size(), stride, sums);
      std::copy_n(sums, strip.padded, strip.counts);
    }
    for (const std::uint8_t*& bitmap : bitmaps) bitmap += stride;
  }

  // Adds the postings in the strip, and takes them from the slices.
  template <class Count>
  void add_slices(const Place& at, const Strip<Count>& strip) {
    std::vector<Slice>& slices = lists_.slices();
    std::size_t unchecked = 0;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      Slice& slice = slices[i];
      const std::uint32_t begin = slice.begin;
      if (i + kFetchedAhead < slices.size()) fetch(at, slices[i + kFetchedAhead]);
      slice.begin = add_slice(at, strip, slice);
      unchecked += slice.begin - begin;
      if (unchecked < kCheckedPostings) continue;
      loop_.check(thread_);
      unchecked = 0;
    }
  }

  // Lists are too short in a strip for the machine to see what comes.
  static void fetch(const Place& at, const Slice& slice) {
    constexpr std::uint32_t kLine = 64 / sizeof *at.postings;
    const std::uint32_t end = std::min(slice.end, slice.begin + kFetchedPostings);
    for (std::uint32_t p = slice.begin; p < end; p += kLine) __builtin_prefetch(at.postings + p);
  }

  template <class Count>
  static void add(std::uint64_t row, Count weight, Count* counts) {
    counts[row] = static_cast<Count>(counts[row] + weight);
  }
  // Four rows are one load: loads limit these loops, not shifts.
  template <class Count>
  static void add_four(const std::uint16_t* rows, std::uint64_t firsts, Count weight,
                       Count* counts) {
    std::uint64_t four;
    std::memcpy(&four, rows, sizeof four);
    four -= firsts;
    add(four & 0xffff, weight, counts);
    add(four >> 16 & 0xffff, weight, counts);
    add(four >> 32 & 0xffff, weight, counts);
    add(four >> 48, weight, counts);
  }

  // Returns the first posting behind the strip.
  template <class Count>
  static std::uint32_t add_slice(const Place& at, const Strip<Count>& strip, const Slice& slice) {
    constexpr std::uint64_t kOnes = 0x0001000100010001u;
    const auto weight = static_cast<Count>(slice.weight);
    const std::uint64_t firsts = strip.first * kOnes;
    const std::uint16_t* row = at.postings + slice.begin;
    const std::uint16_t* const end = at.postings + slice.end;
    for (; end - row >= 8 && row[7] < strip.end; row += 8) {
      add_four(row, firsts, weight, strip.counts);
      add_four(row + 4, firsts, weight, strip.counts);
    }
    for (; row != end && *row < strip.end; ++row) {
      add(*row - strip.first, weight, strip.counts);
    }
    return static_cast<std::uint32_t>(row - at.postings);
  }

  // Rows that take no part count nothing.
  template <class Count>
  static void forget_dead(const MatchTile& tile, const Strip<Count>& strip) {
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

  template <class Count>
  void keep_best(const Place& at, const Strip<Count>& strip) {
    const CountScans<Count>& scans = kernels_.scans(Count{});
    const Bar bar = results_.bar(at.query);
    std::uint32_t floor = bar.floor;
    // Ties come too late where rowids ascend.
    const RowIdView& rowids = at.tile.rowids;
    if (rowids.list == nullptr && rowids[strip.first] > bar.last) ++floor;
    if (floor > at.bound) return;
    const std::size_t found = scans.at_least(strip.counts, strip.padded, static_cast<Count>(floor));
    if (found == 0) return;
    const std::uint32_t raised = found > results_.k() ? raise(floor, at, strip) : 0;
    floor = std::max(floor, raised);
    auto* const places = memory<std::uint32_t>(places_, strip.padded);
    const std::size_t kept =
        scans.collect(strip.counts, strip.padded, static_cast<Count>(floor), places);
    results_.add(at.query, at.tile, strip.first, {places, kept}, strip.counts, raised);
  }

  // The greatest floor that k rows reach. REQUIRES: they reach `low`
  template <class Count>
  std::uint32_t raise(std::uint32_t low, const Place& at, const Strip<Count>& strip) const {
    const CountScans<Count>& scans = kernels_.scans(Count{});
    std::uint32_t end = static_cast<std::uint32_t>(at.bound) + 1;
    while (end - low > 1) {
      const std::uint32_t middle = low + (end - low) / 2;
      const std::size_t n = scans.at_least(strip.counts, strip.padded, static_cast<Count>(middle));
      (n >= results_.k() ? low : end) = middle;
    }
    return low;
  }

  template <class T>
  static T* memory(Bytes& bytes, std::size_t n) {
    if (bytes.size() < n * sizeof(T)) bytes = Bytes(n * sizeof(T));
    return reinterpret_cast<T*>(bytes.data());
  }

  const MatchWork& work_;
  MatchResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const MatchKernels& kernels_;
  MatchLists lists_;
  Bytes counters_, sums_, places_;
};

}  // namespace

void search_match(const MatchWork& work, compute::HitTable& best) {
  const std::size_t queries = work.queries();
  if (best.k() == 0 || queries == 0) return;
  std::size_t rows = 0;
  for (const MatchTile& tile : work.tiles) rows += tile.rows;
  const std::size_t useful = rows * queries / kThreadRows + 1;
  const auto threads =
      static_cast<unsigned>(std::min<std::size_t>(compute::thread_count(), useful));
  // Every query of a tile at once, while its postings are in a cache; fewer when there are more
  // threads than tiles.
  const std::size_t wanted = threads == 1 ? 1 : 4 * threads / (work.tiles.size() + 1) + 1;
  const std::size_t group = (queries + wanted - 1) / wanted;
  const std::size_t groups = (queries + group - 1) / group;

  MatchResults results(work, best);
  ItemLoop loop(work.cancellation);
  std::vector<std::unique_ptr<Counter>> counters(threads);
  loop.run(threads, work.tiles.size() * groups, [&](unsigned thread, std::size_t item) {
    const MatchTile& tile = work.tiles[item / groups];
    if (tile.postings == 0 || (tile.live != nullptr && tile.live_rows == 0)) return;
    std::unique_ptr<Counter>& counter = counters[thread];
    if (!counter) counter = std::make_unique<Counter>(work, results, loop, thread);
    const auto* buffer = static_cast<const CpuBuffer*>(tile.bytes);
    const MatchTileView view(tile, buffer->data());
    const auto lists = buffer->derived<LongLists>(
        [&] { return std::make_shared<LongLists>(view, tile.rows); });
    const std::size_t first = item % groups * group;
    for (std::size_t q = first; q < std::min(first + group, queries); ++q) {
      loop.check(thread);
      counter->count(tile, view, *lists, q);
    }
  });
}

}  // namespace warplite::cpu
