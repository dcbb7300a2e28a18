// index=sss(alpha=) of vectors: sparse spatial selection (metric-range §II-B, IV-C): exact; a search
// passes over rows whose distance to some pivot differs too much from its own. Built by the device
// that searches, of each block of rows.
#pragma once

#include "index/index.h"

namespace warplite::index {

Kind sss_kind();

// The value of `alpha`, or `otherwise`. Throws Error{kInvalid} for others and for unknown parameters.
double pivot_alpha(const Spec& spec, double otherwise);

}  // namespace warplite::index
