// warp_config(name [, value]): settings of the process.
// Threads: any; a setting changes for every connection at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/value.h"

namespace warplite::sql {

// The value of a setting. Throws Error{kInvalid} that lists the names there are.
Value read_setting(std::string_view name);
// Changes it and returns the new value. Sizes are bytes, or text such as '2GB' (units of 1,024).
// Throws Error{kInvalid} for what is no value of it, and where the settings are locked.
Value write_setting(std::string_view name, const Cell& value);

// Call this before files other than the connection's own are read. It throws Error{kInvalid}, which
// begins with `what`, if that was forbidden.
void check_external_access(const std::string& what);

}  // namespace warplite::sql
