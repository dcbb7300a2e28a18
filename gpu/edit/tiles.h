// Tiles of texts (compute/edit.h) as they are sent with a search: their views, and bitmaps of rows
// that live.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/edit.h"
#include "gpu/edit/edit.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

struct EditTable {
  const EditTileView* views;      // on the device, in the lane's table
  std::vector<EditTiles> widths;  // those of a width follow each other
  std::uint64_t texts;            // of all tiles
};

// `tiles`: by width. Throws Error{kNoMemory}.
EditTable send_edit_tiles(std::span<const compute::EditTile* const> tiles, Lane& lane);

}  // namespace warplite::gpu
