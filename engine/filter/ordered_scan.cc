#include "engine/filter/ordered_scan.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace warplite::engine {

OrderedScan::OrderedScan(std::shared_ptr<const View> view,
                         std::shared_ptr<const Selection> selection, bool descending)
    : view_(std::move(view)),
      selection_(std::move(selection)),
      descending_(descending),
      sources_(view_->parts()) {
  for (std::uint32_t part = 0; part < sources_.size(); ++part) {
    if (selection_->part(part).count == 0) continue;
    const Part& all = view_->part(part);
    waiting_.push({key(descending ? all.max_rowid() : all.min_rowid()), part});
  }
  take_next_part();
}

Location OrderedScan::at() const { return {current_, row(sources_[current_])}; }

std::uint32_t OrderedScan::row(const Source& source) const {
  return source.order.empty() ? source.position : source.order[source.position];
}

void OrderedScan::start(Source& source, std::size_t count) const {
  source.position = descending_ ? static_cast<std::uint32_t>(count) - 1 : 0;
}

void OrderedScan::step(Source& source) const { source.position += descending_ ? kNone : 1; }

void OrderedScan::open(std::uint32_t part) {
  Source& source = sources_[part];
  source.opened = true;
  source.rowids = view_->part(part).rowids();
  const RowId* list = source.rowids.list;
  const std::uint32_t rows = view_->part(part).rows();
  start(source, rows);
  if (list == nullptr || std::is_sorted(list, list + rows, std::less_equal<RowId>())) return;
  std::vector<std::uint32_t> order;
  order.reserve(selection_->part(part).count);
  for (; settle(part); step(source)) order.push_back(source.position);
  std::sort(order.begin(), order.end(),
            [list](std::uint32_t a, std::uint32_t b) { return list[a] < list[b]; });
  start(source, order.size());
  source.order = std::move(order);
}

bool OrderedScan::settle(std::uint32_t part) {
  Source& source = sources_[part];
  if (!source.order.empty()) return source.position < source.order.size();
  const Selection::Rows& rows = selection_->part(part);
  const std::uint32_t end = view_->part(part).rows();
  while (!rows.all && source.position < end) {
    const std::uint32_t bit = source.position % 64;
    const std::uint64_t bits = rows.bits.words()[source.position / 64];
    const std::uint64_t word = descending_ ? bits << (63 - bit) : bits >> bit;
    if (word != 0) {
      const int passed = descending_ ? -std::countl_zero(word) : std::countr_zero(word);
      source.position += static_cast<std::uint32_t>(passed);
      break;
    }
    source.position += descending_ ? ~bit : 64 - bit;
  }
  return source.position < end;
}

void OrderedScan::take_next_part() {
  current_ = kNone;
  while (!waiting_.empty()) {
    const std::uint32_t part = waiting_.top().part;
    waiting_.pop();
    Source& source = sources_[part];
    if (source.opened) {
      current_ = part;
      return;
    }
    open(part);
    if (settle(part)) waiting_.push({key(source.rowids[row(source)]), part});
  }
}

void OrderedScan::next() {
  Source& source = sources_[current_];
  step(source);
  if (!settle(current_)) return take_next_part();
  const RowId next = key(source.rowids[row(source)]);
  if (waiting_.empty() || next < waiting_.top().key) return;
  waiting_.push({next, current_});
  take_next_part();
}

}  // namespace warplite::engine
