// Tiles whose matches are counted, as the host sees them: what those of postings (compute/match.h)
// and those of codes (compute/codes.h) have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "gpu/match/match.h"
#include "gpu/match/rowids.h"
#include "gpu/rows/row_set.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// No row counts more than this.
inline constexpr std::uint64_t kMostCount = 0xffffffffu;

// A tile's rows.
struct TileRows {
  MatchRowids* known;   // what is known of its rowids
  std::size_t number;   // among the tiles of the work
  std::uint32_t rows, id;
  RowIdView rowids;
  const std::uint64_t* live;
};

// Tiles by their least rowid.
class MatchTiles {
 public:
  struct PlacedTile {
    TileRows tile;
    RowId least, greatest;
    bool ascending;  // rowids do, from row to row
  };

  explicit MatchTiles(std::span<const TileRows> tiles);

  std::span<const PlacedTile> all() const { return places_; }
  bool ascending() const { return ascending_; }  // rowids do, in all of them

 private:
  std::vector<PlacedTile> places_;
  bool ascending_ = true;
};

// Some of them, sent with a search: their views, and bitmaps of rows that live.
class TileTable {
 public:
  // Takes room in the plan.
  TileTable(std::span<const MatchTiles::PlacedTile> tiles, bool ascending, Plan& plan);

  // Writes to `host` what will be at `device`, and returns the views, whose members of postings
  // are left to the caller. Throws Error{kNoMemory}.
  std::span<MatchTileView> write(Lane& lane, const Staging& host, const Arena& device) const;
  const MatchTileView* views(const Arena& device) const { return device[views_]; }

  std::span<const MatchTiles::PlacedTile> tiles() const { return tiles_; }
  bool ascending() const { return ascending_; }
  // Rows that strips keep of a query.
  std::size_t kept_rows(std::uint32_t strip_rows, std::size_t k) const;
  // Adds what was found for queries[0], queries[1], …
  void take(const MatchSearchView& search, const MatchResultsView& results,
            std::span<const std::uint32_t> queries, compute::HitTable& best) const;

 private:
  std::uint32_t first_after(RowId rowid) const;
  void take_query(const MatchSearchView& search, const std::uint64_t* keys, std::uint32_t found,
                  TopK& nearest) const;

  std::span<const MatchTiles::PlacedTile> tiles_;
  bool ascending_;
  Slot<MatchTileView> views_;
  std::vector<Slot<std::uint64_t>> live_;
};

// Memory that the host reads, for what is found; valid until the lane's next.
class MatchResults {
 public:
  MatchResults(Lane& lane, std::size_t queries, std::size_t room);

  const MatchResultsView& view() const { return view_; }
  std::uint32_t* one() const { return one_; }  // a number, for Stop

 private:
  MatchResultsView view_;
  std::uint32_t* one_;
};

// Returns what the k-th hit so far asks of a row, `least` at least; above kMostCount: no row is of
// use.
std::uint64_t match_floor(TopK& best, std::uint32_t least);

}  // namespace warplite::gpu
