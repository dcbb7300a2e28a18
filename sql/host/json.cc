#include "sql/host/json.h"

#include <algorithm>
#include <utility>

namespace warplite::sql {

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text), reader_(text) {}

  Json parse() {
    Json json = value(reader_.next());
    reader_.next();  // nothing may follow
    return json;
  }

 private:
  // Goes as deep as the reader allows.
  Json value(JsonToken token);
  Json::List list();
  Json::Object object();
  static void check_keys(const Json::Object& object);

  std::string_view text_;
  JsonReader reader_;
};

Json JsonParser::value(JsonToken token) {
  const std::size_t begin = reader_.begin();
  Json json;
  switch (token) {
    case JsonToken::kFalse: json.value_ = false; break;
    case JsonToken::kTrue: json.value_ = true; break;
    case JsonToken::kNumber: {
      const Cell number = reader_.number();
      if (number.kind == CellKind::kInteger) {
        json.value_ = number.integer;
      } else {
        json.value_ = number.real;
      }
      break;
    }
    case JsonToken::kText:
      json.value_ = std::make_unique<std::string>(std::move(reader_.string()));
      break;
    case JsonToken::kListBegin: json.value_ = std::make_unique<Json::List>(list()); break;
    case JsonToken::kObjectBegin: json.value_ = std::make_unique<Json::Object>(object()); break;
    default: break;  // null
  }
  json.source_ = text_.substr(begin, reader_.end() - begin);
  return json;
}

Json::List JsonParser::list() {
  Json::List list;
  for (JsonToken token; (token = reader_.next()) != JsonToken::kListEnd;) {
    list.push_back(value(token));
  }
  return list;
}

Json::Object JsonParser::object() {
  Json::Object object;
  while (reader_.next() != JsonToken::kObjectEnd) {
    std::string key = std::move(reader_.string());
    object.push_back({std::move(key), value(reader_.next())});
  }
  check_keys(object);
  return object;
}

void JsonParser::check_keys(const Json::Object& object) {
  std::vector<std::string_view> keys;
  for (const Json::Member& member : object) keys.push_back(member.key);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice != keys.end()) throw JsonError("the key \"" + std::string(*twice) + "\" comes twice");
}

Json Json::parse(std::string_view text) {
  if (text.size() > kMostJsonBytes) {
    throw JsonError("JSON of " + std::to_string(text.size()) + " bytes, where " +
                    std::to_string(kMostJsonBytes) + " are the most");
  }
  return JsonParser(text).parse();
}

const Json* Json::find(std::string_view key) const {
  const auto found = std::ranges::find(object(), key, &Member::key);
  return found != object().end() ? &found->value : nullptr;
}

}  // namespace warplite::sql
