#include "engine/text/text_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "compute/host/parallel.h"
#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"
#include "engine/match/tile_search.h"
#include "engine/residency/common_cancellation.h"
#include "engine/table/parts.h"
#include "engine/text/text_tiles.h"
#include "index/text/keyword_hash.h"

namespace warplite::engine {
namespace {

// Queries as devices take them.
struct Items {
  std::vector<std::uint32_t> begins{0};
  std::vector<compute::MatchItem> items;
  std::vector<bool> hashed;  // by query: counts may be too high, once in 2⁶³

  Items(const index::TextIndex& index, std::span<const std::string_view> queries) {
    index::TextEncoder encoder(index);
    std::vector<compute::Keyword> keywords;
    for (const std::string_view query : queries) {
      encoder.encode(query, keywords);
      add(keywords);
      begins.push_back(static_cast<std::uint32_t>(items.size()));
      hashed.push_back(std::any_of(keywords.begin(), keywords.end(), index::is_hashed));
    }
  }

 private:
  void add(const std::vector<compute::Keyword>& keywords) {
    const std::size_t size = items.size() + keywords.size();
    if (size > items.capacity()) items.reserve(std::max(size, 2 * items.capacity()));
    SparsePoll poll;
    for (const compute::Keyword keyword : keywords) {
      poll();
      items.push_back({keyword, keyword, 1});
    }
  }
};

// Returns how many live rows of the part have a keyword.
std::uint32_t rows_with(const Tile& tile, const Part& part, compute::Keyword keyword) {
  const auto at = compute::TileLayout::of(tile.keywords, tile.postings);
  const std::byte* const bytes = tile.memory().data();
  const auto* keys = reinterpret_cast<const compute::Keyword*>(bytes + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* rows = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  const auto* found = std::lower_bound(keys, keys + tile.keywords, keyword);
  if (found == keys + tile.keywords || *found != keyword) return 0;
  const std::uint32_t begin = begins[found - keys], end = begins[found - keys + 1];
  if (part.live_rows() == part.rows()) return end - begin;
  return static_cast<std::uint32_t>(
      std::count_if(rows + begin, rows + end, [&](std::uint16_t row) { return is_alive(part, row); }));
}

// Gives items the weights of request.by_rarity. Dead rows do not count: which of them a part still has depends
// on when it was loaded.
void weigh(const View& view, const TextRequest& request, const TileMaker& maker,
           std::vector<compute::MatchItem>& items) {
  std::vector<std::uint32_t> parts;
  std::uint64_t rows = 0;
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    if (view.part(i).live_rows() != 0) parts.push_back(i);
    rows += view.part(i).live_rows();
  }
  std::vector<std::uint64_t> having(items.size());
  for_tiles(view, maker, parts, request.cancellation, [&](const std::vector<Tile>& tiles) {
    for (const Tile& tile : tiles) {
      const Part& part = view.part(tile.part);
      SparsePoll poll(4096);
      for (std::size_t i = 0; i < having.size(); ++i) {
        poll();
        having[i] += rows_with(tile, part, items[i].low);
      }
    }
  });
  for (std::size_t i = 0; i < having.size(); ++i) {
    const double rarity = static_cast<double>(rows) /
                          static_cast<double>(std::max<std::uint64_t>(having[i], 1));
    items[i].weight = static_cast<std::uint32_t>(std::lround(kWeightUnit * std::log1p(rarity)));
  }
}

void poll(const TextRequest& request) {
  if (request.cancellation != nullptr && request.cancellation->requested()) {
    throw Error(ErrorKind::kInterrupted, "interrupted");
  }
}

// Counts the hits of some queries anew, from the texts themselves, part by part on all threads.
class Recount {
 public:
  Recount(const View& view, const TextRequest& request, std::span<const std::string_view> queries)
      : view_(view), request_(request), queries_(queries), cancellation_(request.cancellation),
        hits_(view.parts()), wrong_(queries.size()) {}

  void add(std::size_t query, std::span<const Hit> hits) {
    for (const Hit& hit : hits) hits_[hit.block].push_back({query, hit});
  }
  // Returns, by query, whether a count was too high.
  const std::vector<std::atomic<bool>>& run() {
    for (std::size_t part = 0; part < hits_.size(); ++part) {
      if (!hits_[part].empty()) count(*view_.part(part).plain(request_.column), hits_[part]);
    }
    return wrong_;
  }

 private:
  struct Counted {
    std::size_t query;
    Hit hit;
  };

  void count(const Column& texts, const std::vector<Counted>& hits) {
    constexpr std::size_t kGrain = 32;
    compute::in_parallel(hits.size(), kGrain, hits.size() / kGrain,
                         [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        if (cancellation_.requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
        const auto& [query, hit] = hits[i];
        const std::uint32_t count =
            index::common_keywords(request_.index, texts.text(hit.row), queries_[query]);
        if (count != -hit.distance) wrong_[query] = true;
      }
    });
  }

  const View& view_;
  const TextRequest& request_;
  const std::span<const std::string_view> queries_;
  CommonCancellation cancellation_;
  std::vector<std::vector<Counted>> hits_;  // by part
  std::vector<std::atomic<bool>> wrong_;
};

// The counts of a query whose keywords may be mistaken for others, from the texts themselves.
void count_texts(const View& view, const Selection& rows, const TextRequest& request,
                 std::string_view query, TopK& best) {
  best = TopK(best.k());
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    const Selection::Rows& selected = rows.part(i);
    const auto texts = selected.count == 0 ? nullptr : view.part(i).plain(request.column);
    if (texts == nullptr) continue;
    const RowIdView rowids = view.part(i).rowids();
    for (std::uint32_t row = 0; row < view.part(i).rows(); ++row) {
      if ((!selected.all && !selected.bits.test(row)) || texts->is_null(row)) continue;
      if (row % 64 == 0) poll(request);
      const auto count = index::common_keywords(request.index, texts->text(row), query);
      if (count != 0) best.push({-static_cast<double>(count), rowids[row], i, row});
    }
  }
}

}  // namespace

compute::HitTable most_common(const View& view, const Selection& rows, const TextRequest& request,
                              std::span<const std::string_view> queries, std::size_t k) {
  return nearest_present(view, rows, [&](const Selection& some) {
    return candidates(view, some, request, queries, k);
  });
}

compute::HitTable candidates(const View& view, const Selection& rows, const TextRequest& request,
                             std::span<const std::string_view> queries, std::size_t k) {
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  if (k == 0 || queries.empty()) return compute::HitTable(queries.size(), k);
  // A query meets a small share of the postings, those of its own keywords.
  constexpr double kShare = 1.0 / 64;
  Items asked(request.index, queries);
  const TextTileMaker maker(view, request.column, request.index);
  if (request.by_rarity) weigh(view, request, maker, asked.items);
  compute::HitTable best(queries.size(), k);
  search_tiles(view, rows, maker,
               {request.device, asked.begins, asked.items, kShare, request.cancellation}, best);
  if (request.by_rarity) return best;
  // A count is never too low: when those of the best are right, no other row comes before them.
  Recount recount(view, request, queries);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (asked.hashed[i]) recount.add(i, best.sorted(i));
  }
  const std::vector<std::atomic<bool>>& wrong = recount.run();
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (wrong[i]) count_texts(view, rows, request, queries[i], best.row(i));
  }
  return best;
}

}  // namespace warplite::engine
