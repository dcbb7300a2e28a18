#include "sql/table/match_rows.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/process/interruption.h"
#include "engine/filter/content_hits.h"

namespace warplite::sql {
namespace {

constexpr std::size_t kSortAhead = 1024;

bool same(const Value& left, const Value& right) {
  const Cell a = left.cell();
  const Cell b = right.cell();
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case CellKind::kNull:
      return true;
    case CellKind::kInteger:
      return a.integer == b.integer;
    case CellKind::kReal:
      return std::bit_cast<std::uint64_t>(a.real) == std::bit_cast<std::uint64_t>(b.real);
    case CellKind::kText:
    case CellKind::kBlob:
      return a.bytes == b.bytes;
  }
  return false;
}

bool same(const engine::Predicate& a, const engine::Predicate& b) {
  return a.column == b.column && a.op == b.op && a.collation == b.collation && a.host == b.host &&
         a.rowids == b.rowids && a.ranges == b.ranges &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                    [](const Value& x, const Value& y) { return same(x, y); });
}

bool same(const engine::Filter& a, const engine::Filter& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return same(x, y); });
}

}  // namespace

bool operator==(const MatchQuestion& a, const MatchQuestion& b) {
  return a.of_counts == b.of_counts && a.of_text() == b.of_text() &&
         a.of_sparse == b.of_sparse && a.column == b.column &&
         a.query == b.query && a.range == b.range && a.counts == b.counts && a.k == b.k &&
         a.nprobe == b.nprobe && a.recall == b.recall && a.refine == b.refine &&
         a.exact == b.exact && a.by_rarity == b.by_rarity && a.first == b.first &&
         same(a.filter, b.filter);
}

std::shared_ptr<const engine::Selection> LastSelections::get(const engine::View& view,
                                                             const engine::Filter& filter) {
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& known) { return same(known.filter, filter); });
  if (found != known_.end()) {
    std::rotate(known_.begin(), found, found + 1);
    return known_.front().selection;
  }
  auto selection = std::make_shared<const engine::Selection>(view, filter);
  // Tests by the host may come out differently the next time.
  const bool asks_host = std::any_of(filter.begin(), filter.end(), [](const auto& predicate) {
    return predicate.host != nullptr;
  });
  if (asks_host) return selection;
  std::size_t bytes = 0;
  for (const engine::Predicate& predicate : filter) bytes += predicate.rowids.size() * sizeof(RowId);
  for (std::size_t i = 0; i < view.parts(); ++i) {
    bytes += selection->part(i).bits.word_count() * sizeof(std::uint64_t);
  }
  known_.insert(known_.begin(), Known{filter, selection, bytes});
  forget_some();
  return selection;
}

void LastSelections::forget_some() {
  constexpr std::size_t kMost = 64, kMostBytes = std::size_t{1} << 23;
  std::size_t kept = 1, bytes = known_.front().bytes;
  while (kept < std::min(kMost, known_.size()) && bytes + known_[kept].bytes <= kMostBytes) {
    bytes += known_[kept++].bytes;
  }
  known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(kept), known_.end());
}

MatchRows::MatchRows(MatchQuestion question, std::shared_ptr<const engine::View> view,
                     std::shared_ptr<const engine::Selection> selection, const index::Index* index,
                     compute::Cancellation& cancellation)
    : question_(std::move(question)),
      view_(std::move(view)),
      selection_(std::move(selection)),
      source_(make_source(question_, *view_, *selection_, index, cancellation)) {
  if (view_->content() != nullptr) moment_ = view_->content()->moment();
  fetch_first();
  pass_vanished();
}

void MatchRows::rewind() {
  at_ = 0;
  pass_vanished();
}

void MatchRows::next() {
  step();
  pass_vanished();
}

// Rows may go while the cursor is open, and those that come after the first ones may not be there
// at all: nobody looked at them.
void MatchRows::pass_vanished() {
  if (view_->content() == nullptr) return;
  while (!at_end() && !is_verified() && !engine::is_there(*view_, {hit().block, hit().row})) step();
}

bool MatchRows::is_verified() const {
  return at_ < verified_ && view_->content()->moment().same(moment_);
}

void MatchRows::step() {
  ++at_;
  if (at_ < sorted_) return;
  while (sorted_ == hits_.size() && !complete_) fetch_more();
  sort_ahead();
}

void MatchRows::fetch_first() {
  const std::uint64_t rows = selection_->count();
  const std::uint64_t wanted = question_.k.value_or(question_.first);
  complete_ = question_.k.has_value() || question_.first == 0 || wanted >= rows;
  if (rows == 0 || (question_.k && wanted == 0)) {
    complete_ = true;
  } else if (wanted == 0) {
    hits_ = source_->all();
    sort_ahead();
  } else {
    const std::size_t k = static_cast<std::size_t>(std::min(wanted, rows));
    hits_ = source_->first(k);
    sorted_ = verified_ = hits_.size();
    complete_ = complete_ || hits_.size() < k;
  }
}

void MatchRows::fetch_more() {
  const MatchSource::Batch batch = source_->next(hits_);
  hits_.insert(hits_.end(), batch.hits.begin(), batch.hits.end());
  complete_ = batch.last;
}

// Doubles the sorted part: reading all n rows costs O(n log n), reading few costs O(n).
void MatchRows::sort_ahead() {
  if (at_ < sorted_ || sorted_ == hits_.size()) return;
  const std::size_t end = std::min(hits_.size(), std::max(2 * sorted_, sorted_ + kSortAhead));
  const auto at = [this](std::size_t i) { return hits_.begin() + static_cast<std::ptrdiff_t>(i); };
  SparsePoll poll;
  const auto nearer = [&](const Hit& a, const Hit& b) {
    poll();
    return a < b;
  };
  std::nth_element(at(sorted_), at(end), hits_.end(), nearer);
  interruptible_sort(at(sorted_), at(end));
  sorted_ = end;
}

}  // namespace warplite::sql
