// Which positions of a run each list takes (compute::IvfLayout).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/ivf.h"

namespace warplite::index {

struct ListPlaces {
  std::vector<std::uint32_t> begins;  // of each list; the number of positions
  std::vector<std::uint32_t> ends;    // of each list
  std::vector<std::uint32_t> order;   // lists that have rows, by position
};

// `rows`: of each list. REQUIRES: with what is left between lists, they are fewer than 2^32.
ListPlaces place_lists(const compute::IvfShape& shape, std::span<const std::uint32_t> rows);

}  // namespace warplite::index
