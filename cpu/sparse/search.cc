#include "cpu/sparse/search.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "compute/device.h"
#include "compute/metric.h"
#include "compute/sparse/results.h"
#include "cpu/runtime/item_loop.h"
#include "cpu/sparse/postings.h"

namespace warplite::cpu {
namespace {

using compute::SparseResults;
using compute::SparseTile;
using compute::SparseWork;

// Rows that a thread compares at a time.
constexpr std::uint32_t kSpan = 4096;
// Waking a thread costs about as much as to compare so many values.
constexpr std::size_t kThreadValues = 1024;
// As long as it takes to search a tile by postings so many values are compared.
constexpr std::uint32_t kFewRows = 256;

// Of a thread: the last ones of all end nearly at once.
constexpr std::size_t kTurns = 4;

// What a thread takes: a tile by postings for one query, or a span of rows for all.
struct Item {
  const SparseTile* tile;
  std::uint32_t begin, end;  // rows; none: by postings
  std::size_t query;
};

// A thread's part.
class Searcher {
 public:
  Searcher(const SparseWork& work, SparseResults& results, ItemLoop& loop, unsigned thread)
      : work_(work), results_(results), loop_(loop), thread_(thread),
        postings_(work, results, loop, thread) {}

  // `next`: items that whoever takes them searches after it.
  void search(const Item& item, std::span<const Item> next) {
    if (item.begin == item.end) {
      if (search_postings(item, next)) return;
      select(*item.tile, 0, item.tile->rows);
      return compare(*item.tile, item.query);
    }
    select(*item.tile, item.begin, item.end);
    for (std::size_t q = 0; q < work_.queries.size(); ++q) compare(*item.tile, q);
  }

 private:
  bool search_postings(const Item& item, std::span<const Item> next) {
    std::array<PostingSearch::Upcoming, PostingSearch::kAhead> upcoming;
    std::size_t n = 0;
    for (const Item& soon : next.first(std::min(next.size(), upcoming.size()))) {
      if (soon.begin == soon.end) upcoming[n++] = {soon.tile, soon.query};
    }
    return postings_.search(*item.tile, item.query, std::span(upcoming).first(n));
  }

  void select(const SparseTile& tile, std::uint32_t begin, std::uint32_t end) {
    rows_.clear();
    for (std::uint32_t row = begin; row < end; ++row) {
      if (tile.takes_part(row)) rows_.push_back(row);
    }
  }

  void compare(const SparseTile& tile, std::size_t q) {
    constexpr std::size_t kChecked = 64;  // rows between questions whether to go on
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (i % kChecked == 0) {
        loop_.check(thread_);
        add_hits(q, kSpan);
      }
      const std::uint32_t row = rows_[i];
      const double distance = work_.queries[q].distance(tile.values->text(row).data());
      if (distance > results_.limit(q)) continue;
      hits_.push_back({distance, tile.rowids[row], tile.id, row});
    }
    add_hits(q, 0);
    if (work_.counters != nullptr) work_.counters->distances += rows_.size();
  }

  void add_hits(std::size_t q, std::size_t least) {
    if (hits_.size() < least) return;
    results_.add(q, hits_);
    hits_.clear();
  }

  const SparseWork& work_;
  SparseResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  PostingSearch postings_;
  std::vector<std::uint32_t> rows_;
  std::vector<Hit> hits_;
};

// By postings first: what they find sets limits.
std::vector<Item> items_of(const SparseWork& work) {
  std::vector<Item> items;
  const auto by_postings = [](const SparseTile& tile) {
    return tile.postings != nullptr && tile.live_rows >= kFewRows;
  };
  for (const SparseTile& tile : work.tiles) {
    for (std::size_t q = 0; by_postings(tile) && q < work.queries.size(); ++q) {
      items.push_back({&tile, 0, 0, q});
    }
  }
  for (const SparseTile& tile : work.tiles) {
    for (std::uint32_t row = 0; !by_postings(tile) && row < tile.rows; row += kSpan) {
      items.push_back({&tile, row, std::min(row + kSpan, tile.rows), 0});
    }
  }
  return items;
}

void search(const SparseWork& work, SparseResults& results) {
  const std::vector<Item> items = items_of(work);
  if (items.empty()) return;
  std::size_t values = 0;  // that take as long to compare as the search does
  for (const Item& item : items) {
    values += item.begin == item.end ? kFewRows : (item.end - item.begin) * work.queries.size();
  }
  ItemLoop loop(work.cancellation);
  const unsigned threads = loop.begin_with_meanwhile(static_cast<unsigned>(std::min<std::size_t>(
      {compute::thread_count(), values / kThreadValues + 1, items.size()})));
  // A thread takes some that follow one another, since it asks for the memory of the next ones: that of
  // another thread's items would go to the wrong cache.
  const std::size_t together = (items.size() - 1) / (kTurns * threads) + 1;
  std::vector<std::unique_ptr<Searcher>> searchers(threads);
  loop.run(threads, (items.size() - 1) / together + 1, [&](unsigned thread, std::size_t turn) {
    auto& searcher = searchers[thread];
    if (searcher == nullptr) searcher = std::make_unique<Searcher>(work, results, loop, thread);
    const auto rest = std::span(items).subspan(turn * together);
    for (std::size_t i = 0; i < std::min(together, rest.size()); ++i) {
      searcher->search(rest[i], rest.subspan(i + 1));
    }
  });
}

}  // namespace

void search_sparse_nearest(const SparseWork& work, compute::HitTable& best) {
  if (best.k() == 0 || work.queries.empty() || work.tiles.empty()) return;
  SparseResults results(work, best);
  search(work, results);
}

void search_sparse_within(const SparseWork& work, compute::HitLists& out) {
  if (work.queries.empty() || work.tiles.empty()) return;
  SparseResults results(work, out);
  search(work, results);
}

}  // namespace warplite::cpu
