#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/process/interruption.h"
#include "core/sparse.h"
#include "storage/codec/block_codec.h"
#include "storage/codec/column_codec.h"
#include "storage/codec/column_format.h"
#include "storage/codec/wire.h"

namespace warplite::storage {
namespace {

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

struct Source {
  PlainType type;
  std::size_t rows;
  Prefix prefix;
  Bitmap nulls;  // empty when there are none
  Reader reader;

  // Calls visit(row) for every row that is NULL.
  template <typename Visit>
  void for_each_null(Visit&& visit) const {
    for (std::size_t i = 0; i < nulls.word_count(); ++i) {
      for (std::uint64_t word = nulls.words()[i]; word != 0; word &= word - 1) {
        visit(i * 64 + static_cast<std::size_t>(std::countr_zero(word)));
      }
    }
  }
};

std::string nth(const char* what, std::size_t i) { return what + std::to_string(i); }

Column decode_integers(Source& source) {
  const std::uint8_t width = source.prefix.width;
  const std::uint64_t base = source.prefix.base;
  const auto stored = source.reader.take(source.rows * width);
  std::vector<std::int64_t> values(source.rows);
  for_each_narrow(stored, source.rows, width, [&](std::size_t row, std::uint64_t delta) {
    values[row] = static_cast<std::int64_t>(base + delta);
  });
  source.for_each_null([&](std::size_t row) { values[row] = 0; });
  if (source.type == PlainType::kBoolean) {
    for (std::size_t row = 0; row < source.rows; ++row) {
      if (values[row] != 0 && values[row] != 1) corrupt(nth("not a boolean in row ", row));
    }
  }
  return Column::of_integers(source.type, std::move(values), std::move(source.nulls));
}

Column decode_reals(Source& source) {
  const auto stored = source.reader.take(source.rows * sizeof(double));
  std::vector<double> values(source.rows);
  std::memcpy(values.data(), stored.data(), stored.size());
  source.for_each_null([&](std::size_t row) { values[row] = 0; });
  for (std::size_t row = 0; row < source.rows; ++row) {
    if (std::isnan(values[row])) corrupt(nth("not a number in row ", row));
  }
  return Column::of_reals(std::move(values), std::move(source.nulls));
}

// Returns where each of `count` texts of the given lengths ends. They take `total` bytes together.
std::vector<std::uint32_t> sum_lengths(std::span<const std::byte> lengths, std::size_t count,
                                       std::uint8_t width, std::size_t total) {
  std::vector<std::uint32_t> ends(count);
  std::uint64_t end = 0;
  std::uint64_t longest = 0;
  for_each_narrow(lengths, count, width, [&](std::size_t i, std::uint64_t length) {
    longest = std::max(longest, length);
    end += length;
    ends[i] = static_cast<std::uint32_t>(end);
  });
  // A sum of 2^20 lengths below 2^32 cannot wrap around.
  if (longest > kMaxTextBytes || end > kMaxTextBytes || end != total) {
    corrupt("lengths of texts do not add up to their " + std::to_string(total) + " bytes");
  }
  return ends;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Column decode_texts(Source& source) {
  const Prefix& prefix = source.prefix;
  const auto lengths = source.reader.take(source.rows * prefix.width);
  const std::string_view bytes = as_text(source.reader.take(prefix.base));
  auto ends = sum_lengths(lengths, source.rows, prefix.width, bytes.size());
  source.for_each_null([&](std::size_t row) {
    if (ends[row] != (row == 0 ? 0 : ends[row - 1])) corrupt(nth("a text in NULL row ", row));
  });
  return Column::of_texts(source.type, std::move(ends), std::string(bytes),
                          std::move(source.nulls));
}

// A dictionary's texts, one after another.
struct Entries {
  std::vector<std::uint32_t> ends;
  std::string_view bytes;
};

Entries decode_entries(Source& source) {
  const Prefix& prefix = source.prefix;
  if (prefix.count == 0 || prefix.count > kMaxDictionary) {
    corrupt("dictionary of " + std::to_string(prefix.count) + " texts");
  }
  const auto lengths = source.reader.take(std::size_t{prefix.count} * 4);
  const std::string_view bytes = as_text(source.reader.take(prefix.base));
  Entries entries{sum_lengths(lengths, prefix.count, 4, bytes.size()), bytes};
  std::string_view before;
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < entries.ends.size(); ++i) {
    const std::string_view text = bytes.substr(begin, entries.ends[i] - begin);
    if (i != 0 && text <= before) corrupt("dictionary is not in ascending order");
    before = text;
    begin = entries.ends[i];
  }
  return entries;
}

// The texts are not written out for each row: a file could make them as long as it likes.
Column decode_dictionary(Source& source) {
  const std::uint8_t width = source.prefix.width;
  Entries entries = decode_entries(source);
  const auto stored = source.reader.take(source.rows * width);
  std::vector<std::uint32_t> codes(source.rows);
  for_each_narrow(stored, source.rows, width, [&](std::size_t row, std::uint64_t code) {
    if (code >= entries.ends.size()) corrupt(nth("unknown code in row ", row));
    codes[row] = static_cast<std::uint32_t>(code);
  });
  if (source.nulls.word_count() != 0) {
    const auto none = static_cast<std::uint32_t>(entries.ends.size());
    source.for_each_null([&](std::size_t row) { codes[row] = none; });
    entries.ends.push_back(entries.ends.back());
  }
  return Column::of_entries(std::move(codes), std::move(entries.ends), std::string(entries.bytes),
                            std::move(source.nulls));
}

void check_sparse(const Column& column, std::uint32_t dim) {
  SparsePoll poll(256);
  for (std::size_t row = 0; row < column.size(); ++row) {
    poll();
    if (column.is_null(row)) continue;
    const char* const fault = sparse_fault(column.text(row), dim);
    if (fault != nullptr) corrupt(nth("sparse vector of row ", row) + ": " + fault);
  }
}

bool fits(Encoding encoding, PlainType type) {
  switch (type) {
    case PlainType::kInteger:
    case PlainType::kBoolean: return encoding == Encoding::kInteger;
    case PlainType::kReal: return encoding == Encoding::kReal;
    case PlainType::kText: return encoding == Encoding::kText || encoding == Encoding::kDictionary;
    case PlainType::kSparse: return encoding == Encoding::kText;
  }
  return false;
}

}  // namespace

Column decode_column(PlainType type, std::size_t rows, std::span<const std::byte> payload,
                     std::uint32_t dim) {
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
  if (type == PlainType::kSparse) check_sparse(column, dim);
  return column;
}

}  // namespace warplite::storage
