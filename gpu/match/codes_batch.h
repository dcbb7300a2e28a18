// Some queries of a search over columns of codes (compute/codes.h), as they are sent: their items,
// and the ranges of these in some tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/codes.h"
#include "gpu/match/codes.h"
#include "gpu/match/tiles.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class CodeBatch {
 public:
  // Takes room in the plan.
  CodeBatch(const compute::CodeWork& work, std::span<const std::uint32_t> queries,
            std::span<const MatchTiles::PlacedTile> tiles, Plan& plan);

  // Writes everything to where the plan says in `host`.
  void write(const Staging& host) const;
  // Says where it is once it was sent to `device`.
  void describe(const Arena& device, CodeSearchView& search) const;

  std::span<const std::uint32_t> queries() const { return queries_; }

 private:
  // Queries that follow each other have their items in one piece.
  template <typename Visit>
  void for_pieces(const Visit& visit) const;
  void write_columns(std::span<const std::uint16_t*> columns) const;

  const compute::CodeWork& work_;
  std::span<const std::uint32_t> queries_;
  std::span<const MatchTiles::PlacedTile> tiles_;
  std::size_t item_count_;  // of the queries
  Slot<std::uint32_t> begins_;
  Slot<compute::CodeItem> items_;
  Slot<compute::CodeRange> ranges_;
  Slot<const std::uint16_t*> columns_;
};

// Returns the rows of a tile. Nothing is known of its rowids (a null pointer) where it has no
// columns: no row matches anything.
TileRows rows_of(const compute::CodeWork& work, std::size_t tile);

}  // namespace warplite::gpu
