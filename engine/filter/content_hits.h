// Rows that the content table lost without a word (an INSERT OR REPLACE that made room by another
// UNIQUE column tells no trigger) are still alive in its index: searches pass them over, and the
// next nearest take their places. With tables that store their rows all of this does nothing.
//
// A row that is alive in the view can be shown when
//  1. it is not lost (content_rows.h): when its segment was read, the content table had the row,
//     and its hash was the one that the index keeps;
//  2. the content table has it now, at the moment when it is about to be shown;
//  3. and, where rows may change without a word (ContentSource::may_differ()), has it with the same
//     hash now. Elsewhere triggers tell of changes, and the hash is compared in 1 alone, unless
//     +columns are shown beside the values of a view that is not the table's any more.
// To find out about 1, segments are read with all of their values, once. A scan that shows none of
// them heeds 1 as far as it is known already: 2 and 3 say of each row whether it is there.
// Threads: as the view's connection.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "core/types.h"
#include "engine/filter/filter.h"
#include "engine/table/content_source.h"
#include "engine/table/view.h"

namespace warplite::engine {

// Says whether a live row can be shown.
bool is_there(const View& view, Location at);
// The same of many rows in turn, for much less where their rowids ascend, as in a scan.
class Presence {
 public:
  // `values`: those of the rows are shown. The view outlives this.
  Presence(const View& view, bool values);
  bool operator()(Location at);
  // Comes when no more rows do for now: else the host's statement stays open.
  void rest();

 private:
  const View& view_;
  const bool values_;
  bool hashes_ = false;  // are compared
  std::unique_ptr<ContentSource::Walk> walk_;  // null without content=
};

// Takes out hits whose rows are not there.
void erase_vanished(const View& view, std::vector<Hit>& hits);
// The selected rows that are not there.
std::vector<Location> rows_not_there(const View& view, const Selection& rows);
// Those that are there, which is asked of every one of them.
Selection present_rows(const View& view, const Selection& rows);
// A view of those rows alone.
std::shared_ptr<const View> present_view(const std::shared_ptr<const View>& view);

// Notes hits whose rows are not there, in view.vanished() and for the next write. False: there
// are none.
bool note_vanished(const View& view, std::span<const Hit* const> hits);
// The same for all rows that are selected.
void note_all_vanished(const View& view, const Selection& rows);
Selection without_vanished(const View& view, const Selection& rows);

// Returns what `search` (of a Selection) finds among the rows that are there. `each` calls a
// function with every hit of a result.
template <typename Search, typename Each>
auto search_present(const View& view, const Selection& rows, const Search& search,
                    const Each& each) {
  constexpr int kAttempts = 4;  // then every row is looked for
  const auto is_whole = [&](auto& result) {
    std::vector<const Hit*> hits;
    each(result, [&](const Hit& hit) { hits.push_back(&hit); });
    return !note_vanished(view, hits);
  };
  if (view.content() == nullptr) return search(rows);
  if (view.vanished().empty()) {
    auto result = search(rows);
    if (is_whole(result)) return result;
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto result = search(without_vanished(view, rows));
    if (is_whole(result)) return result;
  }
  note_all_vanished(view, rows);
  return search(without_vanished(view, rows));
}

// The same for the rows of a table of hits.
template <typename Search>
compute::HitTable nearest_present(const View& view, const Selection& rows, const Search& search) {
  return search_present(view, rows, search, [](compute::HitTable& table, const auto& take) {
    for (std::size_t i = 0; i < table.queries(); ++i) {
      for (const Hit& hit : table.sorted(i)) take(hit);
    }
  });
}

}  // namespace warplite::engine
