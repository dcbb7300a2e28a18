#include "engine/match/match_count.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "compute/device.h"
#include "compute/host/parallel.h"
#include "engine/filter/content_hits.h"
#include "engine/match/bit_planes.h"
#include "engine/match/code_search.h"
#include "engine/match/item_masks.h"

namespace warplite::engine {
namespace {

using Word = std::uint64_t;

// Items whose bitmaps are there at a time: of large parts, they take 16 MB.
constexpr std::size_t kItemsAtOnce = 2048;
// Words of bitmaps to be summed that take as long as it takes to wake a thread.
constexpr std::size_t kWordsPerThread = 65536;

// A query's items by their numbers in an ItemSet.
struct NumberedItem {
  std::uint32_t item;
  std::uint32_t weight;
};
using NumberedQuery = std::vector<NumberedItem>;

// Counts the rows of parts, one query and part after another. One for each thread.
class RowCounter {
 public:
  // Adds the hits of a part that are among the best.
  void add_best(const MaskedPart& part, const NumberedQuery& query, const CountRange& range,
                TopK& best) {
    const double bound = -best.threshold();
    const std::uint64_t least =
        bound > static_cast<double>(range.low) ? static_cast<std::uint64_t>(bound) : range.low;
    const std::size_t found = find(part, query, {least, range.high});
    const auto push = [&](const Hit& hit) { best.push(hit); };
    if (found <= best.k()) return each(part, rows_, found, push);
    const BitPlanes::Largest largest = planes_.largest(best.k(), rows_.data(), ties_.data());
    each(part, rows_, largest.more, push);
    const std::size_t rest = best.k() - largest.more;
    each(part, ties_, part.ascending ? rest : part.rows, push);
  }

  template <typename Take>
  void add_all(const MaskedPart& part, const NumberedQuery& query, const CountRange& range,
               const Take& take) {
    each(part, rows_, find(part, query, range), take);
  }

 private:
  // Sets rows_ to the rows in the range, and returns how many they are.
  std::size_t find(const MaskedPart& part, const NumberedQuery& query, const CountRange& range) {
    std::uint64_t most = 0;
    addends_.clear();
    for (const NumberedItem& item : query) {
      if (part.items[item.item] == nullptr) continue;
      addends_.push_back({part.items[item.item], item.weight});
      most += item.weight;
    }
    if (most < range.low || range.low > range.high) return 0;
    planes_.sum(addends_, part.words);
    rows_.resize(part.words);
    ties_.resize(part.words);
    std::size_t found = planes_.at_least(range.low, rows_.data());
    if (range.high < most) {
      found -= planes_.at_least(range.high + 1, ties_.data());
      for (std::size_t w = 0; w < part.words; ++w) rows_[w] &= ~ties_[w];
    }
    return found;
  }

  // The first `count` of some rows as hits.
  template <typename Take>
  void each(const MaskedPart& part, const std::vector<Word>& rows, std::size_t count,
            const Take& take) const {
    for (std::size_t w = 0; w < part.words && count != 0; ++w) {
      for (Word bits = rows[w]; bits != 0 && count != 0; bits &= bits - 1, --count) {
        const std::size_t row = w * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        take(Hit{-static_cast<double>(planes_.count(row)), part.rowids[row], part.part,
                 static_cast<std::uint32_t>(row)});
      }
    }
  }

  BitPlanes planes_;
  std::vector<BitPlanes::Addend> addends_;
  std::vector<Word> rows_;
  std::vector<Word> ties_;
};

// Goes through queries and parts, as many of either at a time as fit into memory.
class Counting {
 public:
  // Called once for each query and part, for different queries on any thread.
  using Visit = std::function<void(RowCounter&, std::size_t query, const NumberedQuery&,
                                   const MaskedPart&)>;

  // `but`: parts to leave out.
  Counting(const View& view, const Selection& rows, std::span<const RelationalQuery> queries,
           std::vector<bool> but, compute::Cancellation* cancellation)
      : view_(view), rows_(rows), queries_(queries), but_(std::move(but)), poll_(cancellation) {}

