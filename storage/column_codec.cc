#include "storage/column_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "storage/block_codec.h"
#include "storage/wire.h"

namespace warplite::storage {
namespace {

// Persisted: values never change.
enum class Encoding : std::uint8_t { kInteger = 1, kReal = 2, kText = 3, kDictionary = 4 };

constexpr std::size_t kMaxDictionary = 65536;  // codes take at most two bytes

// The first 16 bytes of the payload, as they lie in the file.
struct Prefix {
  Encoding encoding;
  std::uint8_t width;      // bytes per row: of an integer, a length or a code
  std::uint8_t has_nulls;  // 1: a bitmap of NULL rows follows
  std::uint8_t zero;
  std::uint32_t count;     // entries of the dictionary
  std::uint64_t base;      // added to every integer; of texts, their bytes in all
};
static_assert(sizeof(Prefix) == 16);

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

std::uint64_t get_narrow(const std::byte* from, std::size_t row, std::uint8_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, from + row * width, width);
  return value;
}

// Calls visit(row, value) with width fixed at compile time, which keeps the loop tight.
template <typename Visit>
void for_each_narrow(std::span<const std::byte> values, std::size_t rows, std::uint8_t width,
                     Visit&& visit) {
  const auto loop = [&]<std::uint8_t kWidth>() {
    for (std::size_t row = 0; row < rows; ++row) {
      visit(row, get_narrow(values.data(), row, kWidth));
    }
  };
  switch (width) {
    case 0: return loop.template operator()<0>();
    case 1: return loop.template operator()<1>();
    case 2: return loop.template operator()<2>();
    case 4: return loop.template operator()<4>();
    case 8: return loop.template operator()<8>();
    default: corrupt("width is " + std::to_string(width) + ", expected 0, 1, 2, 4 or 8");
  }
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
  std::size_t longest = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    longest = std::max(longest, column.text(row).size());
  }
  const std::uint8_t width = width_for(longest);
  put_prefix(column, {Encoding::kText, width, 0, 0, 0, column.text_bytes().size()}, out);
  for (std::size_t row = 0; row < column.size(); ++row) {
    put_narrow(out, column.text(row).size(), width);
  }
  out.append(column.text_bytes());
}

// The distinct texts in ascending order, or nothing when there are too many to be worth it.
std::optional<std::vector<std::string_view>> distinct_texts(const Column& column) {
  std::unordered_map<std::string_view, int> seen;
  const std::size_t limit = std::min(kMaxDictionary, column.size() / 4);
  std::size_t bytes = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (column.is_null(row) || !seen.try_emplace(column.text(row)).second) continue;
    bytes += column.text(row).size() + 4;
    if (seen.size() > limit || bytes > column.text_bytes().size()) return std::nullopt;
  }
  std::vector<std::string_view> texts;
  for (const auto& [text, unused] : seen) texts.push_back(text);
  std::sort(texts.begin(), texts.end());
  return texts;
}

void encode_dictionary(const Column& column, const std::vector<std::string_view>& texts,
                       std::string& out) {
  std::unordered_map<std::string_view, std::size_t> codes;
  std::size_t bytes = 0;
  for (std::size_t code = 0; code < texts.size(); ++code) {
    codes[texts[code]] = code;
    bytes += texts[code].size();
  }
  const std::uint8_t width = width_for(texts.size() - 1);
  put_prefix(column,
             {Encoding::kDictionary, width, 0, 0, static_cast<std::uint32_t>(texts.size()), bytes},
             out);
  for (std::string_view text : texts) put_narrow(out, text.size(), 4);
  for (std::string_view text : texts) out.append(text);
  for (std::size_t row = 0; row < column.size(); ++row) {
    put_narrow(out, column.is_null(row) ? 0 : codes[column.text(row)], width);
  }
}

// --- decoding --------------------------------------------------------------

struct Source {
  PlainType type;
  std::size_t rows;
  Prefix prefix;
  Bitmap nulls;  // empty when there are none
  Reader reader;

  bool is_null(std::size_t row) const { return nulls.size() != 0 && nulls.test(row); }
};

Column decode_integers(Source& source) {
  const std::uint8_t width = source.prefix.width;
  const auto values = source.reader.take(source.rows * width);
  const std::uint64_t largest = source.type == PlainType::kBoolean
                                    ? 1
                                    : std::numeric_limits<std::uint64_t>::max();
  Column column(source.type);
  column.reserve(source.rows);
  for_each_narrow(values, source.rows, width, [&](std::size_t row, std::uint64_t delta) {
    const std::uint64_t value = source.prefix.base + delta;
    if (source.is_null(row)) return column.append(Cell::null());
    if (value > largest) corrupt("row " + std::to_string(row) + " is not a boolean");
    column.append(Cell::of(static_cast<std::int64_t>(value)));
  });
  return column;
}

Column decode_reals(Source& source) {
  const auto values = source.reader.take(source.rows * 8);
  Column column(source.type);
  column.reserve(source.rows);
  for (std::size_t row = 0; row < source.rows; ++row) {
    double value;
    std::memcpy(&value, values.data() + row * 8, 8);
    if (source.is_null(row)) {
      column.append(Cell::null());
    } else if (std::isnan(value)) {
      corrupt("row " + std::to_string(row) + " is not a number");
    } else {
      column.append(Cell::of(value));
    }
  }
  return column;
}

// `bytes` cut into `count` texts whose lengths must use it up.
std::vector<std::string_view> cut_texts(std::span<const std::byte> lengths, std::size_t count,
                                        std::uint8_t width, std::span<const std::byte> bytes) {
  std::vector<std::string_view> texts;
  texts.reserve(count);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for_each_narrow(lengths, count, width, [&](std::size_t i, std::uint64_t length) {
    if (length > rest.size()) corrupt("text " + std::to_string(i) + " ends past its bytes");
    texts.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  });
  if (!rest.empty()) corrupt(std::to_string(rest.size()) + " bytes of text too many");
  return texts;
}

