#include "engine/match/code_ranges.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/bitmap.h"

namespace warplite::engine {
namespace {

using Verdict = CompiledPredicate::Verdict;

// The values that match.
Bitmap matching(const ItemSet::Compiled& item, const Column& values) {
  Bitmap any(values.size());
  for (const std::vector<CompiledPredicate>& predicates : item) {
    Bitmap all(values.size(), true);
    const RowWords words{all.words(), 0, all.word_count(), values.size()};
    for (const CompiledPredicate& predicate : predicates) predicate.apply(values, words);
    any |= all;
  }
  return any;
}

std::vector<compute::CodeRange> runs_of(const Bitmap& bits) {
  std::vector<compute::CodeRange> runs;
  // The first place from `at` on where bits are `value`.
  const auto find = [&](std::size_t at, bool value) {
    const std::uint64_t flip = value ? 0 : ~std::uint64_t{0};
    while (at < bits.size()) {
      const std::uint64_t ahead = (bits.words()[at / 64] ^ flip) >> (at % 64);
      if (ahead != 0) {
        return std::min(at + static_cast<std::size_t>(std::countr_zero(ahead)), bits.size());
      }
      at = (at / 64 + 1) * 64;
    }
    return bits.size();
  };
  for (std::size_t begin = find(0, true); begin < bits.size();) {
    const std::size_t end = find(begin, false);
    runs.push_back({static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(end - 1)});
    begin = find(end, true);
  }
  return runs;
}

// The same without looking at all values. False: it cannot be told so.
bool find_runs(const ItemSet::Compiled& item, const Column& values,
               std::vector<compute::CodeRange>& runs) {
  const std::size_t count = values.size() - (values.has_nulls() ? 1 : 0);
  std::vector<CompiledPredicate::Places> found;
  for (const std::vector<CompiledPredicate>& predicates : item) {
    if (predicates.size() != 1 || !predicates[0].find_places(values, count, found)) return false;
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const CompiledPredicate::Places& places : found) {
    const auto first = static_cast<std::uint16_t>(places.first);
    const auto last = static_cast<std::uint16_t>(places.last);
    if (runs.empty() || places.first > std::size_t{runs.back().high} + 1) {
      runs.push_back({first, last});
    } else {
      runs.back().high = std::max(runs.back().high, last);
    }
  }
  return true;
}

}  // namespace

std::vector<compute::CodeRange> code_ranges(const ItemSet& items, std::size_t item,
                                            const Part& part, const ColumnCodes& codes) {
  const bool all_null = codes.bytes == nullptr;
  switch (items.judge(item, part, [&](std::size_t) { return all_null; })) {
    case Verdict::kNone: return {};
    case Verdict::kAll: return {{0, 0xffff}};
    case Verdict::kSome: break;
  }
  std::vector<compute::CodeRange> runs;
  if (!find_runs(items[item], codes.values(), runs)) {
    runs = runs_of(matching(items[item], codes.values()));
  }
  return runs;
}

}  // namespace warplite::engine
