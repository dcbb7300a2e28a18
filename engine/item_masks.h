// The items of match-count queries as bitmaps of the rows that match them, for some parts of a
// view at a time: what columns are needed is read once, and tested on all threads.
// Threads: as the connection; what was made may be read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/match_count.h"
#include "engine/predicate.h"

namespace warplite::engine {

// Asks whether to stop, on the thread that may ask.
class Poll {
 public:
  explicit Poll(compute::Cancellation* cancellation) : cancellation_(cancellation) {}
  // Throws Error{kInterrupted}.
  void operator()() const;

 private:
  compute::Cancellation* cancellation_;
  std::thread::id asker_ = std::this_thread::get_id();
};

// Items of several queries, equal ones once.
class ItemSet {
 public:
  // What has to be tested of a row; the predicates of each are on one column.
  using Compiled = std::vector<std::vector<CompiledPredicate>>;

  explicit ItemSet(const Layout& layout) : layout_(&layout) {}
  std::size_t size() const { return items_.size(); }
  // The number of an item; its weight does not matter.
  std::uint32_t add(const RelationalItem& item);
  const Compiled& operator[](std::size_t i) const { return items_[i]; }

 private:
  const Layout* layout_;
  std::vector<Compiled> items_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

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
  // REQUIRES: everything outlives this.
  ItemMasks(const View& view, const Selection& rows, const ItemSet& items)
      : view_(view), rows_(rows), items_(items) {}

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
  // What is known of an item without looking at rows.
  CompiledPredicate::Verdict judge(const Part& part, const ItemSet::Compiled& item);
  CompiledPredicate::Verdict judge_all(const Part& part,
                                       const std::vector<CompiledPredicate>& predicates);
  const Column* column(const Part& part, std::size_t column);
  void add_pieces(std::uint32_t item, const Column* column, std::uint64_t* mask);
  void test(const Piece& piece) const;
  void test_all(const Piece& piece, const std::vector<CompiledPredicate>& predicates,
                std::uint64_t* mask) const;

  const View& view_;
  const Selection& rows_;
  const ItemSet& items_;
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
