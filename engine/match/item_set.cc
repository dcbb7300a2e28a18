#include "engine/match/item_set.h"

#include <utility>

#include "core/process/interruption.h"
#include "engine/table/view.h"

namespace warplite::engine {
namespace {

using Verdict = CompiledPredicate::Verdict;

template <typename T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
void append_all(std::string& key, const std::vector<Interval<T>>& ranges) {
  append(key, ranges.size());
  key.append(reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(Interval<T>));
}

void append(std::string& key, const Predicate& predicate) {
  append(key, predicate.column);
  append(key, predicate.op);
  append(key, predicate.collation);
  if (predicate.ranges != nullptr) {
    append_all(key, predicate.ranges->integers());
    append_all(key, predicate.ranges->reals());
  }
  append(key, predicate.operands.size());
  SparsePoll poll;
  for (const Value& operand : predicate.operands) {
    poll();
    const Cell cell = operand.cell();
    append(key, cell.kind);
    if (cell.kind == CellKind::kInteger) append(key, cell.integer);
    if (cell.kind == CellKind::kReal) append(key, cell.real);
    append(key, cell.bytes.size());
    key += cell.bytes;
  }
}

// The same for equal items only.
std::string key_of(const RelationalItem& item) {
  std::string key;
  for (const Filter& all : item.any_of) {
    append(key, all.size());
    for (const Predicate& predicate : all) append(key, predicate);
  }
  return key;
}

PlainType type_of(const Layout& layout, int column) {
  return column == Predicate::kRowId ? PlainType::kInteger
                                     : layout.plains[static_cast<std::size_t>(column)];
}

std::vector<CompiledPredicate> compile(const Layout& layout, const Filter& all) {
  std::vector<CompiledPredicate> compiled;
  for (const Predicate& predicate : all) {
    CompiledPredicate next(predicate, type_of(layout, predicate.column));
    if (compiled.empty() || !compiled.back().absorb(next)) compiled.push_back(std::move(next));
  }
  return compiled;
}

Verdict judge_all(const Part& part, const std::vector<CompiledPredicate>& predicates,
                  const ItemSet::AllNull& all_null) {
  Verdict all = Verdict::kAll;
  for (const CompiledPredicate& predicate : predicates) {
    Verdict one = predicate.judge(part);
    if (one == Verdict::kSome && !predicate.on_rowid() && all_null(predicate.column())) {
      one = predicate.nulls_pass() ? Verdict::kAll : Verdict::kNone;
    }
    if (one == Verdict::kNone) return one;
    if (one == Verdict::kSome) all = one;
  }
  return all;
}

}  // namespace

void Poll::operator()() const {
  if (cancellation_ == nullptr || std::this_thread::get_id() != asker_) return poll_interruption();
  if (cancellation_->requested()) throw Error(ErrorKind::kInterrupted, "interrupted");
}

std::uint32_t ItemSet::add(const RelationalItem& item) {
  poll_interruption();
  const auto [entry, added] =
      numbers_.try_emplace(key_of(item), static_cast<std::uint32_t>(items_.size()));
  if (added) {
    Compiled compiled;
    for (const Filter& all : item.any_of) compiled.push_back(compile(*layout_, all));
    items_.push_back(std::move(compiled));
  }
  return entry->second;
}

Verdict ItemSet::judge(std::size_t item, const Part& part, const AllNull& all_null) const {
  Verdict any = Verdict::kNone;
  for (const std::vector<CompiledPredicate>& predicates : items_[item]) {
    const Verdict all = judge_all(part, predicates, all_null);
    if (all == Verdict::kAll) return all;
    if (all == Verdict::kSome) any = all;
  }
  return any;
}

}  // namespace warplite::engine
