// The numbers of a Calibration::Table: at which looks it is measured, and what they find on average.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/recall/calibration.h"
#include "index/recall/held_rows.h"

namespace warplite::index {

// 1 … 8, and then four for each doubling, up to `most`.
std::vector<std::uint32_t> ladder(std::uint32_t most);

// Mean and standard error of the part of its `count` nearest that a query finds which looks at so many
// places; or of those behind its twins, where that is less: queries may have twins or not. `places`:
// [queries][width], those of the nearest first.
Found mean_found(std::span<const std::uint32_t> places, std::size_t width, const Twins& twins,
                 std::size_t count, std::size_t looks);

}  // namespace warplite::index
