// Postings of the sparse vectors of a tile, as searches read them (compute/sparse.h): which rows have an
// entry of an index, with impacts of 8 bits. index/tiles/sparse_postings.h makes them.
//
// An entry of index i is in the list of key 2·i, or 2·i + 1 when its value is below 0; a zero is in
// none. A list has a step s, and an impact q of 1 … 255 for each of its entries: without its sign
// the value is above s·(q − 1), and at most s·q.
//
// Lists that many rows are in are columns: an impact for each row, 0 for those that have no entry,
// and the largest of each range of kSparseRange rows. Rows and ranges stand at places
// (sparse_place), such that a vector of impacts is two of counters, of its even and its odd bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace warplite::compute {

inline constexpr std::uint32_t kSparseRange = 256;
inline constexpr std::uint32_t kSparseRows = 65536;  // at most, of a tile
inline constexpr std::uint32_t kSparseBuckets = 4096;

// Counter `place` is of row sparse_row(place): of 64 rows the even ones come first.
constexpr std::uint32_t sparse_place(std::uint32_t row) {
  return (row & ~63u) | (row & 1) << 5 | (row & 63) >> 1;
}
constexpr std::uint32_t sparse_row(std::uint32_t place) {
  return (place & ~63u) | (place & 31) << 1 | (place >> 5 & 1);
}

struct SparseShape {
  std::uint32_t rows = 0, columns = 0, lists = 0, postings = 0;
  std::uint32_t negative = 0;  // whether there are values below 0
  std::uint32_t shift = 0;     // keys, less their lowest bits, are below kSparseBuckets
  std::uint32_t widest = 0;    // entries of a row, at most

  std::size_t padded_rows() const { return round(rows, kSparseRange); }
  // Of a column.
  std::size_t padded_ranges() const { return round(padded_rows() / kSparseRange, kSparseRange); }

  static constexpr std::size_t round(std::size_t n, std::size_t to) {
    return (n + to - 1) / to * to;
  }
};

// The bytes of a tile, each part on 64 bytes. `Byte`: const, or not for who writes them.
template <class Byte>
class SparsePostings {
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

 public:
  static std::size_t size_of(const SparseShape& shape) {
    return SparsePostings(shape, nullptr).size_;
  }
  SparsePostings(const SparseShape& shape, Byte* bytes) : shape_(shape), bytes_(bytes) {
    const std::size_t columns = shape.columns, lists = shape.lists;
    take(kShape, 1, sizeof(SparseShape));
    take(kColumnKeys, columns, sizeof(std::uint32_t));
    take(kColumnSteps, columns, sizeof(float));
    take(kColumnImpacts, columns, shape.padded_rows());
    take(kMaxima, columns, shape.padded_ranges());
    take(kBuckets, kSparseBuckets + 1, sizeof(std::uint32_t));
    take(kListKeys, lists, sizeof(std::uint32_t));
    take(kListSteps, lists, sizeof(float));
    take(kBegins, lists + 1, sizeof(std::uint32_t));
    take(kPlaces, shape.postings, sizeof(std::uint16_t));
    take(kImpacts, shape.postings, 1);
  }
  // Of bytes that hold it.
  explicit SparsePostings(Byte* bytes)
      : SparsePostings(*reinterpret_cast<const SparseShape*>(bytes), bytes) {}

  const SparseShape& shape() const { return shape_; }
  Like<SparseShape>& stored_shape() const { return *at<SparseShape>(kShape); }

  std::span<Like<std::uint32_t>> column_keys() const {  // ascending
    return {at<std::uint32_t>(kColumnKeys), shape_.columns};
  }
  Like<float>* column_steps() const { return at<float>(kColumnSteps); }
  Like<std::uint8_t>* column(std::size_t i) const {  // in the order of rows
    return at<std::uint8_t>(kColumnImpacts) + i * shape_.padded_rows();
  }
  Like<std::uint8_t>* maxima(std::size_t i) const {  // in the order of ranges
    return at<std::uint8_t>(kMaxima) + i * shape_.padded_ranges();
  }

  // The first of the lists whose keys, shifted, are no less than the bucket's number.
  Like<std::uint32_t>* buckets() const { return at<std::uint32_t>(kBuckets); }
  std::span<Like<std::uint32_t>> list_keys() const {  // ascending
    return {at<std::uint32_t>(kListKeys), shape_.lists};
  }
  Like<float>* list_steps() const { return at<float>(kListSteps); }
  Like<std::uint32_t>* begins() const { return at<std::uint32_t>(kBegins); }
  Like<std::uint16_t>* places() const { return at<std::uint16_t>(kPlaces); }  // of all lists
  Like<std::uint8_t>* impacts() const { return at<std::uint8_t>(kImpacts); }  // parallel

 private:
  enum Piece : std::size_t {
    kShape, kColumnKeys, kColumnSteps, kColumnImpacts, kMaxima,
    kBuckets, kListKeys, kListSteps, kBegins, kPlaces, kImpacts, kPieces
  };

  void take(Piece piece, std::size_t count, std::size_t each) {
    begins_[piece] = size_;
    size_ += SparseShape::round(count * each, 64);
  }
  template <class T>
  Like<T>* at(Piece piece) const {
    return reinterpret_cast<Like<T>*>(bytes_ + begins_[piece]);
  }

  SparseShape shape_;
  Byte* bytes_;
  std::array<std::size_t, kPieces> begins_{};
  std::size_t size_ = 0;
};

}  // namespace warplite::compute
