// Texts as sequences of Unicode code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warplite {

using CodePoints = std::vector<std::uint32_t>;

// A byte that belongs to no valid sequence counts as a character of its own: kInvalidByte and the
// byte. No valid sequence gives these surrogates, so that it equals only itself.
inline constexpr std::uint32_t kInvalidByte = 0xdc00;

// Replaces the contents of `out`.
void decode_utf8(std::string_view text, CodePoints& out);

// Text that may be shown to anybody, of bytes that came from anywhere: valid UTF-8 of at most `most`
// bytes, without control characters but tabs and ends of lines. Other bytes are written as \xFF, and
// what does not fit ends in an ellipsis.
std::string printable(std::string_view bytes, std::size_t most);

}  // namespace warplite
