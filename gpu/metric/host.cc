#include "gpu/metric/host.h"

#include <bit>
#include <unordered_map>

namespace warplite::gpu {
namespace {

using compute::kEditGroup;

// Longer texts gain nothing over one at a time.
using Word = std::uint32_t;
constexpr std::size_t kBits = 32;

// Occurrences say where symbols occur in a text, which stands at the upper end of the word.
class Occurrences {
 public:
  explicit Occurrences(std::span<const std::uint32_t> text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Word bit = Word{1} << (kBits - text.size() + i);
      (text[i] < kFew ? few_[text[i]] : many_[text[i]]) |= bit;
    }
  }
  Word find(std::uint8_t symbol) const { return few_[symbol]; }
  template <typename Symbol>
  Word find(Symbol symbol) const {
    if (symbol < kFew) return few_[symbol];
    const auto found = many_.find(symbol);
    return found == many_.end() ? 0 : found->second;
  }

 private:
  static constexpr std::uint32_t kFew = 256;
  Word few_[kFew] = {};
  std::unordered_map<std::uint32_t, Word> many_;
};

// Distances to the texts of a group, all by the same instructions (Myers; see edit_columns.cuh).
template <typename Symbol>
void group_distances(const Occurrences& occurrences, std::size_t length, const Symbol* symbols,
                     const std::uint16_t* lengths, std::uint32_t positions, std::uint16_t* out) {
  const Word begin = length == 0 ? 0 : ~Word{0} << (kBits - length);
  alignas(64) Word plus[kEditGroup], minus[kEditGroup], equal[kEditGroup], ends[kEditGroup];
  for (std::size_t i = 0; i < kEditGroup; ++i) {
    plus[i] = begin, minus[i] = 0;
    ends[i] = lengths[i] == compute::MetricTexts::kNoText ? 0 : lengths[i];
  }
  for (std::uint32_t at = 0; at < positions; ++at, symbols += kEditGroup) {
    for (std::size_t i = 0; i < kEditGroup; ++i) equal[i] = occurrences.find(symbols[i]);
    for (std::size_t i = 0; i < kEditGroup; ++i) {
      const Word p = plus[i], m = minus[i], e = equal[i], vertical = e | m;
      const Word diagonal = (((e & p) + p) ^ p) | e;
      const Word up = (m | ~(diagonal | p)) << 1 | 1, down = (p & diagonal) << 1;
      const Word goes_on = at < ends[i] ? ~Word{0} : 0;
      plus[i] = (goes_on & (down | ~(vertical | up))) | (~goes_on & p);
      minus[i] = (goes_on & (up & vertical)) | (~goes_on & m);
    }
  }
  for (std::size_t i = 0; i < kEditGroup; ++i) {
    out[i] = static_cast<std::uint16_t>(static_cast<int>(ends[i]) + std::popcount(plus[i]) -
                                        std::popcount(minus[i]));
  }
}

}  // namespace

bool text_distances_on_host(std::span<const std::uint32_t> text, const compute::MetricTexts& texts,
                            std::uint32_t width, std::uint16_t* out) {
  if (text.size() > kBits) return false;
  const Occurrences occurrences(text);
  for (std::size_t group = 0; group < texts.groups; ++group, out += kEditGroup) {
    const std::byte* const symbols = texts.group(group, width);
    const std::uint16_t* const lengths = texts.lengths.data() + group * kEditGroup;
    const std::uint32_t positions = texts.begins[group + 1] - texts.begins[group];
    const auto compare = [&]<typename Symbol>(const Symbol* from) {
      group_distances(occurrences, text.size(), from, lengths, positions, out);
    };
    switch (width) {
      case 1: compare(reinterpret_cast<const std::uint8_t*>(symbols)); break;
      case 2: compare(reinterpret_cast<const std::uint16_t*>(symbols)); break;
      default: compare(reinterpret_cast<const std::uint32_t*>(symbols));
    }
  }
  return true;
}

}  // namespace warplite::gpu
