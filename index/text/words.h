// The words of texts, as sets: the match count of two texts is how many they have in common.
// papers/genie-2018 §V-B. A word is as many letters, marks and digits as follow each other, with
// case folded.
//
// A keyword is the word, when it is up to twelve of a–z and 0–9; others are hashed
// (keyword_hash.h).
// Threads: an encoder by one at a time, others by any.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compute/match.h"
#include "index/text/normalize.h"

namespace warplite::index {

struct WordOptions {
  Normalization normalization = Normalization::kNone;  // before words are looked for
};

class WordEncoder {
 public:
  explicit WordEncoder(const WordOptions& options = {}) : options_(options) {}

  // Replaces the contents of `out` with the keywords of a text, ascending, each once.
  void encode(std::string_view text, std::vector<compute::Keyword>& out);

 private:
  WordOptions options_;
  CodePoints points_;
};

// The match count of two texts, from their characters.
std::uint32_t common_words(std::string_view a, std::string_view b, const WordOptions& options);

// Different words of a text.
std::uint32_t count_words(std::string_view text, const WordOptions& options);

}  // namespace warplite::index
