// Edit distances on vectors: the bit-parallel recurrence of Myers, in blocks as Hyyrö has it, for
// 32 texts at once.
#include "cpu/edit/kernels.h"

#include <cstring>
#include <utility>

#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/edit/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<std::uint16_t, kEditLanes>;
using WordVector = hn::VFromD<Words>;
constexpr Words kWords;
constexpr std::size_t kWordLanes = hn::MaxLanes(kWords);
constexpr std::size_t kVectors = kEditLanes / kWordLanes;  // of a block's numbers

template <class Symbol>
using Tag = hn::CappedTag<Symbol, kEditLanes>;
template <class Symbol>
using VectorOf = hn::VFromD<Tag<Symbol>>;

// Symbols that are looked for together.
constexpr std::size_t kWanted = 4;

// Finds in which of some rows lanes have each of the symbols, a bit to a row; the rows fit into one
// word.
template <std::size_t Count, class Symbol>
HWY_INLINE void find_rows(const Symbol* symbols, std::size_t rows, const std::uint32_t* wanted,
                          VectorOf<Symbol>* found) {
  const Tag<Symbol> tag;
  VectorOf<Symbol> targets[Count];
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < Count; ++i) {
    targets[i] = hn::Set(tag, static_cast<Symbol>(wanted[i]));
    found[i] = hn::Zero(tag);
  }
  auto bit = hn::Set(tag, Symbol{1});
  for (std::size_t row = 0; row < rows; ++row, symbols += kEditLanes) {
    const auto lanes = hn::LoadU(tag, symbols);
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < Count; ++i) {
      found[i] = hn::Or(found[i], hn::IfThenElseZero(hn::Eq(lanes, targets[i]), bit));
    }
    bit = hn::Add(bit, bit);
  }
}

// Writes the rows of a block, found by the half if a symbol has as many bits as that.
template <std::size_t Count, class Symbol>
HWY_INLINE void find_block(const Symbol* symbols, std::size_t rows, const std::uint32_t* wanted,
                           std::uint16_t* masks, std::size_t stride) {
  const Tag<Symbol> tag;
  constexpr std::size_t kHalves = sizeof(Symbol) == 1 ? 2 : 1;
  constexpr std::size_t kRows = kEditBlockRows / kHalves;
  HWY_ALIGN Symbol bits[Count][kHalves][kEditLanes];
  for (std::size_t half = 0; half < kHalves; ++half) {
    const std::size_t mine = HWY_MIN(rows, kRows);
    for (std::size_t lane = 0; lane < kEditLanes; lane += hn::Lanes(tag)) {
      VectorOf<Symbol> found[Count];
      find_rows<Count>(symbols + half * kRows * kEditLanes + lane, mine, wanted, found);
      for (std::size_t i = 0; i < Count; ++i) hn::Store(found[i], tag, bits[i][half] + lane);
    }
    rows -= mine;
  }
  for (std::size_t i = 0; i < Count; ++i, masks += stride) {
    for (std::size_t lane = 0; lane < kEditLanes; lane += kWordLanes) {
      if constexpr (sizeof(Symbol) == 1) {
        const hn::Rebind<std::uint8_t, Words> half;
        const auto lower = hn::PromoteTo(kWords, hn::LoadU(half, bits[i][0] + lane));
        const auto upper = hn::PromoteTo(kWords, hn::LoadU(half, bits[i][1] + lane));
        hn::StoreU(hn::Or(lower, hn::ShiftLeft<8>(upper)), kWords, masks + lane);
      } else {
        for (std::size_t j = lane; j < lane + kWordLanes; ++j) {
          masks[j] = static_cast<std::uint16_t>(bits[i][0][j]);
        }
      }
    }
  }
}

template <class Symbol>
void find(const std::byte* bytes, std::size_t positions, const std::uint32_t* wanted,
          std::size_t count, std::uint16_t* masks) {
  const auto* const symbols = reinterpret_cast<const Symbol*>(bytes);
  const std::size_t blocks = (positions + kEditBlockRows - 1) / kEditBlockRows;
  const std::size_t stride = blocks * kEditBlockSize;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = block * kEditBlockRows;
    const std::size_t rows = HWY_MIN(positions - first, kEditBlockRows);
    const Symbol* const from = symbols + first * kEditLanes;
    std::uint16_t* const to = masks + block * kEditBlockSize;
    std::size_t i = 0;
    for (; i + kWanted <= count; i += kWanted) {
      find_block<kWanted>(from, rows, wanted + i, to + i * stride, stride);
    }
    for (; i < count; ++i) find_block<1>(from, rows, wanted + i, to + i * stride, stride);
  }
}

