// How much memory the control groups of a process leave it, where a container or a service manager
// has put it into one. Linux's; elsewhere there are no such files.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace warplite {

// Returns the least limit in bytes of the groups that `groups` names, the text of /proc/self/cgroup,
// and of those around them; 0: there is none. `read` returns what a file holds, or "".
std::size_t memory_limit_of_groups(std::string_view groups,
                                   const std::function<std::string(const std::string& path)>& read);

}  // namespace warplite
