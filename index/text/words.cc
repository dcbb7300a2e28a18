#include "index/text/words.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/process/interruption.h"
#include "index/text/keyword_hash.h"
#include "index/text/unicode.h"

namespace warplite::index {
namespace {

using compute::Keyword;
using Word = std::span<const std::uint32_t>;

constexpr std::size_t kPackedLetters = 12;
constexpr std::uint64_t kLetters = 37;  // a–z, 0–9 and none; 37¹² < 2⁶³

// 1 … 36, or 0 for any other character.
std::uint64_t letter(std::uint32_t point) {
  if (point >= 'a' && point <= 'z') return point - 'a' + 1;
  return point >= '0' && point <= '9' ? point - '0' + 27 : 0;
}

Keyword keyword_of(Word word) {
  Keyword packed = 0;
  bool fits = word.size() <= kPackedLetters;
  for (std::size_t i = 0; fits && i < word.size(); ++i) {
    const std::uint64_t next = letter(word[i]);
    fits = next != 0;
    packed = packed * kLetters + next;
  }
  if (fits) return packed;
  KeywordHash hash;
  for (const std::uint32_t point : word) hash.add(point);
  return hash.keyword();
}

// Calls body(word) for each word.
template <class Body>
void for_each_word(const CodePoints& points, const Body& body) {
  std::size_t begin = 0;
  SparsePoll poll;
  for (std::size_t i = 0; i < points.size(); ++i) {
    poll();
    if (belongs_to_word(points[i])) continue;
    if (begin < i) body(Word(&points[begin], i - begin));
    begin = i + 1;
  }
  if (begin < points.size()) body(Word(&points[begin], points.size() - begin));
}

void read(std::string_view text, const WordOptions& options, CodePoints& points) {
  read_characters(text, true, options.normalization, points);
}

// Any order will do that is quick to tell.
bool is_before(const Word& a, const Word& b) {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::memcmp(a.data(), b.data(), a.size_bytes()) < 0;
}

// The different words, in that order.
std::vector<Word> different_words(const CodePoints& points) {
  std::vector<Word> words;
  for_each_word(points, [&](Word word) { words.push_back(word); });
  interruptible_sort(words.begin(), words.end(), is_before);
  const auto same = [](const Word& a, const Word& b) { return !is_before(a, b); };  // ascending
  words.erase(std::unique(words.begin(), words.end(), same), words.end());
  return words;
}

}  // namespace

void WordEncoder::encode(std::string_view text, std::vector<Keyword>& out) {
  read(text, options_, points_);
  out.clear();
  for_each_word(points_, [&](Word word) { out.push_back(keyword_of(word)); });
  interruptible_sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

std::uint32_t common_words(std::string_view a, std::string_view b, const WordOptions& options) {
  CodePoints shorter, longer;
  read(a, options, shorter);
  read(b, options, longer);
  if (shorter.size() > longer.size()) shorter.swap(longer);
  const std::vector<Word> words = different_words(shorter);
  std::vector<bool> found(words.size());
  for_each_word(longer, [&](Word word) {
    const auto at = std::lower_bound(words.begin(), words.end(), word, is_before);
    if (at == words.end() || is_before(word, *at)) return;
    found[static_cast<std::size_t>(at - words.begin())] = true;
  });
  return static_cast<std::uint32_t>(std::count(found.begin(), found.end(), true));
}

std::uint32_t count_words(std::string_view text, const WordOptions& options) {
  CodePoints points;
  read(text, options, points);
  return static_cast<std::uint32_t>(different_words(points).size());
}

}  // namespace warplite::index
