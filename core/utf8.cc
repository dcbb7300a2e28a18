#include "core/utf8.h"

#include <algorithm>
#include <cstddef>

namespace warplite {
namespace {

// The length of the valid UTF-8 sequence at the front of `text`, or 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
  if (lead == 0xed && byte(1) > 0x9f) return 0;  // surrogates
  if (lead == 0xf0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;  // past U+10FFFF
  return length;
}

}  // namespace

void decode_utf8(std::string_view text, CodePoints& out) {
  out.clear();
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    std::uint32_t point = static_cast<unsigned char>(text[0]);
    if (length == 0) point += kInvalidByte;
    if (length > 1) point &= 0x7fu >> length;
    for (std::size_t i = 1; i < length; ++i) {
      point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
    }
    out.push_back(point);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

std::string printable(std::string_view bytes, std::size_t most) {
  constexpr std::string_view kEllipsis = "…", kDigits = "0123456789ABCDEF";
  std::string text;
  std::size_t fits = 0;  // of the text, with an ellipsis after it
  while (!bytes.empty()) {
    const std::size_t length = std::max<std::size_t>(sequence_length(bytes), 1);
    const auto byte = static_cast<unsigned char>(bytes[0]);
    const bool control = byte < 0x20 ? byte != '\n' && byte != '\t' : byte == 0x7f;
    if (control || (length == 1 && byte >= 0x80)) {
      text.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      text.append(bytes.substr(0, length));
    }
    if (text.size() > most) {
      text.resize(fits);
      return text.append(kEllipsis);
    }
    if (text.size() + kEllipsis.size() <= most) fits = text.size();
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace warplite
