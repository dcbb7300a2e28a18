// Search of texts by edit distance, over all selected rows: by tiles on the device that is worth
// it, and one by one where there are few rows or long texts.
// Threads: as the view's connection.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/filter/filter.h"
#include "engine/search/search_report.h"
#include "engine/text/edit_tiles.h"

namespace warplite::engine {

struct EditRequest {
  EditColumn column;
  std::string device;   // empty: the configured one
  compute::Cancellation* cancellation = nullptr;
  DistanceRange range;  // hits outside are not returned
  // Builds the metric index of a column that has one; null: the column has none.
  std::shared_ptr<const compute::TextMetricBuilder> metric = nullptr;
  SearchReport* report = nullptr;  // added to; null: nobody asks
};

// Adds the selected rows nearest to each query, which is given by its characters, to `best`, whose
// thresholds hold from the start. REQUIRES: best.queries() == queries.size()
void nearest_texts(const View& view, const Selection& rows, const EditRequest& request,
                   std::span<const CodePoints> queries, compute::HitTable& best);

// Every selected row within the range of each query, unordered; with `after`, those that come after
// it in the order of results.
compute::HitLists texts_within(const View& view, const Selection& rows,
                               const EditRequest& request, std::span<const CodePoints> queries,
                               const std::optional<Hit>& after = std::nullopt);

}  // namespace warplite::engine
