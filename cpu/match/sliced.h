// Match counting for many queries of a tile at once. Counting a query after the other adds one for
// every posting that it meets; here a row's counters of all queries are bits of a few vectors, and
// each of its keywords adds, by carry-save, the bitmap of the queries that want it. So a keyword
// costs the same whether one of 256 queries wants it or all (sliced_kernels.h). For that, lists are
// turned into a table of the rows' keywords again, some rows at a time (match_columns.h).
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/match.h"
#include "cpu/match/columns.h"
#include "cpu/match/keyword_table.h"
#include "cpu/match/lists.h"
#include "cpu/match/results.h"
#include "cpu/match/sliced_kernels.h"
#include "cpu/match/tile.h"
#include "cpu/runtime/item_loop.h"

namespace warplite::cpu {

class SlicedCounter {
 public:
  // REQUIRES: everything outlives this.
  SlicedCounter(const compute::MatchWork& work, MatchResults& results, ItemLoop& loop,
                unsigned thread);

  // Says whether it may be of use for so many queries and rows, and the k best.
  static bool suits(std::size_t queries, std::uint32_t rows, std::size_t k);

  // Adds the best rows of the queries [first, end). Those that are counted more quickly one by one,
  // or that have weights, or may count more than 255, are left: their numbers come back.
  const std::vector<std::size_t>& count(const compute::MatchTile& tile, const MatchTileView& view,
                                        const MatchColumns& columns, std::size_t first,
                                        std::size_t end);

 private:
  struct Found {
    std::uint16_t row;
    std::uint8_t count;
  };
  // A query, by its place among those of a batch.
  struct Asked {
    std::size_t query;
    std::uint32_t floor;        // rows that count less are of no use
    std::size_t reached = 0;    // rows found that count as much
    bool open = true;           // counted here
    std::vector<Found> found = {};
  };

  // A Tile is what is searched, for as long as count() runs.
  struct Tile {
    const compute::MatchTile& tile;
    const MatchTileView& view;
    const MatchColumns& columns;
  };

  bool worthwhile(const Tile& at, std::size_t first, std::size_t end);
  void count_batch(const Tile& at, std::size_t first, std::size_t end);
  bool ask(const Tile& at, std::size_t first, std::size_t end);
  std::uint64_t find(const Tile& at, std::size_t q);
  bool number_keywords();
  void fill_masks();
  void tabulate(const Tile& at, std::uint32_t first, std::uint32_t end);
  void count_rows(const Tile& at, std::uint32_t first, std::uint32_t end, std::size_t block);
  void set_floors(std::size_t block);
  void take(const std::uint8_t* counts, std::uint32_t row, std::size_t block);
  void take(Asked& asked, std::uint32_t row, std::uint32_t count);
  void cut(Asked& asked) const;
  void finish(const compute::MatchTile& tile);

  const compute::MatchWork& work_;
  MatchResults& results_;
  ItemLoop& loop_;
  const unsigned thread_;
  const SlicedKernels& kernels_;
  const std::size_t block_queries_;
  MatchLists lists_;
  KeywordTable keys_;
  std::vector<std::size_t> left_;

  // These belong to a batch:
  struct Want {
    std::uint32_t place, first, end;  // asked_[place] wants these keywords
  };
  std::vector<Asked> asked_;
  std::vector<Want> wants_;
  std::vector<std::uint16_t> number_of_;  // of the tile's keywords, from 1 on; 0: nobody wants it
  std::uint32_t numbers_ = 0;             // that were given, 0 included
  std::vector<std::uint8_t> masks_;       // [blocks][numbers][bytes]
  std::vector<std::uint32_t> reached_;    // [asked][256]: rows by what they count
  RowIdView rowids_;                      // of the tile
  bool ascending_ = true;

  std::vector<std::uint32_t> cursors_;    // in the tile's lists
  std::vector<std::uint16_t> table_;      // [some rows][columns][stride]
  std::vector<std::uint8_t> floors_, asking_, sums_, counts_;
  std::vector<std::uint32_t> found_;
};

}  // namespace warplite::cpu
