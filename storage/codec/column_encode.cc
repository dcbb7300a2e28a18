#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "storage/codec/column_codec.h"
#include "storage/codec/column_format.h"

namespace warplite::storage {
namespace {

std::uint8_t width_for(std::uint64_t largest) {
  if (largest == 0) return 0;
  if (largest <= 0xff) return 1;
  if (largest <= 0xffff) return 2;
  return largest <= 0xffffffff ? 4 : 8;
}

void put_narrow(std::string& out, std::uint64_t value, std::uint8_t width) {
  char bytes[8];
  std::memcpy(bytes, &value, 8);
  out.append(bytes, width);
}

void put_prefix(const Column& column, Prefix prefix, std::string& out) {
  prefix.has_nulls = column.has_nulls() ? 1 : 0;
  out.append(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  if (!column.has_nulls()) return;
  const Bitmap& nulls = column.nulls();
  out.append(reinterpret_cast<const char*>(nulls.words()), nulls.word_count() * 8);
}

void encode_integers(const Column& column, std::string& out) {
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::min();
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (column.is_null(row)) continue;
    low = std::min(low, column.integers()[row]);
    high = std::max(high, column.integers()[row]);
  }
  const std::uint64_t base = static_cast<std::uint64_t>(low);
  const std::uint8_t width = width_for(static_cast<std::uint64_t>(high) - base);
  put_prefix(column, {Encoding::kInteger, width, 0, 0, 0, base}, out);
  for (std::size_t row = 0; row < column.size(); ++row) {
    const auto value = static_cast<std::uint64_t>(column.integers()[row]);
    put_narrow(out, column.is_null(row) ? 0 : value - base, width);
  }
}

void encode_reals(const Column& column, std::string& out) {
  put_prefix(column, {Encoding::kReal, 8, 0, 0, 0, 0}, out);
  out.append(reinterpret_cast<const char*>(column.reals().data()), column.size() * 8);
}

void encode_texts(const Column& column, std::string& out) {
  std::size_t longest = 0, bytes = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    longest = std::max(longest, column.text(row).size());
    bytes += column.text(row).size();
  }
  const std::uint8_t width = width_for(longest);
  put_prefix(column, {Encoding::kText, width, 0, 0, 0, bytes}, out);
  for (std::size_t row = 0; row < column.size(); ++row) {
    put_narrow(out, column.text(row).size(), width);
  }
  for (std::size_t row = 0; row < column.size(); ++row) out.append(column.text(row));
}

// The distinct texts of a column, and which of them each row has (0 for NULL).
struct Dictionary {
  std::vector<std::string_view> texts;  // ascending
  std::vector<std::uint32_t> codes;
  std::size_t bytes = 0;  // of the texts
};

// Returns nothing when there are too many distinct texts to be worth it.
std::optional<Dictionary> make_dictionary(const Column& column) {
  Dictionary dictionary;
  std::unordered_map<std::string_view, std::uint32_t> seen;
  std::vector<std::string_view>& texts = dictionary.texts;
  const std::size_t limit = std::min(kMaxDictionary, column.size() / 8);
  for (std::size_t row = 0; row < column.size(); ++row) {
    std::uint32_t& code = dictionary.codes.emplace_back(0);
    if (column.is_null(row)) continue;
    const std::string_view text = column.text(row);
    const auto [entry, fresh] = seen.try_emplace(text, static_cast<std::uint32_t>(texts.size()));
    code = entry->second;
    if (!fresh) continue;
    texts.push_back(text);
    dictionary.bytes += text.size();
    if (texts.size() > limit) return std::nullopt;
  }
  // Codes were given in order of appearance: renumber them.
  std::sort(texts.begin(), texts.end());
  std::vector<std::uint32_t> renumbered(texts.size());
  for (std::uint32_t code = 0; code < texts.size(); ++code) renumbered[seen[texts[code]]] = code;
  for (std::size_t row = 0; row < column.size(); ++row) {
    std::uint32_t& code = dictionary.codes[row];
    code = column.is_null(row) ? 0 : renumbered[code];
  }
  return dictionary;
}

void encode_dictionary(const Column& column, const Dictionary& dictionary, std::string& out) {
  const auto count = static_cast<std::uint32_t>(dictionary.texts.size());
  const std::uint8_t width = width_for(count - 1);
  put_prefix(column, {Encoding::kDictionary, width, 0, 0, count, dictionary.bytes}, out);
  for (std::string_view text : dictionary.texts) put_narrow(out, text.size(), 4);
  for (std::string_view text : dictionary.texts) out.append(text);
  for (std::uint32_t code : dictionary.codes) put_narrow(out, code, width);
}

}  // namespace

void encode_column(const Column& column, std::string& out) {
  switch (column.type()) {
    case PlainType::kInteger:
    case PlainType::kBoolean: return encode_integers(column, out);
    case PlainType::kReal: return encode_reals(column, out);
    case PlainType::kText:
      if (const auto found = make_dictionary(column)) return encode_dictionary(column, *found, out);
      return encode_texts(column, out);
    case PlainType::kSparse: return encode_texts(column, out);
  }
}

}  // namespace warplite::storage
