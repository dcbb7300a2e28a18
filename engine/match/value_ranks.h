// The values of a column as ranks: each row's among the distinct values, in ascending order, a NULL
// behind all others. Texts are compared byte by byte.
// Threads: any.
#pragma once

#include <cstdint>

#include "core/column.h"

namespace warplite::engine {

// Writes the rank of every row to `ranks`, and returns the values in their order.
// REQUIRES: at most 65,536 rows.
Column rank_values(const Column& column, std::uint16_t* ranks);

}  // namespace warplite::engine
