// One argument of CREATE VIRTUAL TABLE … USING warp(…): a column or a table option.
// Errors: Error{kInvalid} that quotes the argument and says what was expected;
// Error{kUnsupported} for what this version does not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "sql/definition/argument_lexer.h"
#include "sql/definition/definition.h"

namespace warplite::sql {

// REQUIRES: `table` and `argument` outlive the parser.
class ArgumentParser {
 public:
  ArgumentParser(const std::string& table, const std::string& argument)
      : table_(table), argument_(argument), tokens_(tokenize(argument)) {}

  bool is_table_option() const {
    return tokens_[0].kind == Token::Kind::kWord && tokens_[1].is('=');
  }
  // REQUIRES: is_table_option()
  std::string table_option_name() const { return ascii_lower(tokens_[0].text); }
  void table_option(TableDefinition& definition);
  ColumnDefinition column();

  [[noreturn]] void fail(const std::string& problem,
                         ErrorKind kind = ErrorKind::kInvalid) const {
    throw Error(kind, table_ + ": \"" + argument_ + "\": " + problem);
  }
  [[noreturn]] void expected(std::string_view what) const {
    const Token& came = token();
    fail("expected " + std::string(what) + ", got " +
         (came.kind == Token::Kind::kEnd ? "the end" : "\"" + came.text + "\""));
  }

 private:
  const Token& token() const { return tokens_[at_]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool accept(char symbol) {
    if (!token().is(symbol)) return false;
    ++at_;
    return true;
  }

  std::string name();
  std::string value(std::string_view what);
  void type(ColumnDefinition& column);
  void aux_type(ColumnDefinition& column);
  void vector_type(ColumnDefinition& column, ElementType type);
  void sparse_type(ColumnDefinition& column);
  std::uint32_t dimension(const std::string& example, std::uint32_t most);
  void option(ColumnDefinition& column);
  void key(ColumnDefinition& column, ColumnKind kind);
  void collate(ColumnDefinition& column);
  void distance(ColumnDefinition& column);
  void index(ColumnDefinition& column);
  void text_index(ColumnDefinition& column) const;
  void check_index(const ColumnDefinition& column) const;
  void check_plain_index(const ColumnDefinition& column) const;
  void check_match_index(const ColumnDefinition& column) const;

  const std::string& table_;
  const std::string& argument_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  bool has_distance_ = false;
  bool has_index_ = false;
  bool has_collation_ = false;
};

}  // namespace warplite::sql
