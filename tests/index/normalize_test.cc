// Unicode normalisation: the hard cases of UAX #15, what holds of every code point, and what
// encoders make of normalised texts. tests/unicode compares it with that of Python.
#include "index/text/normalize.h"

#include <doctest/doctest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compute/edit_distance.h"
#include "index/text/text_index.h"
#include "index/text/unicode.h"

using namespace warplite;
using namespace warplite::index;

namespace {

CodePoints normal(Normalization form, std::u32string_view text) {
  CodePoints points(text.begin(), text.end());
  normalize(form, points);
  return points;
}
CodePoints plain(std::u32string_view text) { return {text.begin(), text.end()}; }

CodePoints nfc(std::u32string_view text) { return normal(Normalization::kNfc, text); }
CodePoints nfkc(std::u32string_view text) { return normal(Normalization::kNfkc, text); }

CodePoints read(std::string_view text, bool fold, Normalization form) {
  CodePoints points;
  read_characters(text, fold, form, points);
  return points;
}

std::size_t distance(const TextIndex& index, std::string_view a, std::string_view b) {
  CodePoints x, y;
  comparable(index, a, x);
  comparable(index, b, y);
  return compute::EditPattern(x).distance(y, nullptr);
}

}  // namespace

TEST_CASE("normalize: composition") {
  CHECK(nfc(U"") == plain(U""));
  CHECK(nfc(U"plain ASCII") == plain(U"plain ASCII"));
  CHECK(nfc(U"e\u0301te\u0301") == plain(U"\u00e9t\u00e9"));
  CHECK(nfc(U"\u00e9") == plain(U"\u00e9"));
  CHECK(nfc(U"u\u0308\u0304") == plain(U"\u01d6"));       // twice
  CHECK(nfc(U"\u00fc\u0304") == plain(U"\u01d6"));
  CHECK(nfc(U"q\u0301") == plain(U"q\u0301"));            // no such letter
  CHECK(nfc(U"\u0301e") == plain(U"\u0301e"));            // nothing to join
  CHECK(nfc(U"\u0301\u0301") == plain(U"\u0301\u0301"));
  CHECK(nfc(U"\u09c7\u09be") == plain(U"\u09cb"));        // letters of class 0 that join
  CHECK(nfc(U"\u09c7\u0334\u09be") == plain(U"\u09c7\u0334\u09be"));  // unless something is between
  CHECK(nfc(U"\U00011099\U000110ba") == plain(U"\U0001109a"));
}

TEST_CASE("normalize: marks in canonical order") {
  CHECK(nfc(U"a\u0301\u0323") == plain(U"\u1ea1\u0301"));
  CHECK(nfc(U"a\u0323\u0301") == plain(U"\u1ea1\u0301"));
  CHECK(nfc(U"q\u0307\u0323") == plain(U"q\u0323\u0307"));
  CHECK(nfc(U"q\u0323\u0307") == plain(U"q\u0323\u0307"));
  CHECK(nfc(U"\u1e0b\u0323") == plain(U"\u1e0d\u0307"));  // ḍ̇ is ḍ̇
  CHECK(nfc(U"a\u0300\u0301") == plain(U"\u00e0\u0301"));  // of a class: as they came
  CHECK(nfc(U"a\u0301\u0300") == plain(U"\u00e1\u0300"));
  CHECK(nfc(U"a\u0315\u0300\u05ae\u0062") == plain(U"\u00e0\u05ae\u0315b"));
  // Blocked by a mark of the same class that joins nothing.
  CHECK(nfc(U"a\u030d\u0301") == plain(U"a\u030d\u0301"));
}

TEST_CASE("normalize: singletons and what is not composed") {
  CHECK(nfc(U"\u212b") == plain(U"\u00c5"));              // Ångström
  CHECK(nfc(U"\u2126\u212a") == plain(U"\u03a9K"));       // ohm, kelvin
  CHECK(nfc(U"\uf900") == plain(U"\u8c48"));
  CHECK(nfc(U"\U0002f800") == plain(U"\u4e3d"));
  CHECK(nfc(U"\u0958") == plain(U"\u0915\u093c"));        // composition exclusions
  CHECK(nfc(U"\u0915\u093c") == plain(U"\u0915\u093c"));
  CHECK(nfc(U"\ufb1d") == plain(U"\u05d9\u05b4"));
  CHECK(nfc(U"\u2adc") == plain(U"\u2add\u0338"));
  CHECK(nfc(U"\u0344") == plain(U"\u0308\u0301"));        // decomposes into marks alone
  CHECK(nfc(U"\u03b9\u0344") == plain(U"\u0390"));
  CHECK(nfc(U"\u0f73\u0f80") == plain(U"\u0f71\u0f72\u0f80"));
}

