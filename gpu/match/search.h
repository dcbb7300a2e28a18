// Match counting on a GPU (compute/match.h), some thousands of queries at a time. With a search go
// the tiles' descriptors, bitmaps of rows that live, and the queries' items. Rowids that are lists
// are sent once, unless they ascend from row to row and from tile to tile.
// Takes any k and any counts that compute/match.h allows. A query whose items may meet more than
// kMostAdded postings in a tile is counted in global memory, by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/match.h"
#include "gpu/match/match.h"
#include "gpu/match/tiles.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

class MatchSearch {
 public:
  MatchSearch(const Gpu& gpu, Lane& lane, const compute::MatchWork& work);

  // Adds the rows with the largest counts. Throws Error{kNoMemory}, Error{kInterrupted}.
  void best_rows(compute::HitTable& best);

 private:
  // Queries that are counted in the same way: with so many bits, or (sums) one by one.
  struct Class {
    unsigned bits;
    bool sums;
    std::vector<std::uint32_t> queries;
  };
  struct Pieces;

  // The queries for which a row can count enough.
  std::vector<Class> classify(compute::HitTable& best) const;
  // Some tiles, all queries.
  void search_tiles(std::span<const MatchTiles::PlacedTile> tiles, compute::HitTable& best);
  void search_class(const Class& queries, compute::HitTable& best);
  void search_group(const Class& queries, std::size_t first, std::size_t count,
                    compute::HitTable& best);
  Pieces lay_out(const Class& queries, std::size_t first, std::size_t count, std::size_t k) const;
  void send(const Class& queries, std::size_t first, const Pieces& at, const Arena& arena,
            compute::HitTable& best);
  MatchSearchView view_of(const Class& queries, const Pieces& at, const Arena& arena,
                          std::size_t k) const;

  std::uint32_t item_count(std::uint32_t query) const {
    return work_.begins[query + 1] - work_.begins[query];
  }

  const Gpu& gpu_;
  Lane& lane_;
  const compute::MatchWork& work_;
  std::optional<MatchTiles> tiles_;
  // The most keywords, and the most postings, that any tile has.
  std::uint32_t most_keywords_ = 0, most_postings_ = 0;
  // Tiles that are searched, and where they are.
  const TileTable* table_ = nullptr;
  const MatchTileView* views_ = nullptr;
};

}  // namespace warplite::gpu
