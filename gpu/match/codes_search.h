// Match counting over columns of codes on a GPU (compute/codes.h). With a search go the tiles'
// descriptors, bitmaps of rows that live, and the queries' items and ranges. Takes any k, any
// number of items and any weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/match/codes_batch.h"
#include "gpu/match/codes_slice_search.h"

namespace warplite::gpu {

class ColumnCodeSearch {
 public:
  ColumnCodeSearch(const Gpu& gpu, Lane& lane, const compute::CodeWork& work);

  // Adds the rows with the largest counts. Throws Error{kNoMemory}, Error{kInterrupted}.
  void best_rows(compute::HitTable& best);

 private:
  using Queries = std::vector<std::uint32_t>;
  struct Pieces;

  // Searches by slices the queries that suit, and returns the others.
  Queries search_slices(compute::HitTable& best);
  void search_slices(std::span<const MatchTiles::PlacedTile> tiles, const SlicePlan& plan,
                     compute::HitTable& best);
  void search_strips(std::span<const MatchTiles::PlacedTile> tiles, const Queries& queries,
                     compute::HitTable& best);
  void send(const TileTable& table, const Plan& plan);
  // Searches by strips, with so many bits a counter, as many queries at a time as there is memory
  // for.
  void search_class(const TileTable& table, unsigned bits, const Queries& queries,
                    compute::HitTable& best);
  void search_group(const TileTable& table, unsigned bits, std::span<const std::uint32_t> queries,
                    compute::HitTable& best);
  void send(const CodeBatch& batch, const Pieces& at, const Arena& arena,
            compute::HitTable& best);
  std::uint32_t strip_rows(std::size_t tiles, unsigned bits, std::size_t queries) const;
  // Returns what a row may count.
  std::uint64_t most(std::uint32_t query) const;

  const Gpu& gpu_;
  Lane& lane_;
  const compute::CodeWork& work_;
  std::optional<MatchTiles> tiles_;
  const MatchTileView* views_ = nullptr;  // of the tiles that are searched
};

}  // namespace warplite::gpu