// One vector of a block goes one column to the right. `up`, `down`: horizontal differences above
// it, then below it, 0 or 1. `except` has the vertical differences that are not +1, which
// spares the recurrence its negations.
HWY_INLINE void advance_block(WordVector equal, WordVector& except, WordVector& minus,
                              WordVector& up, WordVector& down) {
  const WordVector vertical = hn::Or(equal, minus);
  equal = hn::Or(equal, down);
  const WordVector chain = hn::Sub(except, hn::AndNot(except, equal));
  const WordVector diagonal = hn::Or(hn::Xor(chain, except), equal);
  const WordVector rises = hn::Or(minus, hn::AndNot(diagonal, except));
  const WordVector falls = hn::AndNot(except, diagonal);
  const WordVector above = hn::Or(hn::Add(rises, rises), up);
  const WordVector below = hn::Or(hn::Add(falls, falls), down);
  up = hn::ShiftRight<15>(rises);
  down = hn::ShiftRight<15>(falls);
  except = hn::AndNot(below, hn::Or(vertical, above));
  minus = hn::And(above, vertical);
}

// Vectors that are advanced together: chains of dependent operations are long where there are few
// blocks, registers few where there are many.
constexpr std::size_t together(std::size_t blocks) {
  const std::size_t most = blocks == 1 ? 4 : blocks <= 4 ? 2 : 1;
  return kVectors < most ? kVectors : most;
}

// The lanes of some vectors from `lane` on.
template <std::size_t Blocks, bool Carries>
HWY_INLINE void advance_lanes(const EditColumns& columns, std::uint16_t* state, std::size_t lane) {
  constexpr std::size_t kTogether = together(Blocks);
  WordVector except[Blocks][kTogether], minus[Blocks][kTogether];
  for (std::size_t block = 0; block < Blocks; ++block) {
    for (std::size_t v = 0; v < kTogether; ++v) {
      const std::uint16_t* const at = state + 2 * block * kEditBlockSize + lane + v * kWordLanes;
      except[block][v] = hn::LoadU(kWords, at);
      minus[block][v] = hn::LoadU(kWords, at + kEditBlockSize);
    }
  }
  std::uint16_t* carries = Carries ? columns.carries + lane : nullptr;
  for (std::size_t column = 0; column < columns.count; ++column) {
    const std::uint16_t* const masks =
        columns.masks + columns.offsets[columns.numbers[column]] + lane;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kTogether; ++v) {
      WordVector up = hn::Set(kWords, 1), down = hn::Zero(kWords);
      if constexpr (Carries) {
        up = hn::LoadU(kWords, carries + v * kWordLanes);
        down = hn::LoadU(kWords, carries + kEditBlockSize + v * kWordLanes);
      }
      HWY_UNROLL(8)
      for (std::size_t block = 0; block < Blocks; ++block) {
        const auto equal = hn::LoadU(kWords, masks + block * kEditBlockSize + v * kWordLanes);
        advance_block(equal, except[block][v], minus[block][v], up, down);
      }
      if constexpr (Carries) {
        hn::StoreU(up, kWords, carries + v * kWordLanes);
        hn::StoreU(down, kWords, carries + kEditBlockSize + v * kWordLanes);
      }
    }
    if constexpr (Carries) carries += 2 * kEditBlockSize;
  }
  for (std::size_t block = 0; block < Blocks; ++block) {
    for (std::size_t v = 0; v < kTogether; ++v) {
      std::uint16_t* const at = state + 2 * block * kEditBlockSize + lane + v * kWordLanes;
      hn::StoreU(except[block][v], kWords, at);
      hn::StoreU(minus[block][v], kWords, at + kEditBlockSize);
    }
  }
}

template <std::size_t Blocks>
void advance(const EditColumns& columns, std::uint16_t* state) {
  for (std::size_t lane = 0; lane < kEditLanes; lane += together(Blocks) * kWordLanes) {
    if (columns.carries != nullptr) {
      advance_lanes<Blocks, true>(columns, state, lane);
    } else {
      advance_lanes<Blocks, false>(columns, state, lane);
    }
  }
}

