// Search of texts by edit distance, over ordered n-grams: rows that share most n-grams with the
// query are candidates, their distances are computed, and Theorem V.2 of papers/genie-2018 (§V-A)
// tells whether no other row can be nearer. Until it does there are more candidates, and at last
// every row; so the answer is exact unless the caller fixes how many there are.
// Distances are of Unicode code points, with case folded if the index says so.
// Threads: as the view's connection; distances are computed by all threads of searches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/text/text_search.h"

namespace warplite::engine {

struct Sequence {
  Hit hit;                                // at its edit distance
  std::uint32_t matches = kNotCounted;    // n-grams in common, where the search has counted them
};

struct Sequences {
  std::vector<Sequence> nearest;  // by (distance, rowid)
  bool certified = false;         // no row that is missing comes before one that is there
};

// The k selected rows nearest to each query. `candidates`: as many are compared, and no more.
// REQUIRES: request.index is of kind kNgram.
std::vector<Sequences> nearest_sequences(const View& view, const Selection& rows,
                                         const TextRequest& request,
                                         std::span<const std::string_view> queries, std::size_t k,
                                         std::optional<std::size_t> candidates = std::nullopt);

// Every selected row within the range, unordered, whether it is there or not (content_hits.h); with
// `after`, those that come after it.
std::vector<Hit> all_sequences(const View& view, const Selection& rows, const TextRequest& request,
                               std::string_view query, const DistanceRange& range,
                               const std::optional<Hit>& after = std::nullopt);

}  // namespace warplite::engine
