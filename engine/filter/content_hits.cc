#include "engine/filter/content_hits.h"

#include <algorithm>

#include "engine/table/parts.h"
#include "storage/codec/row_hash.h"

namespace warplite::engine {
namespace {

Location place_of(const Hit& hit) { return {hit.block, hit.row}; }

void note(const View& view, Location at) {
  view.vanished().push_back(at);
  view.content()->note_gone(view.part(at.part).rowids()[at.row]);
}

// Says whether a row that exists may be another one than the view's.
bool may_differ(const View& view) {
  return view.content()->may_differ() || (view.outdated() && view.holds_aux());
}

}  // namespace

bool is_there(const View& view, Location at) {
  ContentSource* const content = view.content();
  if (content == nullptr) return true;
  const Part& part = view.part(at.part);
  if (part.lost(at.row)) return false;
  const RowId rowid = part.rowids()[at.row];
  if (!may_differ(view)) return content->exists(rowid);
  bool same = false;
  content->read({&rowid, 1}, [&](const ContentSource::Row& row) {
    same = storage::row_hash(view.layout(), row.vectors, row.plains) == part.hash(at.row);
  });
  return same;
}

Presence::Presence(const View& view, bool values)
    : view_(view), values_(values) {
  if (view.content() == nullptr) return;
  hashes_ = view.content()->may_differ();
  walk_ = view.content()->walk(hashes_);
}

bool Presence::operator()(Location at) {
  if (walk_ == nullptr) return true;
  const Part& part = view_.part(at.part);
  if (values_ ? part.lost(at.row) : part.known_lost(at.row)) return false;
  if (values_ && !hashes_ && may_differ(view_)) {
    hashes_ = true;
    walk_ = view_.content()->walk(true);
  }
  const RowId rowid = part.rowids()[at.row];
  if (!walk_->to(rowid)) {
    view_.content()->note_gone(rowid);
    return false;
  }
  if (!hashes_) return true;
  const ContentSource::Row* row = walk_->row();
  return row != nullptr &&
         storage::row_hash(view_.layout(), row->vectors, row->plains) == part.hash(at.row);
}

void Presence::rest() {
  if (walk_ != nullptr) walk_->rest();
}

void erase_vanished(const View& view, std::vector<Hit>& hits) {
  if (view.content() == nullptr) return;
  std::erase_if(hits, [&](const Hit& hit) { return !is_there(view, place_of(hit)); });
}

std::vector<Location> rows_not_there(const View& view, const Selection& rows) {
  std::vector<Location> vanished;
  Presence is_present(view, true);
  for (std::uint32_t i = 0; i < view.parts(); ++i) {
    for (std::uint32_t row = 0; row < view.part(i).rows() && rows.part(i).count != 0; ++row) {
      if (!rows.part(i).all && !rows.part(i).bits.test(row)) continue;
      if (!is_present({i, row})) vanished.push_back({i, row});
    }
  }
  return vanished;
}

Selection present_rows(const View& view, const Selection& rows) {
  if (view.content() == nullptr) return rows;
  Selection present = rows;
  present.exclude(view, rows_not_there(view, rows));
  return present;
}

std::shared_ptr<const View> present_view(const std::shared_ptr<const View>& view) {
  if (view->content() == nullptr) return view;
  const Selection present = present_rows(*view, Selection(*view, {}));
  if (present.count() == view->live_rows()) return view;
  std::vector<std::shared_ptr<const Part>> parts;
  for (std::uint32_t i = 0; i < view->parts(); ++i) {
    const Selection::Rows& rows = present.part(i);
    const std::size_t count = view->part(i).rows();
    Bitmap alive = rows.bits.size() != 0 ? rows.bits : Bitmap(count, rows.all);
    // The part is the view's, which lives as long.
    parts.push_back(std::make_shared<OverlayPart>(
        std::shared_ptr<const Part>(view, &view->part(i)), std::move(alive)));
  }
  return std::make_shared<View>(*view, std::move(parts));
}

// Notes the vanished rows by rowid, each once: searches of many queries find the same rows again
// and again.
bool note_vanished(const View& view, std::span<const Hit* const> hits) {
  std::vector<const Hit*> order(hits.begin(), hits.end());
  const auto before = [](const Hit* a, const Hit* b) { return a->rowid < b->rowid; };
  const auto same = [](const Hit* a, const Hit* b) { return a->rowid == b->rowid; };
  std::sort(order.begin(), order.end(), before);
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  bool any = false;
  for (const Hit* hit : order) {
    if (is_there(view, place_of(*hit))) continue;
    note(view, place_of(*hit));
    any = true;
  }
  return any;
}

void note_all_vanished(const View& view, const Selection& rows) {
  for (const Location& at : rows_not_there(view, without_vanished(view, rows))) note(view, at);
}

Selection without_vanished(const View& view, const Selection& rows) {
  Selection rest = rows;
  rest.exclude(view, view.vanished());
  return rest;
}

}  // namespace warplite::engine