void sum(const std::uint16_t* state, const std::uint16_t* rows, std::size_t blocks,
         std::int16_t* sums) {
  const hn::RebindToSigned<Words> signed_words;
  for (std::size_t lane = 0; lane < kEditLanes; lane += kWordLanes) {
    auto total = hn::LoadU(signed_words, sums + lane);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::uint16_t* const at = state + 2 * block * kEditBlockSize + lane;
      const WordVector counted = hn::LoadU(kWords, rows + block * kEditBlockSize + lane);
      const WordVector plus = hn::AndNot(hn::LoadU(kWords, at), counted);
      const WordVector minus = hn::And(hn::LoadU(kWords, at + kEditBlockSize), counted);
      const WordVector difference =
          hn::Sub(hn::PopulationCount(plus), hn::PopulationCount(minus));
      total = hn::Add(total, hn::BitCast(signed_words, difference));
    }
    hn::StoreU(total, signed_words, sums + lane);
  }
}

std::uint32_t at_most(const std::int16_t* sums, std::int16_t limit) {
  const hn::RebindToSigned<Words> signed_words;
  const auto most = hn::Set(signed_words, limit);
  std::uint32_t found = 0;
  for (std::size_t lane = 0; lane < kEditLanes; lane += kWordLanes) {
    std::uint8_t bytes[8] = {};
    const auto some = hn::LoadU(signed_words, sums + lane);
    hn::StoreMaskBits(signed_words, hn::Eq(hn::Min(some, most), some), bytes);
    std::uint32_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    found |= bits << lane;
  }
  return found;
}

std::uint32_t between(const std::uint16_t* values, std::uint16_t low, std::uint16_t high) {
  const auto least = hn::Set(kWords, low);
  const auto width = hn::Set(kWords, static_cast<std::uint16_t>(high - low));
  std::uint32_t found = 0;
  for (std::size_t lane = 0; lane < kEditLanes; lane += kWordLanes) {
    std::uint8_t bytes[8] = {};
    const auto above = hn::Sub(hn::LoadU(kWords, values + lane), least);
    hn::StoreMaskBits(kWords, hn::Eq(hn::Min(above, width), above), bytes);
    std::uint32_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    found |= bits << lane;
  }
  return found;
}

// Rows of some pivots: one of distances each, or one of lows and one of highs.
template <std::size_t Rows>
std::uint32_t left(const std::uint8_t* rows, const PivotTest* tests, std::size_t count) {
  const Tag<std::uint8_t> tag;
  std::uint32_t found = 0;
  for (std::size_t lane = 0; lane < kEditLanes; lane += hn::Lanes(tag)) {
    auto apart = hn::Zero(tag);  // not zero where a test failed
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint8_t* const lows = rows + tests[i].pivot * Rows * kEditLanes + lane;
      const std::uint8_t* const highs = lows + (Rows - 1) * kEditLanes;
      const auto above = hn::SaturatedSub(hn::LoadU(tag, lows), hn::Set(tag, tests[i].high));
      const auto below = hn::SaturatedSub(hn::Set(tag, tests[i].low), hn::LoadU(tag, highs));
      apart = hn::Or(apart, hn::Or(above, below));
      // Asking costs about as much as a test.
      if (i % 2 == 1 && hn::AllFalse(tag, hn::Eq(apart, hn::Zero(tag)))) break;
    }
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(tag, hn::Eq(apart, hn::Zero(tag)), bytes);
    std::uint32_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    found |= bits << lane;
  }
  return found;
}

template <std::size_t... Less>
void fill_advance(EditKernels& kernels, std::index_sequence<Less...>) {
  ((kernels.advance[Less] = advance<Less + 1>), ...);
}

}  // namespace

void fill_edit(EditKernels& kernels) {
  kernels.find[0] = find<std::uint8_t>;
  kernels.find[1] = find<std::uint16_t>;
  kernels.find[2] = find<std::uint32_t>;
  fill_advance(kernels, std::make_index_sequence<kEditStripeBlocks>());
  kernels.sum = sum;
  kernels.at_most = at_most;
  kernels.between = between;
  kernels.texts_left = left<1>;
  kernels.groups_left = left<2>;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const EditKernels& edit_kernels() {
  static const KernelTables<EditKernels> tables{WARPLITE_EACH_TARGET(fill_edit)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif
