// Normalises texts for normalize_test.py. A line holds the code points of a text, in hexadecimal;
// so does the line that answers it.
//
// usage: warplite_normalize_filter nfc|nfkc
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "index/text/normalize.h"

int main(int count, char** arguments) {
  using warplite::index::Normalization;
  if (count != 2) return 2;
  const bool nfc = std::string(arguments[1]) == "nfc";
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    warplite::CodePoints points;
    for (std::uint32_t point = 0; in >> std::hex >> point;) points.push_back(point);
    warplite::index::normalize(nfc ? Normalization::kNfc : Normalization::kNfkc, points);
    for (const std::uint32_t point : points) std::printf("%" PRIx32 " ", point);
    std::puts("");
  }
}
