// Searches that compare every selected row; search.h decides when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/search/search.h"

namespace warplite::engine {

// `only`: the parts of the view that are searched, ascending; null: all.
compute::HitTable exact_nearest(const View& view, const Selection& rows,
                                const index::Index& index, const SearchRequest& request,
                                std::size_t k, const std::vector<std::uint32_t>* only);
compute::HitLists exact_within(const View& view, const Selection& rows, const index::Index& index,
                               const SearchRequest& request);

}  // namespace warplite::engine
