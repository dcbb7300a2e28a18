// A set of texts against the library's own.
#include "engine/filter/text_set.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>

namespace warplite::engine {

TEST_CASE("a set of texts has what was inserted, once, and nothing else") {
  std::mt19937 random(3);
  const auto text = [&] {
    std::string made(random() % 4, ' ');
    for (char& byte : made) byte = "\0ab\xff"[random() % 4];
    return random() % 8 == 0 ? made + std::string(40, 'c') : made;
  };
  for (const int count : {0, 1, 7, 8, 9, 100, 3000}) {
    CAPTURE(count);
    TextSet set;
    std::set<std::string> expected;
    CHECK(!set.contains(""));
    for (int i = 0; i < count; ++i) {
      const std::string one = text() + (random() % 2 == 0 ? std::to_string(i) : "");
      set.insert(one);
      expected.insert(one);
    }
    REQUIRE(set.size() == expected.size());
    CHECK(set.empty() == expected.empty());
    std::set<std::string> all;
    for (std::size_t i = 0; i < set.size(); ++i) all.emplace(set[i]);
    CHECK(all == expected);
    for (const std::string& one : expected) CHECK(set.contains(one));
    for (int i = 0; i < 200; ++i) {
      const std::string one = text();
      CHECK(set.contains(one) == (expected.count(one) != 0));
    }
  }
}

}  // namespace warplite::engine
