// Searches that compare every selected row; search.h decides when.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/search/search.h"

namespace warplite::engine {

// `but`: parts of the view that are left out, those beyond its end are not; null: none.
compute::HitTable exact_nearest(const View& view, const Selection& rows,
                                const index::Index& index, const SearchRequest& request,
                                std::size_t k, const std::vector<bool>* but);
compute::HitLists exact_within(const View& view, const Selection& rows, const index::Index& index,
                               const SearchRequest& request);

}  // namespace warplite::engine
