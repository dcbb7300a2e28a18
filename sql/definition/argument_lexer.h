// The words of one module argument, e.g. `embedding FLOAT[768] index=flat`.
// SQLite hands arguments over as they were written, comments included.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warplite::sql {

struct Token {
  enum class Kind {
    kWord,     // name, FLOAT, l2
    kQuoted,   // "a b", `a b`, 'a b': text without the quotes
    kBracket,  // [768], [a b]: what the brackets hold, without outer blanks
    kNumber,   // 1024, 0.5, -1
    kSymbol,   // = ( ) , + or any other single character
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::size_t end = 0;  // where in the argument what follows it begins

  bool is(char symbol) const { return kind == Kind::kSymbol && text[0] == symbol; }
  bool is_word(std::string_view lower) const;  // ASCII case-insensitive
};

// Ends with a kEnd token. A quote or bracket that is never closed runs to the end.
std::vector<Token> tokenize(std::string_view argument);

std::string ascii_lower(std::string_view text);

}  // namespace warplite::sql
