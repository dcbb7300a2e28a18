// The items of match-count queries as bitmaps of the rows that match them, for some parts of a
// view at a time: what columns are needed is read once, and tested on all threads.
// Threads: as the connection; what was made may be read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/filter/filter.h"
#include "engine/match/item_set.h"
#include "engine/table/view.h"

namespace warplite::engine {

// A part with the bitmaps of all items, each of `words` words.
struct MaskedPart {
  std::uint32_t part = 0;
  std::uint32_t rows = 0;
  std::size_t words = 0;  // whole slices
  RowIdView rowids;
  bool ascending = true;  // rowids
  std::unique_ptr<std::uint64_t[]> selected;
  std::unique_ptr<std::uint64_t[]> masks;
  std::vector<const std::uint64_t*> items;  // null: no row matches
};

class ItemMasks {
 public:
  // `but`: parts to leave out. REQUIRES: everything outlives this.
  ItemMasks(const View& view, const Selection& rows, const ItemSet& items,
            const std::vector<bool>& but)
      : view_(view), rows_(rows), items_(items), but_(but) {}

  // Goes on to the next parts that have selected rows, as many as fit into memory at a time.
  // False: there is none.
  bool next(const Poll& poll);
  const std::vector<MaskedPart>& parts() const { return parts_; }

 private:
  // Some rows of a part, to be tested for an item by whatever thread comes first.
  struct Piece {
    std::uint32_t part;  // index into parts_
    std::uint32_t item;
    const Column* column;  // null: rowids
    std::uint64_t* mask;
    std::size_t first, last;  // words
  };

  void add(std::uint32_t part);
  const Column* column(const Part& part, std::size_t column);
  void add_pieces(std::uint32_t item, const Column* column, std::uint64_t* mask);
  void test(const Piece& piece) const;
  void test_all(const Piece& piece, const std::vector<CompiledPredicate>& predicates,
                std::uint64_t* mask) const;

  const View& view_;
  const Selection& rows_;
  const ItemSet& items_;
  const std::vector<bool>& but_;
  std::uint32_t next_ = 0;  // part
  std::vector<MaskedPart> parts_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<const Column>> part_columns_;  // of the part being added
  std::vector<std::shared_ptr<const Column>> columns_;       // what pieces read
  std::size_t values_ = 0;  // of those columns
  std::size_t words_ = 0;   // of bitmaps
  std::size_t cost_ = 0;    // of testing the pieces, in values of a number
};

}  // namespace warplite::engine
