// index=ivfflat and index=ivfpq: rows by the nearest of a number of centroids, of which a query
// looks at the nearest few; ivfpq also codes them, so that a look costs a few bytes.
// papers/faiss-gpu-2017 §2, §5. Parameters and defaults: ivf_options.h.
#pragma once

#include "index/index.h"

namespace warplite::index {

Kind ivfflat_kind();
Kind ivfpq_kind();

}  // namespace warplite::index
