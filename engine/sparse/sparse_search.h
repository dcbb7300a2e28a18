// Searches of sparse vectors (compute/sparse.h): the nearest rows, and all within a range, exact.
// Segments are searched by postings, which are made when they are first asked for; rows that are
// not sealed, and the few that a filter leaves of a segment, are compared one by one.
// Threads: as the view's connection.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "compute/sparse.h"
#include "engine/filter/filter.h"
#include "engine/search/search_report.h"
#include "engine/table/view.h"

namespace warplite::engine {

struct SparseRequest {
  std::size_t column = 0;           // index into Layout::plains, of a column of type kSparse
  std::string device;               // empty: the configured one
  DistanceRange range;
  bool exact = false;               // compare every row with its stored value
  compute::Cancellation* cancellation = nullptr;
  SearchReport* report = nullptr;   // added to; null: nobody asks
};

// The k nearest selected rows of each query that lie within the range. k may exceed the number of
// rows.
compute::HitTable nearest_sparse(const View& view, const Selection& rows,
                                 const SparseRequest& request,
                                 std::span<const compute::SparseQuery> queries, std::size_t k);
// All selected rows within the range, those alone that come after `after` in the order of results,
// unordered; of rows whether they are there or not (content_hits.h).
compute::HitLists sparse_within(const View& view, const Selection& rows,
                                const SparseRequest& request,
                                std::span<const compute::SparseQuery> queries,
                                const std::optional<Hit>& after = std::nullopt);

}  // namespace warplite::engine
