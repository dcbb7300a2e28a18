// What devices rely on in tiles, which they follow without looking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/edit.h"
#include "compute/match.h"

namespace warplite::testing {

// Each throws Error{kCorrupt} unless `bytes` is what a builder may have written with these sizes
// (index/tiles/postings.h, edit_tile.h). Of an EditTile only the sizes are read.
void check_tile(std::span<const std::byte> bytes, std::uint32_t keywords, std::uint32_t postings,
                std::uint32_t rows);
void check_edit_tile(std::span<const std::byte> bytes, const compute::EditTile& tile);

}  // namespace warplite::testing
