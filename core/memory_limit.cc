#include "core/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace warplite {
namespace {

constexpr const char* kRoot = "/sys/fs/cgroup";

// Takes what comes before `separator` off `text`, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    if (take_until(controllers, ',') == "memory") return true;
  }
  return false;
}

// The first version says that there is no limit by one that no machine has, the second by "max".
std::size_t parse(const std::string& text) {
  std::uint64_t bytes = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), bytes);
  constexpr std::uint64_t kNone = std::uint64_t{1} << 60;
  return end.ec == std::errc() && bytes < kNone ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace

// In a container, the path may be one outside of it, and the root is its own group.
std::size_t memory_limit_of_groups(
    std::string_view groups, const std::function<std::string(const std::string& path)>& read) {
  std::size_t least = 0;
  while (!groups.empty()) {
    std::string_view rest = take_until(groups, '\n');  // number:controllers:path
    take_until(rest, ':');
    const std::string_view controllers = take_until(rest, ':');
    const bool second = controllers.empty();
    if (!second && !names_memory(controllers)) continue;
    const std::string root = second ? kRoot : std::string(kRoot) + "/memory";
    const char* const file = second ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string path(rest);; path.resize(path.rfind('/'))) {
      while (path.ends_with('/')) path.pop_back();
      const std::size_t limit = parse(read(root + path + file));
      if (limit != 0) least = least == 0 ? limit : std::min(least, limit);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace warplite
