// index=list_of_clusters(size=) of vectors (metric-range §II-A, IV-B): exact; a search passes over
// clusters that its ball does not touch. Built by the device that searches, of each block of rows.
#pragma once

#include "index/index.h"

namespace warplite::index {

Kind list_of_clusters_kind();

// The value of `size`, or `otherwise`. Throws Error{kInvalid} for others and for unknown parameters.
std::uint32_t cluster_size(const Spec& spec, std::uint32_t otherwise);

}  // namespace warplite::index
