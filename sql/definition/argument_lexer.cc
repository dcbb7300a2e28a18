#include "sql/definition/argument_lexer.h"

#include <algorithm>

namespace warplite::sql {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool starts_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool continues_word(char c) { return starts_word(c) || is_digit(c) || c == '$'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    do {
      skip_blanks();
      tokens.push_back(next());
      tokens.back().end = at_;
    } while (tokens.back().kind != Token::Kind::kEnd);
    return tokens;
  }

 private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  // Blanks and SQL comments.
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "--") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const std::size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  Token next() {
    if (at_ >= text_.size()) return {};
    const char c = text_[at_];
    if (c == '"' || c == '`' || c == '\'') return quoted(c);
    if (c == '[') return bracket();
    if (is_digit(c) || (c == '-' && is_digit(at(at_ + 1)))) {
      return run(Token::Kind::kNumber, [](char d) { return continues_word(d) || d == '.'; });
    }
    if (starts_word(c)) return run(Token::Kind::kWord, continues_word);
    ++at_;
    return {Token::Kind::kSymbol, std::string(1, c)};
  }

  template <typename Continues>
  Token run(Token::Kind kind, Continues continues) {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && continues(text_[at_])) ++at_;
    return {kind, std::string(text_.substr(begin, at_ - begin))};
  }

  Token quoted(char quote) {
    Token token{Token::Kind::kQuoted, {}};
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        if (at(at_) != quote) break;
      }
      token.text += text_[at_];
    }
    return token;
  }

  Token bracket() {
    const std::size_t end = std::min(text_.find(']', at_), text_.size());
    std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = std::min(end + 1, text_.size());
    while (!inside.empty() && is_space(inside.front())) inside.remove_prefix(1);
    while (!inside.empty() && is_space(inside.back())) inside.remove_suffix(1);
    return {Token::Kind::kBracket, std::string(inside)};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool Token::is_word(std::string_view lower) const {
  return kind == Kind::kWord && ascii_lower(text) == lower;
}

std::vector<Token> tokenize(std::string_view argument) { return Lexer(argument).all(); }

std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace warplite::sql