TEST_CASE("normalize: Hangul") {
  CHECK(nfc(U"\u1100\u1161") == plain(U"\uac00"));
  CHECK(nfc(U"\u1100\u1161\u11a8") == plain(U"\uac01"));
  CHECK(nfc(U"\uac00\u11a8") == plain(U"\uac01"));
  CHECK(nfc(U"\uac01\u11a8") == plain(U"\uac01\u11a8"));
  CHECK(nfc(U"\u1112\u1175\u11c2") == plain(U"\ud7a3"));
  CHECK(nfc(U"\ud7a3") == plain(U"\ud7a3"));
  CHECK(nfc(U"\uac00\u11a7") == plain(U"\uac00\u11a7"));  // stands for none, and joins nothing
  CHECK(nfc(U"\u1113\u1161") == plain(U"\u1113\u1161"));
  CHECK(nfc(U"\u1100\u1100\u1161") == plain(U"\u1100\uac00"));
  CHECK(nfkc(U"\u3131") == plain(U"\u1100"));
}

TEST_CASE("normalize: compatibility") {
  CHECK(nfc(U"\ufb01 \u00b2 \uff21 \u2460") == plain(U"\ufb01 \u00b2 \uff21 \u2460"));
  CHECK(nfkc(U"\ufb01 \u00b2 \uff21 \u2460") == plain(U"fi 2 A 1"));
  CHECK(nfkc(U"\u1e9b\u0323") == plain(U"\u1e69"));
  CHECK(nfc(U"\u1e9b\u0323") == plain(U"\u1e9b\u0323"));
  CHECK(nfkc(U"\u00a0") == plain(U" "));
  CHECK(nfkc(U"\uff76\uff9e") == plain(U"\u30ac"));       // half-width ka and its mark
  CHECK(nfkc(U"\ufdfa").size() == 18);
  CHECK(nfkc(U"\U0001d56c\U0001d7d8") == plain(U"A0"));
}

TEST_CASE("normalize: what it leaves alone") {
  const CodePoints bytes{'a', kInvalidByte + 0xcc, 'e', kInvalidByte + 0xff, 0x301};
  using enum Normalization;
  for (const Normalization form : {kNone, kNfc, kNfkc}) {
    CodePoints points = bytes;
    normalize(form, points);
    CHECK(points == bytes);
    CHECK(normal(form, U"\U00050000\U0010ffff\ufffe") == plain(U"\U00050000\U0010ffff\ufffe"));
  }
  CHECK(normal(Normalization::kNone, U"e\u0301\u212b") == plain(U"e\u0301\u212b"));
}

TEST_CASE("normalize: a long run of marks") {
  std::mt19937 random(1);
  std::u32string text = U"a";
  std::vector<std::size_t> counts(2);
  for (int i = 0; i < 300000; ++i) {
    const std::size_t below = random() % 2;
    ++counts[below];
    text += below == 1 ? U'\u0316' : U'\u030d';
  }
  CodePoints expected{'a'};
  expected.insert(expected.end(), counts[1], 0x316);
  expected.insert(expected.end(), counts[0], 0x30d);
  CHECK(nfc(text) == expected);
}

TEST_CASE("normalize: what is normal stays so") {
  std::mt19937 random(2);
  for (const Normalization form : {Normalization::kNfc, Normalization::kNfkc}) {
    std::vector<char32_t> interesting;
    for (char32_t point = 0; point < 0x30000; ++point) {
      const CodePoints once = normal(form, std::u32string(1, point));
      CodePoints twice = once;
      normalize(form, twice);
      if (twice != once) FAIL("U+", static_cast<unsigned>(point));
      if (once != CodePoints{point}) interesting.push_back(point);
    }
    CHECK(interesting.size() > 1000);
    for (char32_t point = 0x300; point < 0x370; ++point) interesting.push_back(point);
    for (char32_t point = 'a'; point < 'z'; ++point) interesting.push_back(point);
    for (int i = 0; i < 50000; ++i) {
      std::u32string text;
      for (int n = 0; n < 8; ++n) text += interesting[random() % interesting.size()];
      const CodePoints once = normal(form, text);
      CodePoints twice = once;
      normalize(form, twice);
      REQUIRE(twice == once);
    }
  }
}

