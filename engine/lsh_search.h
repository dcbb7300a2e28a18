// Searches through locality-sensitive hashing (index/lsh.h): of the rows that match most of a
// query's signature the true distances decide; rows that are not coded are all compared.
#pragma once

#include <cstddef>

#include "engine/search.h"

namespace warplite::engine {

// REQUIRES: a model with hashed(), !is_exact(), k > 0, there are queries.
compute::HitTable lsh_nearest(const View& view, const Selection& rows, const index::Index& index,
                              const SearchRequest& request, std::size_t k);

}  // namespace warplite::engine
