// What a misspelt name was probably meant to be, for messages.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace warplite::compute {

// Returns "; did you mean nprobe?" where a name of the list "lists, nprobe" differs from `given` in few
// letters; else nothing. Quotes around names in the list are left out.
std::string did_you_mean(std::string_view given, std::string_view list);

}  // namespace warplite::compute
