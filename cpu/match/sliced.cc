#include "cpu/match/sliced.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>

namespace warplite::cpu {
namespace {

using compute::MatchTile;

constexpr std::size_t kMostNumbers = 65536;
constexpr std::uint64_t kMostCount = 255;
// Queries of a batch: their bitmaps of keywords stay in a cache that threads share.
constexpr std::size_t kBatch = 1024;
constexpr std::size_t kFewQueries = 64, kFewRows = 1024;
// The largest k for which slices are used, since what is found is kept until a tile is done.
constexpr std::size_t kMostWanted = 1024;
// Rows that are tabulated together, and that are counted between two looks at the floors.
constexpr std::uint32_t kTabulated = 16384, kCounted = 512;
// The table has all columns of kCounted rows, then those of the next: few pages at a time. Columns
// are that far apart that the same row of all of them fits into the first-level cache.
constexpr std::size_t kStride = kCounted + 32;

// Costs in ns (bench/kernels/NOTES.md): a posting added for a query; a place of the table, once,
// and for each vector of queries.
constexpr double kAdded = 0.5, kTabulatedOnce = 1.0, kSlicedOnce = 1.0;
constexpr std::size_t kSampled = 16;  // queries that tell of the others
// Lists that are fetched before they are read.
constexpr std::uint32_t kFetchedAhead = 4;

bool is_ascending(const RowIdView& rowids, std::uint32_t rows) {
  return rowids.list == nullptr ||
         std::is_sorted(rowids.list, rowids.list + rows, std::less_equal<RowId>());
}

}  // namespace

SlicedCounter::SlicedCounter(const compute::MatchWork& work, MatchResults& results, ItemLoop& loop,
                             unsigned thread)
    : work_(work), results_(results), loop_(loop), thread_(thread),
      kernels_(sliced_kernels()), block_queries_(8 * kernels_.bytes) {}

bool SlicedCounter::suits(std::size_t queries, std::uint32_t rows, std::size_t k) {
  return queries >= kFewQueries && rows >= kFewRows && k <= kMostWanted;
}

const std::vector<std::size_t>& SlicedCounter::count(const MatchTile& tile,
                                                     const MatchTileView& view,
                                                     const MatchColumns& columns,
                                                     std::size_t first, std::size_t end) {
  const Tile at{tile, view, columns};
  left_.clear();
  for (; first < end; first += kBatch) {
    const std::size_t last = std::min(first + kBatch, end);
    if (worthwhile(at, first, last)) {
      count_batch(at, first, last);
    } else {
      for (std::size_t q = first; q < last; ++q) left_.push_back(q);
    }
  }
  return left_;
}

bool SlicedCounter::worthwhile(const Tile& at, std::size_t first, std::size_t end) {
  const std::size_t queries = end - first;
  if (queries < kFewQueries || at.columns.columns() == 0) return false;
  // A long list is a bitmap, and then costs as much as a list of one row in 100.
  const std::uint32_t most = std::max(at.tile.rows / 100, 64u);
  double met = 0;
  std::size_t sampled = 0;
  for (std::size_t q = first; q < end; q += std::max<std::size_t>(queries / kSampled, 1)) {
    lists_.find(at.view, work_.items.subspan(work_.begins[q], work_.begins[q + 1] - work_.begins[q]),
                [this] { loop_.check(thread_); });
    for (const MatchLists::Met& some : lists_.met()) {
      met += std::min(at.view.begin(some.end) - at.view.begin(some.first), most);
    }
    ++sampled;
  }
  const double places = static_cast<double>(at.columns.columns()) * at.tile.rows;
  const double blocks = static_cast<double>((queries + block_queries_ - 1) / block_queries_);
  return met / static_cast<double>(sampled) * static_cast<double>(queries) * kAdded >
         places * (kTabulatedOnce + kSlicedOnce * blocks);
}

void SlicedCounter::count_batch(const Tile& at, std::size_t first, std::size_t end) {
  if (!ask(at, first, end)) {
    for (std::size_t q = first; q < end; ++q) left_.push_back(q);
    return;
  }
  rowids_ = at.tile.rowids;
  ascending_ = is_ascending(rowids_, at.tile.rows);
  for (Asked& asked : asked_) {
    const Bar bar = results_.bar(asked.query);
    asked.floor = bar.floor;
    // Ties come too late where rowids ascend.
    if (ascending_ && at.tile.rowids[0] > bar.last) ++asked.floor;
  }
  fill_masks();
  cursors_.resize(at.view.keywords());
  for (std::uint32_t i = 0; i < at.view.keywords(); ++i) cursors_[i] = at.view.begin(i);
  const std::size_t blocks = (asked_.size() + block_queries_ - 1) / block_queries_;
  for (std::uint32_t row = 0; row < at.tile.rows; row += kTabulated) {
    const std::uint32_t last = std::min(row + kTabulated, at.tile.rows);
    tabulate(at, row, last);
    for (std::size_t block = 0; block < blocks; ++block) count_rows(at, row, last, block);
  }
  finish(at.tile);
}

// Sets asked_, wants_ and the numbers of keywords. False: those are too many.
bool SlicedCounter::ask(const Tile& at, std::size_t first, std::size_t end) {
  asked_.clear();
  wants_.clear();
  number_of_.assign(at.view.keywords(), 0);
  keys_.fill(at.view);
  const std::size_t left = left_.size();
  for (std::size_t q = first; q < end; ++q) {
    loop_.check(thread_);
    const std::size_t wants = wants_.size();
    const std::uint64_t bound = find(at, q);
    if (bound <= kMostCount) {
      asked_.push_back({q, 0});
      continue;
    }
    wants_.resize(wants);
    left_.push_back(q);
  }
  if (number_keywords()) return true;
  left_.resize(left);
  return false;
}

// Adds what a query wants. Returns what no row counts more than; where weights are not 1, too much.
std::uint64_t SlicedCounter::find(const Tile& at, std::size_t q) {
  const auto place = static_cast<std::uint32_t>(asked_.size());
  const std::size_t begin = work_.begins[q];
  const auto items = work_.items.subspan(begin, work_.begins[q + 1] - begin);
  std::uint64_t bound = 0;
  bool weighted = false;
  const auto want = [&](std::uint32_t first, std::uint32_t end) {
    if (first < end) wants_.push_back({place, first, end});
    bound += first < end ? end - first : 0;
  };
  for (const compute::MatchItem& item : items) {
    weighted = weighted || item.weight != 1;
    if (item.low == item.high) {
      const std::uint32_t keyword = keys_.find(at.view, item.low);
      want(keyword, keyword == at.view.keywords() ? keyword : keyword + 1);
      continue;
    }
    lists_.find(at.view, {&item, 1}, {});
    for (const MatchLists::Met& some : lists_.met()) want(some.first, some.end);
  }
  return weighted ? kMostCount + 1 : bound;
}

bool SlicedCounter::number_keywords() {
  for (const Want& want : wants_) {
    std::fill(number_of_.begin() + want.first, number_of_.begin() + want.end, std::uint16_t{1});
  }
  numbers_ = 1;
  for (std::uint16_t& number : number_of_) {
    if (number == 0) continue;
    if (numbers_ == kMostNumbers) return false;
    number = static_cast<std::uint16_t>(numbers_++);
  }
  return true;
}

void SlicedCounter::fill_masks() {
  const std::size_t blocks = (asked_.size() + block_queries_ - 1) / block_queries_;
  masks_.assign(blocks * numbers_ * kernels_.bytes, 0);
  for (const Want& want : wants_) {
    const std::size_t block = want.place / block_queries_, bit = want.place % block_queries_;
    for (std::uint32_t keyword = want.first; keyword < want.end; ++keyword) {
      const std::size_t at = (block * numbers_ + number_of_[keyword]) * kernels_.bytes;
      const auto mask = static_cast<std::uint8_t>(1u << (bit % 8));
      // A keyword that two items of a query want counts twice, which one bit does not say.
      if ((masks_[at + bit / 8] & mask) != 0) asked_[want.place].open = false;
      masks_[at + bit / 8] |= mask;
    }
  }
  reached_.assign(asked_.size() * (kMostCount + 1), 0);
  for (const Asked& asked : asked_) {
    if (!asked.open) left_.push_back(asked.query);
  }
}

// Makes the table of the rows [first, end).
void SlicedCounter::tabulate(const Tile& at, std::uint32_t first, std::uint32_t end) {
  const std::vector<std::uint32_t>& begins = at.columns.begins();
  const std::size_t block = at.columns.columns() * kStride;  // of kCounted rows
  table_.assign((end - first + kCounted - 1) / kCounted * block, 0);
  for (std::uint32_t column = 0; column < at.columns.columns(); ++column) {
    if (column % 64 == 0) loop_.check(thread_);
    std::uint16_t* const table = table_.data() + column * kStride;
    for (std::uint32_t keyword = begins[column]; keyword < begins[column + 1]; ++keyword) {
      const std::uint32_t last = at.view.begin(keyword + 1);
      const std::uint16_t number = number_of_[keyword];
      std::uint32_t p = cursors_[keyword];
      if (keyword + kFetchedAhead < at.view.keywords()) {
        const std::uint16_t* const next = at.view.rows() + cursors_[keyword + kFetchedAhead];
        __builtin_prefetch(next);
        __builtin_prefetch(next + 32);
      }
      const auto place = [&](std::uint32_t posting) {
        const std::uint32_t row = at.view.rows()[posting] - first;
        table[row / kCounted * block + row % kCounted] = number;
      };
      for (; p + 4 <= last && at.view.rows()[p + 3] < end; p += 4) {
        for (std::uint32_t i = 0; i < 4; ++i) place(p + i);
      }
      for (; p < last && at.view.rows()[p] < end; ++p) place(p);
      cursors_[keyword] = p;
    }
  }
}

void SlicedCounter::count_rows(const Tile& at, std::uint32_t first, std::uint32_t end,
                               std::size_t block) {
  const MatchTile& tile = at.tile;
  const std::size_t sums = kCountPlanes * kernels_.bytes, stride = sums + kernels_.bytes;
  sums_.resize(kCounted * sums);
  counts_.resize(kCounted * stride);
  found_.resize(kCounted);
  for (std::uint32_t row = first; row < end; row += kCounted) {
    loop_.check(thread_);
    set_floors(block);
    SlicedRows some;
    some.numbers = table_.data() + (row - first) / kCounted * at.columns.columns() * kStride;
    some.stride = kStride;
    some.columns = at.columns.columns();
    some.rows = std::min(kCounted, end - row);
    some.masks = masks_.data() + block * numbers_ * kernels_.bytes;
    some.floors = floors_.data();
    some.asking = asking_.data();
    some.sums = sums_.data();
    const std::size_t found = kernels_.count(some, found_.data(), counts_.data());
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t place = row + found_[i];
      if (tile.live != nullptr && ((tile.live[place / 64] >> (place % 64)) & 1) == 0) continue;
      take(counts_.data() + i * stride, place, block);
    }
  }
}