  void run(const Visit& visit) {
    if (!anything()) return;
    for (std::size_t first = 0; first < queries_.size();) {
      ItemSet items(view_.layout());
      std::vector<NumberedQuery> some;
      for (; first + some.size() < queries_.size() && items.size() < kItemsAtOnce;) {
        poll_();
        some.push_back(number(items, queries_[first + some.size()]));
      }
      ItemMasks masks(view_, rows_, items, but_);
      while (masks.next(poll_)) count(masks.parts(), some, first, visit);
      first += some.size();
    }
  }

 private:
  bool anything() const {
    for (std::size_t i = 0; i < but_.size(); ++i) {
      if (!but_[i] && rows_.part(i).count != 0) return true;
    }
    return false;
  }
  static NumberedQuery number(ItemSet& items, const RelationalQuery& query) {
    NumberedQuery numbered;
    for (const RelationalItem& item : query) numbered.push_back({items.add(item), item.weight});
    return numbered;
  }

  void count(const std::vector<MaskedPart>& parts, const std::vector<NumberedQuery>& queries,
             std::size_t first_query, const Visit& visit) const {
    std::size_t words = 0;
    for (const MaskedPart& part : parts) words += part.words;
    std::size_t work = 0;
    for (const NumberedQuery& query : queries) work += query.size() * words;
    const std::size_t grain =
        queries.size() * (kWordsPerThread / 4) / std::max<std::size_t>(work, 1) + 1;
    compute::in_parallel(queries.size(), grain, work / kWordsPerThread,
                         [&](std::size_t first, std::size_t last) {
                           RowCounter counter;
                           for (std::size_t q = first; q < last; ++q) {
                             for (const MaskedPart& part : parts) {
                               poll_();
                               visit(counter, first_query + q, queries[q], part);
                             }
                           }
                         });
  }

  const View& view_;
  const Selection& rows_;
  std::span<const RelationalQuery> queries_;
  const std::vector<bool> but_;
  Poll poll_;
};

// Counts rows without asking whether they are still there.
compute::HitTable count_best(const View& view, const Selection& rows,
                             std::span<const RelationalQuery> queries, std::size_t k,
                             const CountRequest& request) {
  // More than there are rows would only cost memory.
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  compute::HitTable best(queries.size(), k);
  CodeSearch codes(view, rows, queries, request);
  if (k == 0) return best;
  if (codes.worthwhile()) codes.add_best(best);
  Counting(view, rows, queries, codes.counted(), request.cancellation)
      .run([&](RowCounter& counter, std::size_t q, const NumberedQuery& query,
               const MaskedPart& part) {
        counter.add_best(part, query, request.range, best.row(q));
      });
  return best;
}

}  // namespace

std::uint64_t total_weight(const RelationalQuery& query) {
  std::uint64_t total = 0;
  for (const RelationalItem& item : query) total += item.weight;
  return total;
}

compute::HitTable most_matches(const View& view, const Selection& rows,
                               std::span<const RelationalQuery> queries, std::size_t k,
                               const CountRequest& request) {
  return nearest_present(view, rows, [&](const Selection& some) {
    return count_best(view, some, queries, k, request);
  });
}

std::vector<Hit> all_matches(const View& view, const Selection& rows, const RelationalQuery& query,
                             const CountRange& range, const std::optional<Hit>& after,
                             compute::Cancellation* cancellation) {
  std::vector<Hit> hits;
  const auto take = [&](const Hit& hit) {
    if (!after || *after < hit) hits.push_back(hit);
  };
  Counting(view, rows, {&query, 1}, std::vector<bool>(view.parts()), cancellation)
      .run([&](RowCounter& counter, std::size_t, const NumberedQuery& numbered,
               const MaskedPart& part) { counter.add_all(part, numbered, range, take); });
  return hits;
}

}  // namespace warplite::engine
