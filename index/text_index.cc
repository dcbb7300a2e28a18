#include "index/text_index.h"

#include <charconv>

#include "index/unicode.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kLongestGram = 16;

std::uint32_t number(const std::string& name, const std::string& text, std::uint32_t low,
                     std::uint32_t high) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < low || value > high) {
    throw Error(ErrorKind::kInvalid, "index=ngram expects " + name + "=" + std::to_string(low) +
                                         " to " + std::to_string(high) + ", but \"" + text +
                                         "\" was given");
  }
  return value;
}

std::variant<NgramEncoder, WordEncoder> make_encoder(const TextIndex& index) {
  if (index.kind == TextIndex::Kind::kWords) return WordEncoder();
  return NgramEncoder(index.ngram);
}

}  // namespace

bool is_text_index(std::string_view kind) { return kind == "ngram" || kind == "words"; }

TextIndex parse_text_index(const Spec& spec) {
  TextIndex index;
  index.kind = spec.kind == "words" ? TextIndex::Kind::kWords : TextIndex::Kind::kNgram;
  for (const auto& [name, text] : spec.parameters) {
    if (index.kind == TextIndex::Kind::kWords) {
      throw Error(ErrorKind::kInvalid,
                  "index=words takes no parameters, but \"" + name + "\" was given");
    }
    if (name == "n") {
      index.ngram.n = number(name, text, 1, kLongestGram);
    } else if (name == "fold") {
      index.ngram.fold = number(name, text, 0, 1) != 0;
    } else {
      throw Error(ErrorKind::kInvalid,
                  "index=ngram takes the parameters n, fold, but \"" + name + "\" was given");
    }
  }
  return index;
}

TextEncoder::TextEncoder(const TextIndex& index) : encoder_(make_encoder(index)) {}

void TextEncoder::encode(std::string_view text, std::vector<compute::Keyword>& out) {
  std::visit([&](auto& encoder) { encoder.encode(text, out); }, encoder_);
}

std::uint32_t common_keywords(const TextIndex& index, std::string_view a, std::string_view b) {
  return index.kind == TextIndex::Kind::kWords ? common_words(a, b)
                                               : common_ngrams(a, b, index.ngram);
}

std::uint32_t count_keywords(const TextIndex& index, std::string_view text) {
  return common_keywords(index, text, text);
}

void comparable(const TextIndex& index, std::string_view text, CodePoints& out) {
  decode_utf8(text, out);
  if (!index.ngram.fold) return;
  for (std::uint32_t& point : out) point = fold_case(point);
}

}  // namespace warplite::index
