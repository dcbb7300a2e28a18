// Selection by threshold (th-heap §III, §V-A): which rows are the sample, and where it is worth it.
// The k-th distance to the sample bounds the k-th distance to all rows, so a device may drop what
// is farther as soon as it has computed it, and select among the few that are left: about
// n · k / n_S of n rows. Devices do that (compute::Workload::sample); this chooses the sample.
// Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/device.h"

namespace warplite::compute {

// Rows of a sample that is worth it: 8k or more. 0 when even that many are more than half of the
// rows, so that nothing is won; then only the default selection will do.
std::size_t sample_size(const compute::Device& device, std::size_t rows, std::size_t k);

// Returns so many live rows of the workload, drawn evenly from all of them and always the same
// ones.
// REQUIRES: there are as many.
std::vector<compute::SampleRow> choose_sample(const compute::Workload& work, std::size_t size);

// Says whether measurements say that it wins (bench/NOTES.md has them). REQUIRES: k > 0.
bool threshold_wins(const compute::Device& device, const compute::Workload& work, std::size_t k);

// Device::nearest() with the selection that work.select asks for.
Status nearest_selected(compute::Device& device, const compute::Workload& work,
                        compute::HitTable& best);

}  // namespace warplite::compute