// Floors as planes, of the queries of a block.
void SlicedCounter::set_floors(std::size_t block) {
  floors_.assign(kCountPlanes * kernels_.bytes, 0);
  asking_.assign(kernels_.bytes, 0);
  const std::size_t first = block * block_queries_;
  const std::size_t queries = std::min(block_queries_, asked_.size() - first);
  for (std::size_t i = 0; i < queries; ++i) {
    const Asked& asked = asked_[first + i];
    if (!asked.open || asked.floor > kMostCount) continue;
    asking_[i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
    for (unsigned p = 0; p < kCountPlanes; ++p) {
      const auto bit = static_cast<std::uint8_t>((asked.floor >> p & 1) << (i % 8));
      floors_[p * kernels_.bytes + i / 8] |= bit;
    }
  }
}

// Takes a row's counts for the queries that it is of use to.
void SlicedCounter::take(const std::uint8_t* counts, std::uint32_t row, std::size_t block) {
  const std::size_t bytes = kernels_.bytes;
  Asked* const asked = asked_.data() + block * block_queries_;
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::size_t size = std::min(sizeof(std::uint64_t), bytes - at);
    std::uint64_t bits = 0;
    std::memcpy(&bits, counts + at, size);
    if (bits == 0) continue;
    std::uint64_t planes[kCountPlanes] = {};
    for (std::size_t p = 0; p < kCountPlanes; ++p) {
      std::memcpy(&planes[p], counts + (1 + p) * bytes + at, size);
    }
    for (; bits != 0; bits &= bits - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(bits));
      std::uint64_t count = 0;
      for (std::size_t p = 0; p < kCountPlanes; ++p) count |= (planes[p] >> bit & 1) << p;
      take(asked[8 * at + bit], row, static_cast<std::uint32_t>(count));
    }
  }
}

