// Numbers in texts that are no SQL values: settings and JSON.
// Threads: any.
#pragma once

#include <optional>
#include <string_view>

#include "core/value.h"

namespace warplite::sql {

// The number that a text stands for, to SQLite as well: an integer when it is written as one and
// fits, else the nearest real. Returns nothing for what is no number ("12abc", "0x10", "", "1e").
std::optional<Cell> number_of(std::string_view text);

}  // namespace warplite::sql
