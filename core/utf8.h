// Texts as sequences of Unicode code points.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace warplite {

using CodePoints = std::vector<std::uint32_t>;

// A byte that belongs to no valid sequence counts as a character of its own: kInvalidByte and the
// byte. No valid sequence gives these surrogates, so that it equals only itself.
inline constexpr std::uint32_t kInvalidByte = 0xdc00;

// Replaces the contents of `out`.
void decode_utf8(std::string_view text, CodePoints& out);

}  // namespace warplite
