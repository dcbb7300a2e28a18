// A plain column's values for consecutive rows, typed and contiguous, so that a
// filter scans it. Append-only; reading a row that exists never moves.
// Threads: concurrent reads are fine; append needs exclusive use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bitmap.h"
#include "core/value.h"

namespace warplite {

class Column {
 public:
  explicit Column(PlainType type) : type_(type) {}

  // Columns made of decoded parts. `nulls` is empty when no row is NULL.
  // REQUIRES: the parts are as append() would leave them (NULL rows hold 0 or no text).
  static Column of_integers(PlainType type, std::vector<std::int64_t> values, Bitmap nulls);
  static Column of_reals(std::vector<double> values, Bitmap nulls);
  static Column of_texts(PlainType type, std::vector<std::uint32_t> ends, std::string bytes,
                         Bitmap nulls);
  // Each row's text is entry codes[row] of a dictionary, whose entries take the place of rows in
  // `ends` and `bytes`: a text that many rows have is in memory once. Nothing can be appended.
  static Column of_entries(std::vector<std::uint32_t> codes, std::vector<std::uint32_t> ends,
                           std::string bytes, Bitmap nulls);

  PlainType type() const { return type_; }
  std::size_t size() const { return size_; }
  bool has_nulls() const { return null_count_ != 0; }
  bool is_null(std::size_t row) const { return null_count_ != 0 && nulls_.test(row); }
  // Of one that was decoded: says whether its rows are integers, none of them less than the one before.
  bool ascending() const { return ascending_; }

  // kInteger and kBoolean (0 or 1); NULL rows hold 0.
  const std::vector<std::int64_t>& integers() const { return integers_; }
  // kReal; NULL rows hold 0.
  const std::vector<double>& reals() const { return reals_; }
  // kText, and the bytes of kSparse; NULL rows are empty.
  std::string_view text(std::size_t row) const { return entry(coded() ? codes_[row] : row); }

  // Says whether texts are those of a dictionary.
  bool coded() const { return !codes_.empty(); }
  // Returns the codes of rows. This and the two members that follow REQUIRE coded().
  const std::vector<std::uint32_t>& text_codes() const { return codes_; }
  std::size_t entries() const { return ends_.size(); }
  std::string_view entry(std::size_t code) const {
    const std::size_t begin = code == 0 ? 0 : ends_[code - 1];
    return std::string_view(bytes_).substr(begin, ends_[code] - begin);
  }
  Cell cell(std::size_t row) const;

  // REQUIRES: !coded(), `cell` is NULL or already of this column's type (sql/definition/values converts).
  void append(const Cell& cell);
  void truncate(std::size_t size);  // REQUIRES: !coded()
  void reserve(std::size_t rows);
  // Appends rows `rows[0..n)` of `from`, which has the same type.
  void gather(const Column& from, const std::uint32_t* rows, std::size_t n);

  std::size_t memory() const;

  // Raw arrays, which are of texts by row, or by entry when they are coded().
  const Bitmap& nulls() const { return nulls_; }
  const std::vector<std::uint32_t>& text_ends() const { return ends_; }
  const std::string& text_bytes() const { return bytes_; }

 private:
  Column(PlainType type, std::size_t size, Bitmap nulls)
      : type_(type), size_(size), null_count_(nulls.count()), nulls_(std::move(nulls)) {}

  PlainType type_;
  std::size_t size_ = 0;
  std::size_t null_count_ = 0;
  bool ascending_ = false;
  Bitmap nulls_;  // sized only once a NULL was seen
  std::vector<std::int64_t> integers_;
  std::vector<double> reals_;
  std::vector<std::uint32_t> codes_;  // empty: texts are of rows
  std::vector<std::uint32_t> ends_;
  std::string bytes_;
};

}  // namespace warplite
