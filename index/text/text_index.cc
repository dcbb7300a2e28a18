#include "index/text/text_index.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "index/metric/list_of_clusters.h"
#include "index/metric/on_host.h"
#include "index/metric/sss.h"
#include "index/metric/text_metric.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kLongestGram = 16;
// Best for Spanish words (metric-range §V).
constexpr std::uint32_t kTextClusterSize = 32;
constexpr double kTextAlpha = 0.5;

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

Normalization parse_normalization(const Spec& spec, const std::string& text) {
  const std::pair<std::string_view, Normalization> forms[] = {
      {"none", Normalization::kNone}, {"nfc", Normalization::kNfc}, {"nfkc", Normalization::kNfkc}};
  for (const auto& [name, form] : forms) {
    if (std::equal(name.begin(), name.end(), text.begin(), text.end(),
                   [](char a, char b) { return a == static_cast<char>(b | 0x20); })) {
      return form;
    }
  }
  throw Error(ErrorKind::kInvalid, "index=" + spec.kind + " expects normalize=none, nfc or nfkc, " +
                                       "but \"" + text + "\" was given");
}

[[noreturn]] void refuse(const Spec& spec, const std::string& known, const std::string& name) {
  throw Error(ErrorKind::kInvalid, "index=" + spec.kind + " takes the " + known + ", but \"" +
                                       name + "\" was given");
}

std::variant<NgramEncoder, WordEncoder> make_encoder(const TextIndex& index) {
  if (index.kind == TextIndex::Kind::kWords) return WordEncoder(index.words);
  return NgramEncoder(index.ngram);
}

}  // namespace

bool is_text_index(std::string_view kind) {
  return kind == "ngram" || kind == "words" || is_text_metric(kind);
}

bool is_text_metric(std::string_view kind) { return kind == "list_of_clusters" || kind == "sss"; }

TextIndex parse_text_index(const Spec& spec) {
  TextIndex index;
  if (is_text_metric(spec.kind)) {
    index.kind = TextIndex::Kind::kEdit;
    if (spec.kind == "sss") {
      index.metric =
          std::make_shared<TextsOnHost>(make_text_pivots(pivot_alpha(spec, kTextAlpha)));
    } else {
      index.metric = std::make_shared<TextsOnHost>(
          make_text_clusters(cluster_size(spec, kTextClusterSize)));
    }
    return index;
  }
  index.kind = spec.kind == "words" ? TextIndex::Kind::kWords : TextIndex::Kind::kNgram;
  const bool words = index.kind == TextIndex::Kind::kWords;
  Normalization& normalization = words ? index.words.normalization : index.ngram.normalization;
  for (const auto& [name, text] : spec.parameters) {
    if (name == "normalize") {
      normalization = parse_normalization(spec, text);
    } else if (words) {
      refuse(spec, "parameter normalize", name);
    } else if (name == "n") {
      index.ngram.n = number(name, text, 1, kLongestGram);
    } else if (name == "fold") {
      index.ngram.fold = number(name, text, 0, 1) != 0;
    } else {
      refuse(spec, "parameters n, fold, normalize", name);
    }
  }
  return index;
}

TextEncoder::TextEncoder(const TextIndex& index) : encoder_(make_encoder(index)) {}

void TextEncoder::encode(std::string_view text, std::vector<compute::Keyword>& out) {
  std::visit([&](auto& encoder) { encoder.encode(text, out); }, encoder_);
}

std::uint32_t common_keywords(const TextIndex& index, std::string_view a, std::string_view b) {
  return index.kind == TextIndex::Kind::kWords ? common_words(a, b, index.words)
                                               : common_ngrams(a, b, index.ngram);
}

std::uint32_t count_keywords(const TextIndex& index, std::string_view text) {
  return index.kind == TextIndex::Kind::kWords ? count_words(text, index.words)
                                               : common_ngrams(text, text, index.ngram);
}

void comparable(const TextIndex& index, std::string_view text, CodePoints& out) {
  read_characters(text, index.ngram.fold, index.ngram.normalization, out);
}

}  // namespace warplite::index
