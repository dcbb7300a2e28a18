// TextIndex is what `distance=` and `index=` of a TEXT column say, and the keywords that an index
// makes of a text:
//   distance=edit without an index: no keywords; every text is compared
//   list_of_clusters  size   1 … 65536; 32: with distance=edit, texts that a search passes over
//   sss               alpha  above 0 … 1; 0.5: likewise (compute/edit_metric.h)
//   ngram   n          1 … 16; 3: ordered n-grams (ngram.h), for search by edit distance
//           fold       0 or 1; 0: 1 compares texts with case folded
//   words              the set of words (words.h), for search by words in common
//   both    normalize  none, nfc or nfkc; none: compares texts after normalisation (normalize.h)
// Threads: an encoder by one at a time.
#pragma once

#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "index/index.h"
#include "index/text/ngram.h"
#include "index/text/words.h"

namespace warplite::index {

struct TextIndex {
  enum class Kind : std::uint8_t { kNone, kNgram, kWords, kEdit };
  Kind kind = Kind::kNone;
  NgramOptions ngram;  // of kNgram
  WordOptions words;   // of kWords
  std::shared_ptr<const compute::TextMetricBuilder> metric = nullptr;  // of kEdit; null: none

  // Says whether texts are searched by edit distance.
  bool by_edits() const { return kind == Kind::kNgram || kind == Kind::kEdit; }
  bool has_keywords() const { return kind == Kind::kNgram || kind == Kind::kWords; }
};

// Says whether `kind` is one that a TEXT column may have.
bool is_text_index(std::string_view kind);
// Says whether it is one that goes with distance=edit alone.
bool is_text_metric(std::string_view kind);
// Throws Error{kInvalid} that names the parameter, what was expected and what came.
// REQUIRES: is_text_index(spec.kind)
TextIndex parse_text_index(const Spec& spec);

class TextEncoder {
 public:
  // REQUIRES: index.has_keywords()
  explicit TextEncoder(const TextIndex& index);
  // Replaces the contents of `out` with the keywords of a text, each once.
  void encode(std::string_view text, std::vector<compute::Keyword>& out);

 private:
  std::variant<NgramEncoder, WordEncoder> encoder_;
};

// The match count of two texts, from their characters.
std::uint32_t common_keywords(const TextIndex& index, std::string_view a, std::string_view b);

// Keywords of a text: what another one has in common with it at most.
std::uint32_t count_keywords(const TextIndex& index, std::string_view text);

// The characters by which texts are compared: normalised and with case folded if the index says so.
// REQUIRES: index.by_edits()
void comparable(const TextIndex& index, std::string_view text, CodePoints& out);

}  // namespace warplite::index
