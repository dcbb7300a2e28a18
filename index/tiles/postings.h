// Builds the bytes of tiles (compute/match.h): which rows have each keyword.
// Threads: builders are independent of each other; tiles are built in parallel, one builder each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/match.h"
#include "core/bytes.h"

namespace warplite::index {

// A tile as it is stored and made resident.
struct Postings {
  Bytes bytes;  // TileLayout::of(keywords, postings); zeros between its parts
  std::uint32_t keywords = 0;
  std::uint32_t postings = 0;
  std::uint32_t rows = 0;
};

// Calls follow: (add_row* finish)*. A builder that is used again has its memory already.
//
// Keywords are numbered as they appear and sorted when all are known: a tile of 65,536 titles has
// 2.4 million (keyword, row) pairs, but 40,000 keywords. Rows come in ascending order, so that
// placing them by keyword sorts them, too.
class PostingsBuilder {
 public:
  PostingsBuilder();

  // The next row, with its keywords in any order; one that comes again counts once.
  // Throws Error{kLimit} beyond 2³² − 1 postings. REQUIRES: rows() < kTileRows
  void add_row(std::span<const compute::Keyword> keywords);
  std::uint32_t rows() const { return rows_; }
  std::size_t postings() const { return numbers_.size(); }

  Postings finish();

 private:
  // A slot of a hash table. It is taken once `number` is one.
  struct Slot {
    compute::Keyword key;
    std::uint32_t number;
  };

  std::size_t home(compute::Keyword key) const;
  std::uint32_t number_of(compute::Keyword key, std::size_t home);
  void grow();

  std::vector<Slot> slots_;
  unsigned shift_;                        // 64 less the bits of a slot's place
  std::vector<std::uint32_t> last_rows_;  // that had the keyword, by its number
  std::vector<std::uint32_t> numbers_;    // of the keyword of each posting, row by row
  std::vector<std::size_t> row_ends_;     // in numbers_
  std::vector<std::size_t> homes_;        // of the keywords of a row
  std::uint32_t rows_ = 0;
};

}  // namespace warplite::index
