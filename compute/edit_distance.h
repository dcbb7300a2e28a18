// Levenshtein distance over Unicode code points, bit-parallel: 64 cells of a
// column of the dynamic programme at a time.
#pragma once

#include <cstddef>
#include <string_view>

#include "compute/ops.h"

namespace warplite::compute {

// `a` and `b` are UTF-8; a byte that belongs to no valid sequence counts as a character of its own.
// Throws Error{kInterrupted} when `cancellation` (may be null) asks for it.
std::size_t edit_distance(std::string_view a, std::string_view b, Cancellation* cancellation);

}  // namespace warplite::compute
