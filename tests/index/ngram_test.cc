#include "index/text/ngram.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compute/edit_distance.h"
#include "index/text/keyword_hash.h"
#include "index/text/unicode.h"
#include "tests/support/match_truth.h"

using namespace warplite;
using namespace warplite::index;
using compute::Keyword;

namespace {

using Random = std::mt19937_64;

std::vector<Keyword> encode(const std::string& text, const NgramOptions& options) {
  NgramEncoder encoder(options);
  std::vector<Keyword> keywords;
  encoder.encode(text, keywords);
  return keywords;
}

std::uint32_t common(const std::string& a, const std::string& b, const NgramOptions& options) {
  std::vector<Keyword> x = encode(a, options), y = encode(b, options), both;
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  CHECK(std::adjacent_find(x.begin(), x.end()) == x.end());
  std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
  return static_cast<std::uint32_t>(both.size());
}

// Σ min of the occurrences, of grams as strings.
std::uint32_t plain_common(const std::u32string& a, const std::u32string& b, std::size_t n) {
  std::map<std::u32string, std::uint32_t> grams;
  for (std::size_t i = 0; i + n <= a.size(); ++i) ++grams[a.substr(i, n)];
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + n <= b.size(); ++i) {
    std::uint32_t& left = grams[b.substr(i, n)];
    sum += left > 0 ? 1 : 0;
    left -= left > 0 ? 1 : 0;
  }
  return sum;
}

std::string utf8(const std::u32string& text) {
  std::string out;
  for (const char32_t c : text) {
    const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6), put(0x80 | (c & 63));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
    } else {
      put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63));
      put(0x80 | (c & 63));
    }
  }
  return out;
}

std::u32string draw(Random& random, std::size_t length, const std::u32string& letters) {
  std::u32string text;
  for (std::size_t i = 0; i < length; ++i) text += letters[random() % letters.size()];
  return text;
}

}  // namespace

TEST_CASE("ngram: the example of the paper") {
  // V.1: G(aabaab) = {(aab,0), (aba,0), (baa,0), (aab,1)}
  const std::vector<Keyword> found = encode("aabaab", {});
  CHECK(found.size() == 4);
  const Keyword aab = (Keyword{'a'} << 36 | Keyword{'a'} << 18 | 'b') << 9;
  const Keyword aba = (Keyword{'a'} << 36 | Keyword{'b'} << 18 | 'a') << 9;
  const Keyword baa = (Keyword{'b'} << 36 | Keyword{'a'} << 18 | 'a') << 9;
  CHECK(std::set<Keyword>(found.begin(), found.end()) ==
        std::set<Keyword>{aab, aba, baa, aab + 1});
}

TEST_CASE("ngram: short texts have no grams") {
  for (const char* text : {"", "a", "ab", "é", "éé", "\xff\xfe"}) CHECK(encode(text, {}).empty());
  CHECK(encode("abc", {}).size() == 1);
  CHECK(encode("\xff\xfe\xff", {}).size() == 1);
  CHECK(encode("日本語", {}).size() == 1);
}

TEST_CASE("ngram: counts are the sums of the lesser occurrences") {
  Random random(1);
  const std::vector<std::u32string> alphabets = {
      U"a", U"ab", U"abcdefgh ", U"aé日\U0001f600", U"\U00040000\U0010ffff\U0003ffffa", U"日本語x"};
  for (const std::u32string& letters : alphabets) {
    for (std::uint32_t n = 1; n <= 12; ++n) {
      for (std::size_t length : {0, 2, 12, 60, 700}) {
        const std::u32string a = draw(random, length, letters);
        const std::u32string b = draw(random, length + random() % 9, letters);
        const std::uint32_t expected = plain_common(a, b, n);
        CHECK(common(utf8(a), utf8(b), {n, false}) == expected);
        CHECK(common_ngrams(utf8(a), utf8(b), {n, false}) == expected);
      }
    }
  }
}

TEST_CASE("ngram: what fits is not hashed") {
  const auto hashed = [](const std::string& text, std::uint32_t n) {
    const std::vector<Keyword> all = encode(text, {n, false});
    return std::count_if(all.begin(), all.end(), is_hashed);
  };
  CHECK(hashed("The quick brown fox, 日本語 and \U0001f600 \xff too", 3) == 0);
  CHECK(hashed(utf8(U"\U0003ffff\U0003fffe\U0003fffd"), 3) == 0);
  CHECK(hashed(utf8(U"\U00040000ab"), 3) == 1);
  CHECK(hashed(utf8(U"\U0010ffff\U0010ffff"), 2) == 0);
  CHECK(hashed("abcdefghijk", 8) == 0);
  CHECK(hashed("abcdéfghijk", 8) == 4);
  CHECK(hashed(std::string(514, 'a'), 3) == 0);
  CHECK(hashed(std::string(516, 'a'), 3) == 2);
}