TEST_CASE("normalize: folded texts are normal, and folding them again changes nothing") {
  for (const Normalization form : {Normalization::kNfc, Normalization::kNfkc}) {
    CHECK(read("J\xcc\x8c", true, form) == plain(U"\u01f0"));
    CHECK(read("\xc7\xb0", true, form) == plain(U"\u01f0"));
    CHECK(read("A\xcc\x8a", true, form) == plain(U"\u00e5"));
    CHECK(read("\xe2\x84\xab", true, form) == plain(U"\u00e5"));
    CHECK(read("\xce\xb1\xcd\x85", true, form) == plain(U"\u1fb3"));  // iota subscript joins first
    CHECK(read("Plain", true, form) == plain(U"plain"));
    CHECK(read("\xc3", true, form) == CodePoints{kInvalidByte + 0xc3});
    for (std::uint32_t point = 0; point < 0x30000; ++point) {
      for (const std::uint32_t mark : {0u, 0x301u, 0x308u, 0x345u}) {
        CodePoints points{point, mark};
        if (mark == 0) points.pop_back();
        normalize(form, points);
        for (std::uint32_t& one : points) one = fold_case(one);
        normalize(form, points);
        for (const std::uint32_t one : points) {
          if (fold_case(one) != one) FAIL("U+", point, " gives U+", one);
        }
      }
    }
  }
  CHECK(read("\xef\xbc\xa1\xef\xac\x81", true, Normalization::kNfkc) == plain(U"afi"));
}

TEST_CASE("normalize: options of index=ngram and index=words") {
  const auto parse = [](const char* kind, std::map<std::string, std::string> parameters) {
    return parse_text_index({kind, std::move(parameters)});
  };
  const TextIndex raw = parse("ngram", {{"normalize", "none"}});
  const TextIndex composed = parse("ngram", {{"normalize", "nfc"}});
  const TextIndex compatible = parse("ngram", {{"normalize", "NFKC"}, {"fold", "1"}});
  CHECK(raw.ngram.normalization == Normalization::kNone);
  CHECK(distance(raw, "cafe\xcc\x81", "caf\xc3\xa9") == 2);
  CHECK(distance(composed, "cafe\xcc\x81", "caf\xc3\xa9") == 0);
  CHECK(distance(composed, "e\xcc\x81\xcc\x81\xcc", "\xc3\xa9\xcc") == 1);  // a mark, and a byte
  CHECK(distance(composed, "\xef\xac\x81n", "fin") == 2);
  CHECK(distance(compatible, "\xef\xac\x81N", "fin") == 0);
  // Grams are of the same characters as distances.
  CHECK(common_keywords(composed, "un cafe\xcc\x81", "un caf\xc3\xa9") == 5);
  CHECK(count_keywords(composed, "cafe\xcc\x81") == 2);
  std::vector<compute::Keyword> a, b;
  TextEncoder(composed).encode("un cafe\xcc\x81", a);
  TextEncoder(composed).encode("un caf\xc3\xa9", b);
  CHECK(a == b);
  TextEncoder(raw).encode("un cafe\xcc\x81", a);
  CHECK(a != b);

  const TextIndex words = parse("words", {{"normalize", "nfkc"}});
  CHECK(common_keywords(words, "Cafe\xcc\x81 \xef\xac\x81n", "caf\xc3\xa9 FIN \xc2\xbd") == 2);
  CHECK(common_keywords(parse("words", {}), "cafe\xcc\x81", "caf\xc3\xa9") == 0);
  CHECK(count_keywords(words, "\xc2\xbd") == 2);  // ½ is 1⁄2
  TextEncoder(words).encode("cafe\xcc\x81", a);
  TextEncoder(words).encode("CAF\xc3\xa9", b);
  CHECK(a == b);

  CHECK_THROWS_WITH(parse("words", {{"normalize", "nfd"}}),
                    "index=words expects normalize=none, nfc or nfkc, but \"nfd\" was given");
  CHECK_THROWS_WITH(parse("ngram", {{"normalise", "nfc"}}),
                    "index=ngram takes the parameters n, fold, normalize, but \"normalise\" was "
                    "given");
}
