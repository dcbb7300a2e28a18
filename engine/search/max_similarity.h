// Late interaction (ColBERT; Khattab and Zaharia, SIGIR 2020): a document is several rows, those of one
// value in a column, and a query several vectors. Its score is the sum, over the query's vectors, of
// the similarity to that row of the document which is nearest to it. Similarity is 1 − distance
// under cosine, and minus the distance under every other one: the inner product under ip.
// Threads: as the view's connection.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/value.h"
#include "engine/search/search.h"

namespace warplite::engine {

struct DocumentRequest {
  std::size_t column = 0;  // names the document: index into Layout::plains. Rows where it is NULL are none's
  std::size_t k = 0;
  // Each of the query's vectors nominates the documents of so many rows, those nearest to it, and
  // these are scored. None: every document is, unless the search is through an index that learns,
  // which then nominates by a number that k tells.
  std::optional<std::size_t> candidates;
  std::optional<std::vector<Value>> documents;  // those that are scored, and no others
};

struct ScoredDocument {
  Value document;
  double score;
};

// The k documents of the highest scores, ties in the order of their names (numbers by value, texts
// by bytes). Of each document the selected rows count, as far as they have a vector: a document
// without any is not returned. `search` says the column, the distance and the query's vectors, and
// how documents are nominated.
std::vector<ScoredDocument> most_similar(const View& view, const Selection& rows,
                                         const index::Index& index, const SearchRequest& search,
                                         const DocumentRequest& request);

}  // namespace warplite::engine
