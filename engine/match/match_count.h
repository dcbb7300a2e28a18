// Match counts over the plain columns of a table (papers/genie-2018 §II, §V-C): how many items of
// a query a row matches, each item being a set of values of one column. No postings are kept:
// column blocks are dense, and reading one is as fast as reading the postings of a wide range.
//
// Either each item becomes a bitmap of the rows that match it, made by the loops of filters; equal
// items of several queries share one, and bitmaps are summed by bit_planes.h. Or rows are counted by
// the codes of their values (code_search.h), where those are worth it. Results are exact, in the
// order (-count, rowid), whatever the way, the device and the number of threads.
// Threads: as the connection; the work is shared among the threads of searches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/ops.h"
#include "engine/filter/filter.h"
#include "engine/match/item_set.h"
#include "engine/table/view.h"

namespace warplite::engine {

// Returns the count of a row that matches everything.
std::uint64_t total_weight(const RelationalQuery& query);

// Counts that are returned. Rows that match nothing never are.
struct CountRange {
  std::uint64_t low = 1;
  std::uint64_t high = std::numeric_limits<std::uint64_t>::max();

  friend bool operator==(const CountRange&, const CountRange&) = default;
};

struct CountRequest {
  CountRange range = {};
  std::string device = {};  // empty: the configured one
  compute::Cancellation* cancellation = nullptr;
};

// The k selected rows of each query that count most, as hits at distance -count.
compute::HitTable most_matches(const View& view, const Selection& rows,
                               std::span<const RelationalQuery> queries, std::size_t k,
                               const CountRequest& request);

// Every selected row of one query, unordered, whether it is there or not (content_hits.h); with
// `after`, those that come after it.
std::vector<Hit> all_matches(const View& view, const Selection& rows, const RelationalQuery& query,
                             const CountRange& range, const std::optional<Hit>& after,
                             compute::Cancellation* cancellation);

}  // namespace warplite::engine
