// Ordered n-grams of texts: each gram with how many like it come before it, so that the match count
// of two texts is Σ min(occurrences in one, in the other). papers/genie-2018 §V-A.
// Grams are of Unicode code points, a byte that belongs to none being a character of its own;
// texts are not padded, and one shorter than n has no grams.
//
// A keyword is the gram, ⌊56 / n⌋ bits a character (at most 21), and its number in the bits that
// are left of 63. So trigrams up to U+3FFFF fit, the 512 first of each text; 4-grams up to U+3FFF;
// 8-grams of ASCII. Others are hashed (keyword_hash.h).
// Threads: an encoder by one at a time, others by any.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compute/match.h"
#include "index/text/normalize.h"

namespace warplite::index {

struct NgramOptions {
  std::uint32_t n = 3;  // ≥ 1
  // Grams are of what read_characters() makes of a text with these.
  bool fold = false;
  Normalization normalization = Normalization::kNone;
};

class NgramEncoder {
 public:
  explicit NgramEncoder(const NgramOptions& options);

  // Replaces the contents of `out` with the keywords of a text, each once.
  void encode(std::string_view text, std::vector<compute::Keyword>& out);
  // Characters of the text of the last encode().
  std::size_t length() const { return points_.size(); }

 private:
  void collect_grams(std::vector<std::uint64_t>& grams) const;
  std::uint64_t hash_of(std::size_t first) const;

  NgramOptions options_;
  unsigned bits_;  // of a character
  CodePoints points_;
};

// The match count of two texts, from their characters.
std::uint32_t common_ngrams(std::string_view a, std::string_view b, const NgramOptions& options);

// Whether nobody but the candidates of a search for sequences can be as near as `distance`, the
// edit distance of the k-th nearest of them, to a text of `length` characters. `outside`: no other
// row counts more matches; the count of the last candidate, or 0 when candidates are all rows that
// match. Theorem V.2, of distances between the characters that grams are of.
bool certifies(std::uint32_t outside, std::size_t length, std::uint32_t n, std::size_t distance);

}  // namespace warplite::index
