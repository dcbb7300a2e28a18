// Match counts over the plain columns of a table (papers/genie-2018 §II, §V-C): how many items of
// a query a row matches, each item being a set of values of one column. No index is kept: column
// blocks are dense, and reading one is as fast as reading the postings of a wide range.
//
// Each item becomes a bitmap of the rows that match it, made by the loops of filters; equal items
// of several queries share one. Bitmaps are summed by bit_planes.h. Results are exact, in the
// order (-count, rowid), whatever the number of threads.
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
#include "engine/filter.h"
#include "engine/view.h"

namespace warplite::engine {

struct RelationalItem {
  // A row matches when it passes one of these; the predicates of each are on one column.
  std::vector<Filter> any_of;
  std::uint32_t weight = 1;  // what a match counts
};
using RelationalQuery = std::vector<RelationalItem>;

// What a row counts that matches everything.
std::uint64_t total_weight(const RelationalQuery& query);

// A device that a query insists on ("" and "auto": none) has to be the CPU, which does the
// counting. Throws Error{kUnsupported}.
void check_counting_device(const std::string& name);

// Counts that are returned. Rows that match nothing never are.
struct CountRange {
  std::uint64_t low = 1;
  std::uint64_t high = std::numeric_limits<std::uint64_t>::max();

  friend bool operator==(const CountRange&, const CountRange&) = default;
};

// The k selected rows of each query that count most, as hits at distance -count.
// `cancellation` may be null.
compute::HitTable most_matches(const View& view, const Selection& rows,
                               std::span<const RelationalQuery> queries, std::size_t k,
                               const CountRange& range, compute::Cancellation* cancellation);

// Every selected row of one query, unordered; with `after`, those that come after it.
std::vector<Hit> all_matches(const View& view, const Selection& rows, const RelationalQuery& query,
                             const CountRange& range, const std::optional<Hit>& after,
                             compute::Cancellation* cancellation);

}  // namespace warplite::engine
