#include "engine/filter/collation.h"

#include <algorithm>
#include <cstddef>

namespace warplite::engine {
namespace {

char fold(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

std::string_view without_trailing_spaces(std::string_view text) {
  const std::size_t last = text.find_last_not_of(' ');
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

int sign_of(std::ptrdiff_t difference) {
  return difference < 0 ? -1 : difference > 0;
}

}  // namespace

std::string canonical_text(std::string_view text, Collation collation) {
  if (collation == Collation::kRTrim) return std::string(without_trailing_spaces(text));
  std::string out(text);
  if (collation == Collation::kBinary) return out;
  // NOCASE looks no further than the first NUL, and then compares lengths.
  const std::size_t end = std::min(out.find('\0'), out.size());
  for (std::size_t i = 0; i < end; ++i) out[i] = fold(out[i]);
  for (std::size_t i = end; i < out.size(); ++i) out[i] = '\0';
  return out;
}

int compare_text(std::string_view a, std::string_view b, Collation collation) {
  if (collation == Collation::kRTrim) {
    return sign_of(without_trailing_spaces(a).compare(without_trailing_spaces(b)));
  }
  if (collation == Collation::kBinary) return sign_of(a.compare(b));
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    const auto x = static_cast<unsigned char>(fold(a[i]));
    const auto y = static_cast<unsigned char>(fold(b[i]));
    if (x != y) return x < y ? -1 : 1;
    if (x == 0) break;
  }
  return sign_of(static_cast<std::ptrdiff_t>(a.size()) - static_cast<std::ptrdiff_t>(b.size()));
}

}  // namespace warplite::engine
