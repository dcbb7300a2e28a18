// index=ivfflat, ivfpq and ivfrabitq: rows by the nearest of a number of centroids, of which a query
// looks at the nearest few; ivfpq and ivfrabitq also code them, so that a look costs a few bytes.
// papers/faiss-gpu-2017 §2, §5; compute/rabitq.h. Parameters and defaults: options.h.
#pragma once

#include "index/index.h"

namespace warplite::index {

Kind ivfflat_kind();
Kind ivfpq_kind();
Kind ivfrabitq_kind();
// index=approximate: ivfrabitq with everything chosen, or flat where the column cannot have it.
Kind approximate_kind();

}  // namespace warplite::index
