// Names as messages and SQL text show them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warplite {

// "a, b or c": what `name` says of the rows that `chosen` takes.
template <typename Rows, typename Chosen, typename Name>
std::string listing(const Rows& rows, const Chosen& chosen, const Name& name,
                    std::string_view last = " or ") {
  std::vector<std::string_view> names;
  for (const auto& row : rows) {
    if (chosen(row)) names.push_back(name(row));
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += i + 1 == names.size() ? last : ", ";
    text += names[i];
  }
  return text;
}

// A name as SQL text: "…", with its quotes doubled.
inline std::string quoted_name(std::string_view name) {
  std::string text = "\"";
  for (char c : name) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}

}  // namespace warplite
