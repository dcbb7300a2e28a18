// A value of JSON in memory: queries of match counts and options are read as one.
// Bounds: kMostJsonBytes of text, kMostJsonLevels of nesting (json_reader.h), 32 bytes a value. Ending
// a value allocates nothing.
// Threads: as a std::vector. Ownership: borrows the text for source() alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/value.h"
#include "sql/host/json_reader.h"

namespace warplite::sql {

inline constexpr std::size_t kMostJsonBytes = std::size_t{16} << 20;

class Json {
 public:
  struct Member;
  using List = std::vector<Json>;
  using Object = std::vector<Member>;

  // Throws JsonError: what the reader refuses, text that is too long, a key that comes twice.
  static Json parse(std::string_view text);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_text() const { return std::holds_alternative<std::unique_ptr<std::string>>(value_); }
  bool is_list() const { return std::holds_alternative<std::unique_ptr<List>>(value_); }
  bool is_object() const { return std::holds_alternative<std::unique_ptr<Object>>(value_); }

  // REQUIRES: the value is one.
  bool boolean() const { return std::get<bool>(value_); }
  std::int64_t integer() const { return std::get<std::int64_t>(value_); }
  // An integer, or a real that is perhaps infinite.
  Cell number() const {
    return is_integer() ? Cell::of(integer()) : Cell::of(std::get<double>(value_));
  }
  const std::string& text() const { return *std::get<std::unique_ptr<std::string>>(value_); }
  const List& list() const { return *std::get<std::unique_ptr<List>>(value_); }
  const Object& object() const { return *std::get<std::unique_ptr<Object>>(value_); }
  // Returns an object's value of this key; null when the object has no such key.
  const Json* find(std::string_view key) const;

  // The value as it was written.
  std::string_view source() const { return source_; }

 private:
  friend class JsonParser;

  std::variant<std::monostate, bool, std::int64_t, double, std::unique_ptr<std::string>,
               std::unique_ptr<List>, std::unique_ptr<Object>>
      value_;
  std::string_view source_;
};

struct Json::Member {
  std::string key;
  Json value;
};

}  // namespace warplite::sql
