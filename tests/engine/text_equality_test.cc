// Texts compared 64 at a time against texts compared one by one: every length, every byte that may
// differ, and neighbours that continue each other.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/filter/text_equality.h"

using warplite::engine::TextEquality64;

TEST_CASE("text equality: 64 texts at a time") {
  std::mt19937 random(1);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (std::size_t size = 1; size <= 24; ++size) {
    CAPTURE(size);
    for (int round = 0; round < 50; ++round) {
      std::string wanted;
      for (std::size_t i = 0; i < size; ++i) wanted += static_cast<char>(pick(256));
      const TextEquality64 equal(wanted);
      REQUIRE(equal.usable());
      std::string bytes(equal.reach(), wanted[0]);
      std::vector<std::uint32_t> ends;
      std::uint64_t expected = 0;
      for (int i = 0; i < 64; ++i) {
        std::string text = wanted;
        if (pick(2) == 0) text[pick(size)] = static_cast<char>(pick(256));
        if (pick(8) == 0) text.insert(0, pick(20), wanted[0]);
        bytes += text;
        ends.push_back(static_cast<std::uint32_t>(bytes.size()));
        const bool same = bytes.compare(bytes.size() - size, size, wanted) == 0;
        expected |= std::uint64_t{same} << i;
      }
      REQUIRE(equal(bytes.data(), ends.data()) == expected);
    }
  }
  CHECK_FALSE(TextEquality64("").usable());
  CHECK_FALSE(TextEquality64(std::string(25, 'x')).usable());
}