TEST_CASE("ngram: bytes that are no UTF-8 are characters") {
  CHECK(common("a\xff\xfe""b", "a\xff\xfe""b", {}) == 2);
  CHECK(common("a\xff""b", "a\xfe""b", {}) == 0);
  CHECK(common("\xc3\xa9xy", "\xc3xy", {}) == 0);
}

TEST_CASE("ngram: case is folded when asked for") {
  CHECK(common("Straße", "sTRAßE", {}) == 0);
  CHECK(common("Straße", "sTRAßE", {3, true}) == 4);
  CHECK(common_ngrams("ΣΊΣΥΦΟΣ", "σίσυφος", {3, true}) == 5);
  CHECK(common("ПРИВЕТ", "привет", {3, true}) == 4);
}

TEST_CASE("unicode: folding never changes what is folded, and words are letters, marks, digits") {
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const std::uint32_t folded = fold_case(point);
    if (fold_case(folded) != folded) FAIL("U+", point);
    if (folded != point && !(belongs_to_word(point) == belongs_to_word(folded))) FAIL("U+", point);
  }
  CHECK(fold_case('Z') == 'z');
  CHECK(fold_case(U'É') == U'é');
  CHECK(fold_case(U'ẞ') == U'ß');
  CHECK(fold_case(U'Ā') == U'ā');
  CHECK(fold_case(U'ā') == U'ā');
  CHECK(fold_case(0x212a) == 'k');
  for (const char32_t c : {U'a', U'Z', U'0', U'é', U'日', U'٣', U'\u0301', U'क'}) {
    CHECK(belongs_to_word(c));
  }
  for (const char32_t c : {U' ', U'_', U'-', U'’', U'。', U'\u00a0', U'½', U'€', U'\U0001f600'}) {
    CHECK_FALSE(belongs_to_word(c));
  }
  CHECK_FALSE(belongs_to_word(kInvalidByte + 0xe9));
}

TEST_CASE("ngram: a certificate is never wrong, and is given") {
  Random random(3);
  std::size_t given = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const NgramOptions options{1 + static_cast<std::uint32_t>(random() % 4), random() % 3 == 0};
    const std::u32string letters = random() % 2 == 0 ? U"abAB" : U"abcdefghijklé";
    const std::u32string query = draw(random, random() % 30, letters);
    std::vector<std::string> rows;
    for (int i = 0; i < 30; ++i) {
      std::u32string row = random() % 3 == 0 ? draw(random, random() % 30, letters) : query;
      for (std::uint64_t edits = random() % 12; edits > 0 && !row.empty(); --edits) {
        const std::size_t at = random() % row.size();
        switch (random() % 3) {
          case 0: row.erase(at, 1); break;
          case 1: row.insert(at, 1, letters[random() % letters.size()]); break;
          default: row[at] = letters[random() % letters.size()];
        }
      }
      rows.push_back(utf8(row));
    }
    // The rows that match, by count; the first of them are candidates.
    std::vector<std::pair<std::uint32_t, std::size_t>> counts;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint32_t count = common_ngrams(rows[i], utf8(query), options);
      if (count > 0) counts.push_back({count, i});
    }
    std::stable_sort(counts.begin(), counts.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    const std::size_t candidates = std::min<std::size_t>(1 + random() % 20, counts.size());
    const std::uint32_t outside =
        candidates < counts.size() ? counts[candidates - 1].first : 0;
    std::vector<std::size_t> distances;
    std::set<std::size_t> inside;
    for (std::size_t i = 0; i < candidates; ++i) {
      inside.insert(counts[i].second);
      distances.push_back(compute::edit_distance(rows[counts[i].second], utf8(query), nullptr));
    }
    std::sort(distances.begin(), distances.end());
    for (const std::size_t distance : distances) {
      if (!certifies(outside, query.size(), options.n, distance)) {
        ++refused;
        continue;
      }
      ++given;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (inside.contains(i)) continue;
        CHECK(compute::edit_distance(rows[i], utf8(query), nullptr) > distance);
      }
    }
  }
  CHECK(given > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("ngram: the bound of Theorem V.2 at its edge") {
  CHECK(certifies(0, 10, 3, 2));        // 0 < 10 − 3 + 1 − 6
  CHECK(certifies(1, 10, 3, 2));
  CHECK_FALSE(certifies(2, 10, 3, 2));
  CHECK_FALSE(certifies(0, 2, 3, 0));   // a query without grams certifies nothing
  CHECK_FALSE(certifies(0, 10, 3, std::size_t{1} << 40));
}

TEST_CASE("ngram: titles give the known rows") {
  testing::check_truth("titles_edit_queries.tsv", "titles_3gram_gt_top100_50k.tsv",
                       [](const std::string& text) { return encode(text, {}); });
}
