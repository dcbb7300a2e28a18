// Searches through inverted files: segments by their codes, other rows exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/search.h"

namespace warplite::engine {

// How many lists of the model the request probes.
std::uint32_t probes(const index::InvertedIndex& index, const index::InvertedModel& model,
                     const SearchRequest& request);

// REQUIRES: index.trained()->inverted(), !is_exact(), k > 0, there are queries.
compute::HitTable ivf_nearest(const View& view, const Selection& rows, const index::Index& index,
                              const SearchRequest& request, std::size_t k);

}  // namespace warplite::engine
