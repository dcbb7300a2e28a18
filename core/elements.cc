#include "core/elements.h"

namespace warplite {
namespace {

// Where the exponent is all ones (NaN or infinity), adding one to it carries into the cleared sign
// bit. Without a branch, so that the compiler vectorises.
template <ElementType kType>
bool finite(std::span<const std::byte> values) {
  using Word = typename Element<kType>::Word;
  constexpr Word kMagnitude = std::numeric_limits<Word>::max() >> 1;
  constexpr Word kExponentOne = Element<kType>::kInfinity & (~Element<kType>::kInfinity + 1);
  Word seen = 0;
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, values.data() + i * sizeof(Word), sizeof word);
    seen = static_cast<Word>(seen | static_cast<Word>((word & kMagnitude) + kExponentOne));
  }
  return (seen & static_cast<Word>(~kMagnitude)) == 0;
}

}  // namespace

bool all_finite(ElementType type, std::span<const std::byte> values) {
  bool all = true;
  with_numbers(type, [&]<ElementType kType>() {
    if constexpr (is_real(kType)) all = finite<kType>(values);
  });
  return all;
}

}  // namespace warplite
