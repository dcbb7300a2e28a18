// Unicode normalisation (UAX #15) after Unicode 14: of texts that look the same, one.
// Bytes that belong to no UTF-8 sequence (core/utf8.h) and code points that Unicode 14 does not
// assign stay what they are.
// Threads: any.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/utf8.h"

namespace warplite::index {

enum class Normalization : std::uint8_t {
  kNone,
  kNfc,   // canonical: e and an acute accent are é, in whatever order marks come
  kNfkc,  // compatibility as well: ﬁ is fi, ² is 2, full-width letters are letters
};

void normalize(Normalization form, CodePoints& points);

// The characters by which texts are compared: those of the text, normalised; with `fold` each is
// then case-folded (unicode.h), and they are normalised again, since J̌ is two characters and its
// small letter one.
void read_characters(std::string_view text, bool fold, Normalization normalization,
                     CodePoints& out);

}  // namespace warplite::index
