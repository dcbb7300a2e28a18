#include "engine/text_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/text_tiles.h"
#include "engine/tile_search.h"
#include "index/keyword_hash.h"

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
      for (const compute::Keyword keyword : keywords) items.push_back({keyword, keyword, 1});
      begins.push_back(static_cast<std::uint32_t>(items.size()));
      hashed.push_back(std::any_of(keywords.begin(), keywords.end(), index::is_hashed));
    }
  }
};

// How many rows of a tile have a keyword.
std::uint32_t rows_with(const Tile& tile, compute::Keyword keyword) {
  const auto at = compute::TileLayout::of(tile.keywords, tile.postings);
  const std::byte* const bytes = tile.memory().data();
  const auto* keys = reinterpret_cast<const compute::Keyword*>(bytes + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* found = std::lower_bound(keys, keys + tile.keywords, keyword);
  if (found == keys + tile.keywords || *found != keyword) return 0;
  return begins[found - keys + 1] - begins[found - keys];
}

// Gives items the weights of request.by_rarity.
void weigh(const View& view, const TextRequest& request, const TileMaker& maker,
           std::vector<compute::MatchItem>& items) {
  std::vector<std::uint32_t> parts;
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    if (view.part(i).live_rows() != 0) parts.push_back(i);
  }
  std::vector<std::uint64_t> having(items.size());
  std::uint64_t rows = 0;
  for_tiles(view, maker, parts, request.cancellation, [&](const std::vector<Tile>& tiles) {
    for (const Tile& tile : tiles) {
      rows += view.part(tile.part).rows();
      for (std::size_t i = 0; i < having.size(); ++i) having[i] += rows_with(tile, items[i].low);
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

std::uint32_t true_count(const View& view, const TextRequest& request, const Hit& hit,
                         std::string_view query) {
  poll(request);
  const auto texts = view.part(hit.block).plain(request.column);
  return index::common_keywords(request.index, texts->text(hit.row), query);
}

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
  k = static_cast<std::size_t>(std::min<std::uint64_t>(k, rows.count()));
  if (k == 0 || queries.empty()) return compute::HitTable(queries.size(), k);
  // Of the postings a query meets a few, those of its own keywords.
  constexpr double kShare = 1.0 / 64;
  Items asked(request.index, queries);
  const TextTileMaker maker(request.column, request.index);
  if (request.by_rarity) weigh(view, request, maker, asked.items);
  compute::HitTable best(queries.size(), k);
  search_tiles(view, rows, maker,
               {request.device, asked.begins, asked.items, kShare, request.cancellation}, best);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (!asked.hashed[i] || request.by_rarity) continue;
    const std::vector<Hit>& hits = best.sorted(i);
    // A count is never too low: when those of the best are right, no other row comes before them.
    const bool right = std::all_of(hits.begin(), hits.end(), [&](const Hit& hit) {
      return -hit.distance == true_count(view, request, hit, queries[i]);
    });
    if (!right) count_texts(view, rows, request, queries[i], best.row(i));
  }
  return best;
}

}  // namespace warplite::engine
