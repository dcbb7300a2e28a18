// Says whether a device holds what a search needs.
// Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "compute/device.h"
#include "engine/residency/uploader.h"

namespace warplite::engine {

// Whether to copy the bytes that are lacking costs a search little beside what is there; else they
// are copied in the background.
bool nearly_all(std::size_t lacking, std::size_t bytes);

// True when the device holds nearly all of it, or what it lacks is copied in a moment. Else what it
// lacks is copied in the background, when there is room for all.
bool ready(compute::Device& device, std::vector<Uploader::Item> items);

// Says whether the device takes part of the queries of a search that another one could do alone: there is
// room for everything in its memory, and it is ready(). `at_once`: what it lacks is copied by the search.
bool holds(compute::Device& device, std::vector<Uploader::Item> items, bool at_once);

}  // namespace warplite::engine
