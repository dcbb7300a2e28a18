// Searches through inverted files: segments by their codes, other rows exactly.
#pragma once

#include <cstddef>

#include "engine/search.h"

namespace warplite::engine {

// REQUIRES: index.trained()->inverted(), !is_exact(), k > 0, there are queries.
compute::HitTable ivf_nearest(const View& view, const Selection& rows, const index::Index& index,
                              const SearchRequest& request, std::size_t k);

}  // namespace warplite::engine
