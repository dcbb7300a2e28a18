#include "engine/match/item_masks.h"

#include <algorithm>
#include <functional>

#include "compute/host/parallel.h"
#include "engine/match/bit_planes.h"

namespace warplite::engine {
namespace {

using Word = std::uint64_t;
using Verdict = CompiledPredicate::Verdict;

// Once so many values are read they are tested, since what is read cannot be evicted until then.
constexpr std::size_t kValuesAtOnce = std::size_t{1} << 23;
constexpr std::size_t kMaskWords = std::size_t{1} << 22;
constexpr std::size_t kPieceWords = 256;
constexpr std::size_t kTextCost = 8;  // of testing a text, in numbers
// Tests of this cost take as long as waking a thread and giving it something to do.
constexpr std::size_t kCostPerThread = 65536;

std::unique_ptr<Word[]> copy_selected(const Selection::Rows& selected, std::size_t rows,
                                      std::size_t words) {
  auto copy = std::make_unique<Word[]>(words);
  if (!selected.all) {
    std::copy_n(selected.bits.words(), selected.bits.word_count(), copy.get());
    return copy;
  }
  std::fill_n(copy.get(), rows / 64, ~Word{0});
  if (rows % 64 != 0) copy[rows / 64] = (Word{1} << (rows % 64)) - 1;
  return copy;
}

bool is_ascending(const RowIdView& rowids, std::size_t rows) {
  return rowids.list == nullptr ||
         std::is_sorted(rowids.list, rowids.list + rows, std::less_equal<RowId>());
}

}  // namespace

bool ItemMasks::next(const Poll& poll) {
  parts_.clear();
  pieces_.clear();
  columns_.clear();
  values_ = words_ = cost_ = 0;
  for (; next_ < view_.parts() && values_ < kValuesAtOnce && words_ < kMaskWords; ++next_) {
    poll();
    if (rows_.part(next_).count != 0 && !but_[next_]) add(next_);
  }
  compute::in_parallel(pieces_.size(), 1, cost_ / kCostPerThread,
                       [&](std::size_t first, std::size_t last) {
                         for (std::size_t i = first; i < last; ++i) {
                           poll();
                           test(pieces_[i]);
                         }
                       });
  return !parts_.empty();
}

void ItemMasks::add(std::uint32_t number) {
  const Part& part = view_.part(number);
  MaskedPart& masked = parts_.emplace_back();
  masked.part = number;
  masked.rows = part.rows();
  masked.words = whole_slices(masked.rows);
  masked.rowids = part.rowids();
  masked.ascending = is_ascending(masked.rowids, masked.rows);
  masked.selected = copy_selected(rows_.part(number), masked.rows, masked.words);
  masked.items.assign(items_.size(), nullptr);
  part_columns_.assign(view_.layout().plains.size(), nullptr);

  std::vector<std::uint32_t> open;
  const auto all_null = [&](std::size_t name) { return column(part, name) == nullptr; };
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const Verdict verdict = items_.judge(i, part, all_null);
    if (verdict == Verdict::kAll) masked.items[i] = masked.selected.get();
    if (verdict == Verdict::kSome) open.push_back(i);
  }
  masked.masks = std::make_unique_for_overwrite<Word[]>(open.size() * masked.words);
  words_ += open.size() * masked.words;
  Word* mask = masked.masks.get();
  for (const std::uint32_t i : open) {
    const CompiledPredicate& some = items_[i].front().front();
    add_pieces(i, some.on_rowid() ? nullptr : column(part, some.column()), mask);
    masked.items[i] = mask;
    mask += masked.words;
  }
}

// Null: every value is NULL.
const Column* ItemMasks::column(const Part& part, std::size_t column) {
  std::shared_ptr<const Column>& known = part_columns_[column];
  if (known == nullptr) {
    known = part.plain(column);
    if (known != nullptr) {
      columns_.push_back(known);
      values_ += known->size();
    }
  }
  return known.get();
}

void ItemMasks::add_pieces(std::uint32_t item, const Column* column, Word* mask) {
  const MaskedPart& part = parts_.back();
  const auto number = static_cast<std::uint32_t>(parts_.size() - 1);
  const std::size_t step = column == nullptr ? part.words : kPieceWords;
  for (std::size_t first = 0; first < part.words; first += step) {
    pieces_.push_back({number, item, column, mask, first, std::min(part.words, first + step)});
  }
  const bool text = column != nullptr && column->type() == PlainType::kText;
  cost_ += part.rows * (text ? kTextCost : 1) * items_[item].size();
}

void ItemMasks::test(const Piece& piece) const {
  const ItemSet::Compiled& item = items_[piece.item];
  test_all(piece, item.front(), piece.mask);
  if (item.size() == 1) return;
  const auto more = std::make_unique_for_overwrite<Word[]>(parts_[piece.part].words);
  for (std::size_t i = 1; i < item.size(); ++i) {
    test_all(piece, item[i], more.get());
    for (std::size_t w = piece.first; w < piece.last; ++w) piece.mask[w] |= more[w];
  }
}

// Tests all predicates of an item, also those that judge() could decide: unless it decides the
// item, its verdicts are not used.
void ItemMasks::test_all(const Piece& piece, const std::vector<CompiledPredicate>& predicates,
                         Word* mask) const {
  const MaskedPart& masked = parts_[piece.part];
  std::copy(masked.selected.get() + piece.first, masked.selected.get() + piece.last,
            mask + piece.first);
  const std::size_t used = (std::size_t{masked.rows} + 63) / 64;
  const std::size_t last = std::min(piece.last, used);
  if (piece.column != nullptr) {
    const RowWords words{mask, piece.first, last, masked.rows};
    for (const CompiledPredicate& predicate : predicates) predicate.apply(*piece.column, words);
    return;
  }
  const Part& part = view_.part(masked.part);
  Bitmap bits(masked.rows);
  std::copy_n(mask, used, bits.words());
  for (const CompiledPredicate& predicate : predicates) {
    switch (predicate.judge(part)) {
      case Verdict::kAll: break;
      case Verdict::kNone: bits = Bitmap(masked.rows); break;
      case Verdict::kSome: predicate.apply_to_rowids(part, bits); break;
    }
  }
  std::copy_n(bits.words(), used, mask);
}

}  // namespace warplite::engine
