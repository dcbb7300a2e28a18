#include "compute/spelling.h"

#include <cstddef>

#include "compute/edit_distance.h"

namespace warplite::compute {

std::string did_you_mean(std::string_view given, std::string_view list) {
  constexpr std::string_view kSeparators = ", '\"=";
  std::size_t least = given.size() / 3 + 1;
  std::string_view nearest;
  while (!list.empty()) {
    const std::size_t begin = list.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) break;
    list.remove_prefix(begin);
    const std::string_view name = list.substr(0, list.find_first_of(kSeparators));
    list.remove_prefix(name.size());
    const std::size_t distance = edit_distance(given, name, nullptr);
    if (distance >= name.size() || distance > least || (distance == least && !nearest.empty())) {
      continue;
    }
    least = distance;
    nearest = name;
  }
  return nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace warplite::compute
