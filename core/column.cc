#include "core/column.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace warplite {
namespace {

bool holds_bytes(PlainType type) {
  return type == PlainType::kText || type == PlainType::kSparse;
}

}  // namespace

Column Column::of_integers(PlainType type, std::vector<std::int64_t> values, Bitmap nulls) {
  Column column(type, values.size(), std::move(nulls));
  column.ascending_ = !column.has_nulls() && std::is_sorted(values.begin(), values.end());
  column.integers_ = std::move(values);
  return column;
}

Column Column::of_reals(std::vector<double> values, Bitmap nulls) {
  Column column(PlainType::kReal, values.size(), std::move(nulls));
  column.reals_ = std::move(values);
  return column;
}

Column Column::of_texts(PlainType type, std::vector<std::uint32_t> ends, std::string bytes,
                        Bitmap nulls) {
  Column column(type, ends.size(), std::move(nulls));
  column.ends_ = std::move(ends);
  column.bytes_ = std::move(bytes);
  return column;
}

Column Column::of_entries(std::vector<std::uint32_t> codes, std::vector<std::uint32_t> ends,
                          std::string bytes, Bitmap nulls) {
  Column column(PlainType::kText, codes.size(), std::move(nulls));
  column.codes_ = std::move(codes);
  column.ends_ = std::move(ends);
  column.bytes_ = std::move(bytes);
  return column;
}

Cell Column::cell(std::size_t row) const {
  if (is_null(row)) return Cell::null();
  switch (type_) {
    case PlainType::kInteger:
    case PlainType::kBoolean: return Cell::of(integers_[row]);
    case PlainType::kReal: return Cell::of(reals_[row]);
    case PlainType::kText: return Cell::text(text(row));
    case PlainType::kSparse: return Cell::blob(text(row));
  }
  return Cell::null();
}

// On an exception nothing has changed.
void Column::append(const Cell& cell) {
  ascending_ = false;
  const bool null = cell.is_null();
  const bool has_bits = null_count_ != 0;
  const std::size_t bytes = bytes_.size();
  try {
    if (null || has_bits) nulls_.resize(size_ + 1);
    switch (type_) {
      case PlainType::kInteger:
      case PlainType::kBoolean: integers_.push_back(null ? 0 : cell.integer); break;
      case PlainType::kReal: reals_.push_back(null ? 0.0 : cell.real); break;
      case PlainType::kText:
      case PlainType::kSparse:
        if (bytes + cell.bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
          throw Error(ErrorKind::kLimit, "more than 4 GB of texts or of sparse vectors in one segment's column");
        }
        if (!null) bytes_.append(cell.bytes);
        ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
        break;
    }
  } catch (...) {
    nulls_.resize(has_bits ? size_ : 0);
    bytes_.resize(bytes);
    throw;
  }
  if (null) {
    nulls_.set(size_);
    ++null_count_;
  }
  ++size_;
}

void Column::truncate(std::size_t size) {
  if (size >= size_) return;
  size_ = size;
  if (null_count_ != 0) {
    nulls_.resize(size);
    null_count_ = nulls_.count();
  }
  if (type_ == PlainType::kReal) {
    reals_.resize(size);
  } else if (holds_bytes(type_)) {
    ends_.resize(size);
    bytes_.resize(size == 0 ? 0 : ends_[size - 1]);
  } else {
    integers_.resize(size);
  }
}

void Column::reserve(std::size_t rows) {
  if (type_ == PlainType::kReal) {
    reals_.reserve(rows);
  } else if (holds_bytes(type_)) {
    ends_.reserve(rows);
  } else {
    integers_.reserve(rows);
  }
}

void Column::gather(const Column& from, const std::uint32_t* rows, std::size_t n) {
  WARP_CHECK(from.type_ == type_);
  for (std::size_t i = 0; i < n; ++i) append(from.cell(rows[i]));
}

std::size_t Column::memory() const {
  return sizeof(*this) + nulls_.word_count() * 8 + integers_.capacity() * 8 +
         reals_.capacity() * 8 + (codes_.capacity() + ends_.capacity()) * 4 + bytes_.capacity();
}

}  // namespace warplite
