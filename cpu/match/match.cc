#include "cpu/match/match.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "core/process/derived_store.h"
#include "cpu/match/kernels.h"
#include "cpu/match/lists.h"
#include "cpu/match/results.h"
#include "cpu/match/sliced.h"
#include "cpu/match/strip.h"
#include "cpu/match/tile.h"
#include "cpu/match/tile_loop.h"
#include "cpu/runtime/cpu_buffer.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {
namespace {

using compute::MatchTile;
using compute::MatchWork;

// A KnownTile keeps what is found out about a tile once, with the tile's buffer.
class KnownTile {
 public:
  KnownTile(const MatchTileView& view, std::uint32_t rows) : lists(view, rows), rows_(rows) {}

  const LongLists lists;
  // Found by whoever asks first.
  const MatchColumns& columns(const MatchTileView& view) const {
    return made_.of<MatchColumns>(view, rows_);
  }

 private:
  const std::uint32_t rows_;
  mutable DerivedStore made_;
};

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
        kernels_(match_kernels()), keeper_(results) {}

  void count(const MatchTile& tile, const MatchTileView& view, const LongLists& lists,
             std::size_t q) {
    const std::size_t begin = work_.begins[q], end = work_.begins[q + 1];
    const std::uint64_t bound = lists_.find(view, work_.items.subspan(begin, end - begin),
                                             [this] { loop_.check(thread_); });
    if (bound < results_.bar(q).floor) return;
    lists_.take(view, lists);
    const TileQuery at{tile, view.rows(), q, bound};
    if (bound <= std::numeric_limits<std::uint8_t>::max()) return count_as<std::uint8_t>(at);
    if (bound <= std::numeric_limits<std::uint16_t>::max()) return count_as<std::uint16_t>(at);
    count_as<std::uint32_t>(at);
  }

 private:
  // A query in a tile.
  struct TileQuery {
    const MatchTile& tile;
    const std::uint16_t* postings;
    std::size_t query;
    std::uint64_t bound;  // that no count exceeds
  };
  template <class Count>
  void count_as(const TileQuery& at) {
    const std::uint32_t rows = lists_.whole() ? compute::kTileRows : kStripRows;
    auto* const counts = room_for<Count>(counters_, rows);
    for (std::uint32_t first = 0; first < at.tile.rows; first += rows) {
      const std::uint32_t n = std::min(at.tile.rows - first, rows);
      const Strip<Count> strip{first, first + n, padded(n), counts};
      begin_counts(strip);
      add_slices(at, strip);
      forget_dead(at.tile, strip);
      keeper_.keep(at.query, at.tile, at.bound, strip);
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
      auto* const sums = room_for<std::uint8_t>(sums_, strip.padded);
      kernels_.sum_bitmaps(bitmaps.data(), bitmaps.size(), stride, sums);
      std::copy_n(sums, strip.padded, strip.counts);
    }
    for (const std::uint8_t*& bitmap : bitmaps) bitmap += stride;
  }

  // Adds the postings in the strip, and takes them from the slices.
  template <class Count>
  void add_slices(const TileQuery& at, const Strip<Count>& strip) {
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
  static void fetch(const TileQuery& at, const Slice& slice) {
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
  static std::uint32_t add_slice(const TileQuery& at, const Strip<Count>& strip,
                                 const Slice& slice) {
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

  const MatchWork& work_;
  MatchResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const MatchKernels& kernels_;
  StripKeeper keeper_;
  MatchLists lists_;
  Bytes counters_, sums_;
};

// A thread's part.
class TileCounter {
 public:
  TileCounter(const MatchWork& work, MatchResults& results, ItemLoop& loop, unsigned thread)
      : work_(work), results_(results), loop_(loop), thread_(thread), one_(work, results, loop, thread),
        many_(work, results, loop, thread) {}

  // Queries first … end − 1 in a tile.
  void count(std::size_t tile_number, std::size_t first, std::size_t end) {
    const MatchTile& tile = work_.tiles[tile_number];
    if (tile.postings == 0) return;
    const CpuBuffer& buffer = CpuBuffer::of(tile.bytes);
    const MatchTileView view(tile, buffer.data());
    const KnownTile& known = buffer.derived().of<KnownTile>(view, tile.rows);
    if (!SlicedCounter::suits(end - first, tile.rows, results_.k())) {
      for (std::size_t q = first; q < end; ++q) count_one(tile, view, known.lists, q);
      return;
    }
    for (const std::size_t q : many_.count(tile, view, known.columns(view), first, end)) {
      count_one(tile, view, known.lists, q);
    }
  }

 private:
  void count_one(const MatchTile& tile, const MatchTileView& view, const LongLists& lists,
                 std::size_t q) {
    loop_.check(thread_);
    one_.count(tile, view, lists, q);
  }

  const MatchWork& work_;
  MatchResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  Counter one_;
  SlicedCounter many_;
};

}  // namespace

void search_match(const MatchWork& work, compute::HitTable& best) {
  if (best.k() == 0 || work.queries() == 0) return;
  std::size_t rows = 0;
  for (const MatchTile& tile : work.tiles) rows += tile.rows;
  count_tiles<TileCounter>(work, rows * work.queries() / kThreadRows + 1, best);
}

}  // namespace warplite::cpu
