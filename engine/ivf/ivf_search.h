// Searches through inverted files: segments by their codes, other rows exactly.
#pragma once

#include "engine/search/searcher.h"

namespace warplite::engine {

// Returns the searcher for kinds with index.trained()->inverted().
const Searcher& ivf_searcher();

}  // namespace warplite::engine
