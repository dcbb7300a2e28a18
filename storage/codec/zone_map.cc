// The smallest and largest value of a plain column.
#include <string>
#include <string_view>
#include <type_traits>

#include "storage/codec/column_codec.h"

namespace warplite::storage {
namespace {

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
    case PlainType::kSparse:  // no filter has a use for bounds
      zone.all_null = zone.has_null && column.nulls().count() == column.size();
      break;
  }
  return zone;
}

}  // namespace warplite::storage
