#include "index/text/words.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

#include "index/text/keyword_hash.h"
#include "tests/support/match_truth.h"

using namespace warplite;
using namespace warplite::index;
using compute::Keyword;

namespace {

std::vector<Keyword> encode(const std::string& text) {
  WordEncoder encoder;
  std::vector<Keyword> keywords;
  encoder.encode(text, keywords);
  return keywords;
}

std::uint32_t common(const std::string& a, const std::string& b) {
  const std::vector<Keyword> x = encode(a), y = encode(b);
  std::vector<Keyword> both;
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  CHECK(both.size() == common_words(a, b, {}));
  return static_cast<std::uint32_t>(both.size());
}

}  // namespace

TEST_CASE("words: letters and digits, as a set, whatever their case") {
  CHECK(encode("").empty());
  CHECK(encode(" -- '?! ").empty());
  CHECK(encode("a").size() == 1);
  CHECK(encode("The the THE tHe").size() == 1);
  CHECK(encode("state-of-the-art").size() == 4);
  CHECK(encode("don't_stop").size() == 3);
  CHECK(encode("x86_64").size() == 2);
  CHECK(common("The cat, the dog", "a DOG; the fish") == 2);
  CHECK(common("a b c", "abc") == 0);
  CHECK(common("", "") == 0);
  CHECK(common("Ærøskøbing 2024", "ærøskøbing-2024") == 2);
  CHECK(common("ПРИВЕТ, мир", "привет МИР!") == 2);
  CHECK(common("cafe\xcc\x81 noir", "CAFE\xcc\x81") == 1);  // a letter and an accent
  CHECK(common("日本 語", "日本") == 1);
  CHECK(common("\xff" "ab\xfe", "ab") == 1);
}

TEST_CASE("words: up to twelve letters and digits are packed, and never meet") {
  const auto only = [](const std::string& word) {
    const std::vector<Keyword> keywords = encode(word);
    REQUIRE(keywords.size() == 1);
    return keywords[0];
  };
  CHECK_FALSE(is_hashed(only("zzzzzzzzzzzz")));
  CHECK_FALSE(is_hashed(only("999999999999")));
  CHECK(is_hashed(only("aaaaaaaaaaaaa")));
  CHECK(is_hashed(only("é")));
  std::vector<Keyword> all;
  const std::string letters = "az09";
  for (std::size_t length = 1; length <= 8; ++length) {
    for (std::size_t i = 0; i < std::size_t{1} << (2 * length); ++i) {
      std::string word;
      for (std::size_t c = 0; c < length; ++c) word += letters[i >> (2 * c) & 3];
      all.push_back(only(word));
    }
  }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("words: counts of random texts") {
  std::mt19937_64 random(2);
  const std::vector<std::string> words = {"a", "of", "the", "internationalisation", "É", "日本",
                                          "x1", "nine99", "otherwise", "another"};
  for (int round = 0; round < 500; ++round) {
    std::string texts[2];
    for (std::string& text : texts) {
      for (std::uint64_t n = random() % 12; n > 0; --n) {
        text += words[random() % words.size()] + (random() % 2 == 0 ? " " : "-");
      }
    }
    common(texts[0], texts[1]);
  }
}

TEST_CASE("words: titles give the known rows") {
  testing::check_truth("titles_word_queries.tsv", "titles_word_gt_top100_50k.tsv",
                       [](const std::string& text) { return encode(text); });
}
