// The words every layer shares: rows, views of vectors, hits.
// Views own nothing; their memory is little-endian and needs no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/element_type.h"

namespace warplite {

using RowId = std::int64_t;

// `rows` vectors, one after another without gaps.
struct MatrixView {
  const std::byte* data = nullptr;
  std::size_t rows = 0;
  std::uint32_t dim = 0;
  ElementType type = ElementType::kFloat32;

  std::size_t stride() const { return bytes_per_vector(type, dim); }
  const std::byte* row(std::size_t i) const { return data + i * stride(); }
};

// Rowids of consecutive rows: an ascending run, or a list in any order.
struct RowIdView {
  RowId first = 0;
  const RowId* list = nullptr;  // null: first, first + 1, …

  RowId operator[](std::size_t i) const {
    return list != nullptr ? list[i] : first + static_cast<RowId>(i);
  }
};

// One result. The order of results is (distance, rowid) everywhere, so that
// devices, plans and thread counts agree (ties are ordered by rowid).
struct Hit {
  double distance;
  RowId rowid;
  std::uint32_t block;  // Block::id of the block the row was found in
  std::uint32_t row;    // position within that block

  friend bool operator<(const Hit& a, const Hit& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.rowid < b.rowid;
  }
};

// Distances that may be returned. Default: all of them.
struct DistanceRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // true: distance > low, else distance >= low
  bool high_open = false;  // true: distance < high, else distance <= high

  bool contains(double d) const {
    return (low_open ? d > low : d >= low) && (high_open ? d < high : d <= high);
  }
  bool unbounded() const { return *this == DistanceRange{}; }
  friend bool operator==(const DistanceRange&, const DistanceRange&) = default;
};

}  // namespace warplite
