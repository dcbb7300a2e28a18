// The three collations that every SQLite has.
#pragma once

#include <string>
#include <string_view>

#include "core/value.h"

namespace warplite::engine {

// Text as the collation sees it: equal exactly when equal under it.
std::string canonical_text(std::string_view text, Collation collation);
// Order of two texts under a collation: -1, 0 or 1.
int compare_text(std::string_view a, std::string_view b, Collation collation);

}  // namespace warplite::engine
