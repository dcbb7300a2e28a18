// Postings of the parts of a view (compute/match.h), a tile for each part. They follow from what
// the part holds, so that they are not stored: those of a segment are made when they are first
// asked for, and cached by a key that the block gives them which they are made of; those of rows
// that are not sealed live as long as the view.
// Threads: as the view's connection; what was loaded may be used by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/residency/residency.h"
#include "engine/residency/uploader.h"
#include "engine/table/view.h"
#include "index/tiles/postings.h"

namespace warplite::engine {

struct Tile {
  std::uint32_t part = 0;
  CacheKey key;  // null: of rows that are not sealed
  std::shared_ptr<const ResidentVectors> bytes = nullptr;
  std::uint32_t keywords = 0, postings = 0;

  const Bytes& memory() const { return bytes->block.memory; }
};

// A TileMaker makes the tiles of one kind.
class TileMaker {
 public:
  virtual ~TileMaker() = default;

  // The column, for which tiles of rows that are not sealed are kept. What has none of those does
  // not share the numbers of what has.
  virtual std::size_t column() const = 0;
  // Returns the key of the part's tile; null: its rows are not sealed, or have nothing.
  virtual CacheKey key(const Part& part) const = 0;
  // "postings of column 2", as warp_residency() names it.
  virtual std::string name() const = 0;
  // Returns about how many bytes a tile takes; 0: nobody knows before it was made.
  virtual std::size_t bytes(const Part&) const { return 0; }

  // Makes a tile, on any thread; asks its argument whether to go on, which throws when not to.
  using Make = std::function<index::Postings(const std::function<void()>& poll)>;
  // Reads what that takes, on the view's thread. Null: no row of the part has a keyword.
  virtual Make read(const Part& part) const = 0;
};

// Tiles of some parts; made on several threads where there are none yet. Parts without keywords are
// left out. Throws Error{kCorrupt}, Error{kInterrupted}.
std::vector<Tile> load_tiles(const View& view, const TileMaker& maker,
                             std::span<const std::uint32_t> parts,
                             compute::Cancellation* cancellation);

// What a device is to hold of them; those of rows that are not sealed are copied with each search.
std::vector<Uploader::Item> uploads(std::span<const Tile> tiles);

// Calls body(tiles) for all of them, as many at a time as memory should hold.
void for_tiles(const View& view, const TileMaker& maker, std::span<const std::uint32_t> parts,
               compute::Cancellation* cancellation,
               const std::function<void(const std::vector<Tile>&)>& body);

}  // namespace warplite::engine
