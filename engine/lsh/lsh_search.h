// Searches through locality-sensitive hashing (index/lsh/lsh.h): of the rows that match most of a
// query's signature the true distances decide; rows that are not coded are all compared.
#pragma once

#include "engine/search/searcher.h"

namespace warplite::engine {

// The searcher of index=lsh.
const Searcher& lsh_searcher();

}  // namespace warplite::engine
