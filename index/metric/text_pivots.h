// Sparse spatial selection of the texts of a tile (metric-range §II-B), for make_text_pivots().
// Threads: one.
#pragma once

#include "compute/edit_metric.h"
#include "index/metric/text_metric_texts.h"

namespace warplite::index {

// Throws Error{kInterrupted}.
compute::TextPivots choose_pivots(compute::Device& host, const TileTexts& texts, double alpha,
                                  compute::Cancellation* cancellation);

}  // namespace warplite::index
