// Edit distances on the CPU (compute/edit.h): through metric indexes where that takes less
// (edit_metric.h), else of all texts (edit_scan.h).
#pragma once

#include "compute/device.h"
#include "compute/edit.h"

namespace warplite::cpu {

// Throw std::bad_alloc, and Error{kInterrupted} when cancelled. `host` builds indexes.
void search_edit_nearest(compute::Device& host, const compute::EditWork& work,
                         compute::HitTable& best);
void search_edit_within(compute::Device& host, const compute::EditWork& work,
                        compute::HitLists& out);

// Implements Device's member of the same name.
void text_distances(std::span<const std::uint32_t> text, const compute::MetricTexts& texts,
                    std::uint32_t width, std::uint16_t* out);

}  // namespace warplite::cpu
