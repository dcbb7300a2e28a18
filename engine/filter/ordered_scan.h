// The selected rows of a view in ascending rowid, as people expect a table's rows to come, or in descending.
// Segments are ascending in themselves and mostly follow one another: then a step is an
// increment. Parts that overlap (after updates, or inserts out of order) are merged.
// Threads: as the connection. A part's rowids are read when its turn comes.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "engine/filter/filter.h"
#include "engine/table/view.h"

namespace warplite::engine {

class OrderedScan {
 public:
  OrderedScan(std::shared_ptr<const View> view, std::shared_ptr<const Selection> selection,
              bool descending = false);

  bool at_end() const { return current_ == kNone; }
  // REQUIRES: !at_end()
  Location at() const;
  void next();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Source {
    RowIdView rowids;
    bool opened = false;
    std::vector<std::uint32_t> order;  // selected rows by rowid; empty when they are in order
    std::uint32_t position = 0;        // a row, or with `order` an index into it; below the first: kNone
  };
  struct Waiting {
    RowId key;  // of the source's next one, or of a bound on it while it is not opened
    std::uint32_t part;
    friend bool operator<(const Waiting& a, const Waiting& b) { return a.key > b.key; }
  };

  // Less for what comes sooner.
  RowId key(RowId rowid) const { return descending_ ? ~rowid : rowid; }
  void start(Source& source, std::size_t count) const;
  void step(Source& source) const;

  void open(std::uint32_t part);
  // Moves on to the first selected row from the position on. False: there is none.
  bool settle(std::uint32_t part);
  std::uint32_t row(const Source& source) const;
  void take_next_part();

  std::shared_ptr<const View> view_;
  std::shared_ptr<const Selection> selection_;
  const bool descending_;
  std::vector<Source> sources_;         // one a part
  std::priority_queue<Waiting> waiting_;  // without the current part
  std::uint32_t current_ = kNone;
};

}  // namespace warplite::engine
