// warp_config(name [, value]): settings of the process.
// Threads: any; a setting changes for every connection at once.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/value.h"

namespace warplite::sql {

// The value of a setting. Throws Error{kInvalid} that lists the names there are.
Value read_setting(std::string_view name);
// Changes it and returns the new value. Sizes are bytes, or text such as '2GB' (units of 1,024).
Value write_setting(std::string_view name, const Cell& value);

// Whether long builds say how far they are.
bool progress_enabled();

}  // namespace warplite::sql
