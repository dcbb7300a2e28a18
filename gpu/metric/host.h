// Distances that builders of metric indexes ask this device for. They come one text at a time, each
// after what the one before has left, so that the host is nearer than the GPU.
#pragma once

#include <cstdint>
#include <span>

#include "compute/edit_metric.h"

namespace warplite::gpu {

// Does what Device::text_distances() does. Returns false if the text is too long, in which case
// nothing was done.
bool text_distances_on_host(std::span<const std::uint32_t> text, const compute::MetricTexts& texts,
                            std::uint32_t width, std::uint16_t* out);

}  // namespace warplite::gpu
