#include "engine/filter.h"

#include <algorithm>

#include "engine/parts.h"
#include "engine/predicate.h"

namespace warplite::engine {
namespace {

std::vector<CompiledPredicate> compile(const Layout& layout, const Filter& filter) {
  std::vector<CompiledPredicate> compiled;
  compiled.reserve(filter.size());
  for (const Predicate& predicate : filter) {
    const bool rowid = predicate.column == Predicate::kRowId;
    const PlainType type =
        rowid ? PlainType::kInteger : layout.plains[static_cast<std::size_t>(predicate.column)];
    compiled.emplace_back(predicate, type);
  }
  // Cheap ones first: they may leave nothing for the others to read.
  std::stable_sort(
      compiled.begin(), compiled.end(),
      [](const CompiledPredicate& a, const CompiledPredicate& b) { return a.cost() < b.cost(); });
  return compiled;
}

Selection::Rows select(const Part& part, const std::vector<CompiledPredicate>& predicates) {
  using Verdict = CompiledPredicate::Verdict;
  Selection::Rows out;
  if (part.live_rows() == 0) return out;
  std::vector<const CompiledPredicate*> open;
  for (const CompiledPredicate& predicate : predicates) {
    const Verdict verdict = predicate.judge(part);
    if (verdict == Verdict::kNone) return out;
    if (verdict == Verdict::kSome) open.push_back(&predicate);
  }
  out.count = part.live_rows();
  if (!open.empty()) {
    out.bits = copy_alive(part);
    for (const CompiledPredicate* predicate : open) {
      predicate->apply(part, out.bits);
      out.count = static_cast<std::uint32_t>(out.bits.count());
      if (out.count == 0) break;
    }
  } else if (out.count != part.rows()) {
    out.bits = copy_alive(part);
  }
  out.all = out.count == part.rows();
  if (out.all || out.count == 0) out.bits = Bitmap();
  return out;
}

}  // namespace

Selection::Selection(const View& view, const Filter& filter) {
  const std::vector<CompiledPredicate> predicates = compile(view.layout(), filter);
  parts_.reserve(view.parts());
  for (std::size_t i = 0; i < view.parts(); ++i) parts_.push_back(select(view.part(i), predicates));
}

std::uint64_t Selection::count() const {
  std::uint64_t rows = 0;
  for (const Rows& part : parts_) rows += part.count;
  return rows;
}

}  // namespace warplite::engine