// The paper's ZipperArray and AuditThreshold (papers/genie-2018 §III-B): when k rows count as much as
// the floor, a later one has to count more, or as much where rowids do not ascend.
void SlicedCounter::take(Asked& asked, std::uint32_t row, std::uint32_t count) {
  if (count < asked.floor) return;
  if (!ascending_ && asked.found.size() >= 2 * std::max(results_.k(), kMostWanted)) cut(asked);
  asked.found.push_back({static_cast<std::uint16_t>(row), static_cast<std::uint8_t>(count)});
  const auto place = static_cast<std::size_t>(&asked - asked_.data());
  std::uint32_t* const reached = reached_.data() + place * (kMostCount + 1);
  ++reached[count];
  ++asked.reached;
  const std::size_t k = results_.k();
  while (asked.floor <= kMostCount) {
    const std::size_t more = asked.reached - reached[asked.floor];
    if ((ascending_ ? asked.reached : more) < k) break;
    asked.reached = more;
    ++asked.floor;
  }
}

// Leaves what can be among the k best: of rows that count the same, those with the least rowids.
void SlicedCounter::cut(Asked& asked) const {
  const auto kth = asked.found.begin() + static_cast<std::ptrdiff_t>(results_.k());
  std::nth_element(asked.found.begin(), kth, asked.found.end(),
                   [&](const Found& a, const Found& b) {
                     if (a.count != b.count) return a.count > b.count;
                     return rowids_[a.row] < rowids_[b.row];
                   });
  asked.found.erase(kth, asked.found.end());
}

void SlicedCounter::finish(const MatchTile& tile) {
  for (const Asked& asked : asked_) {
    loop_.check(thread_);
    if (!asked.open) continue;
    // Rows that equal a floor of k rows came before it rose.
    const std::uint32_t least = ascending_ && asked.floor > 0 ? asked.floor - 1 : asked.floor;
    results_.add(asked.query, tile, asked.found.size(), [&](std::size_t i) {
      const Found& found = asked.found[i];
      return RowCount{found.row, found.count < least ? 0 : std::uint32_t{found.count}};
    }, 0);
  }
}

}  // namespace warplite::cpu