Column decode_texts(Source& source) {
  const std::uint8_t width = source.prefix.width;
  const auto lengths = source.reader.take(source.rows * width);
  const auto texts = cut_texts(lengths, source.rows, width, source.reader.take(source.prefix.base));
  Column column(source.type);
  column.reserve(source.rows);
  for (std::size_t row = 0; row < source.rows; ++row) {
    const bool null = source.is_null(row);
    if (null && !texts[row].empty()) corrupt("NULL row " + std::to_string(row) + " has a text");
    column.append(null ? Cell::null() : Cell::text(texts[row]));
  }
  return column;
}

Column decode_dictionary(Source& source) {
  const Prefix& prefix = source.prefix;
  if (prefix.count == 0 || prefix.count > kMaxDictionary) {
    corrupt("dictionary of " + std::to_string(prefix.count) + " texts");
  }
  const auto lengths = source.reader.take(std::size_t{prefix.count} * 4);
  const auto texts = cut_texts(lengths, prefix.count, 4, source.reader.take(prefix.base));
  const auto out_of_order = std::adjacent_find(texts.begin(), texts.end(), std::greater_equal<>());
  if (out_of_order != texts.end()) corrupt("dictionary is not in ascending order");
  const auto codes = source.reader.take(source.rows * prefix.width);
  Column column(source.type);
  column.reserve(source.rows);
  for_each_narrow(codes, source.rows, prefix.width, [&](std::size_t row, std::uint64_t code) {
    if (code >= texts.size()) corrupt("row " + std::to_string(row) + " has an unknown code");
    column.append(source.is_null(row) ? Cell::null() : Cell::text(texts[code]));
  });
  return column;
}

bool fits(Encoding encoding, PlainType type) {
  switch (type) {
    case PlainType::kInteger:
    case PlainType::kBoolean: return encoding == Encoding::kInteger;
    case PlainType::kReal: return encoding == Encoding::kReal;
    case PlainType::kText: return encoding == Encoding::kText || encoding == Encoding::kDictionary;
  }
  return false;
}

// The shortest easy upper bound of `text` under memcmp: a prefix with its last byte raised.
std::string upper_bound(std::string_view text, std::size_t prefix) {
  if (text.size() <= prefix) return std::string(text);
  std::size_t at = prefix - 1;
  while (at > 0 && text[at] == '\xff') --at;
  if (text[at] == '\xff') {  // all of the prefix is 0xff: look behind it
    at = text.find_first_not_of('\xff', prefix);
    if (at == std::string_view::npos) return std::string(text);
  }
  std::string bound(text.substr(0, at + 1));
  ++bound.back();
  return bound;
}

// The least and greatest cell that is not NULL.
template <typename Get>
void set_bounds(const Column& column, ZoneMap& zone, Get&& get) {
  constexpr std::size_t kTextPrefix = 16;
  bool first = true;
  decltype(get(0)) low{}, high{};
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (column.is_null(row)) continue;
    const auto value = get(row);
    if (first || value < low) low = value;
    if (first || high < value) high = value;
    first = false;
  }
  zone.all_null = first;
  if (first) return;
  if constexpr (std::is_same_v<decltype(low), std::string_view>) {
    zone.low = Value(Cell::text(low.substr(0, kTextPrefix)));
    zone.high = Value(Cell::text(upper_bound(high, kTextPrefix)));
  } else {
    zone.low = Value(Cell::of(low));
    zone.high = Value(Cell::of(high));
  }
}

}  // namespace

void encode_column(const Column& column, std::string& out) {
  switch (column.type()) {
    case PlainType::kInteger:
    case PlainType::kBoolean: return encode_integers(column, out);
    case PlainType::kReal: return encode_reals(column, out);
    case PlainType::kText:
      if (const auto texts = distinct_texts(column)) return encode_dictionary(column, *texts, out);
      return encode_texts(column, out);
  }
}

Column decode_column(PlainType type, std::size_t rows, std::span<const std::byte> payload) {
  Source source{type, rows, {}, {}, Reader(payload)};
  source.prefix = source.reader.get<Prefix>();
  const Prefix& prefix = source.prefix;
  if (!fits(prefix.encoding, type) || prefix.has_nulls > 1 || prefix.zero != 0) {
    corrupt("encoding " + std::to_string(static_cast<int>(prefix.encoding)) +
            " is not one of a column of type " + std::to_string(static_cast<int>(type)));
  }
  if (prefix.has_nulls != 0) {
    source.nulls = decode_bitmap(source.reader.take(bitmap_bytes(rows)), rows);
  }
  const auto decode = [&] {
    switch (prefix.encoding) {
      case Encoding::kInteger: return decode_integers(source);
      case Encoding::kReal: return decode_reals(source);
      case Encoding::kText: return decode_texts(source);
      case Encoding::kDictionary: return decode_dictionary(source);
    }
    corrupt("unknown encoding");
  };
  Column column = decode();
  source.reader.finish();
  return column;
}

ZoneMap make_zone(const Column& column) {
  ZoneMap zone;
  zone.has_null = column.has_nulls();
  switch (column.type()) {
    case PlainType::kInteger:
    case PlainType::kBoolean:
      set_bounds(column, zone, [&](std::size_t row) { return column.integers()[row]; });
      break;
    case PlainType::kReal:
      set_bounds(column, zone, [&](std::size_t row) { return column.reals()[row]; });
      break;
    case PlainType::kText:
      set_bounds(column, zone, [&](std::size_t row) { return column.text(row); });
      break;
  }
  return zone;
}

}  // namespace warplite::storage
