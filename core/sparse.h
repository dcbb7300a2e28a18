// Sparse vectors: the entries that are not left out, by ascending index. As stored they are bytes,
// little-endian:
//   count   u32           of the entries
//   wide    u32           of the gaps that take four bytes
//   gaps    u16[count]    the first index, then how many lie between one and the next; 65535: the
//                         next wide gap
//   values  f32[count]    no NaN, no infinity
//   wide gaps  u32[wide]  65535 or more
// so that a value tells its own length, and one after another can be read. Gaps of a fixed width are
// read without a branch that nobody can foresee.
// Threads: functions of their arguments. Memory needs no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace warplite {

// As SPARSE[n] takes it in a BLOB: these eight bytes, ascending by index.
struct SparseEntry {
  std::uint32_t index;
  float value;
};
static_assert(sizeof(SparseEntry) == 8);

// Indexes are below it.
inline constexpr std::uint32_t kMostSparseDim = std::uint32_t{1} << 31;

// Appends the bytes of a value. REQUIRES: indexes ascend and are below kMostSparseDim, values are
// finite.
void append_sparse(std::span<const SparseEntry> entries, std::string& to);

// Returns what is wrong with bytes that may be anything, as bytes of one value with indexes below
// `dim`; null: nothing.
const char* sparse_fault(std::string_view bytes, std::uint32_t dim);

inline constexpr std::uint16_t kWideGap = 0xffff;
inline constexpr std::size_t kSparseHeader = 2 * sizeof(std::uint32_t);

// Reads a value's entries in order. REQUIRES: the bytes begin with a value that has no fault.
class SparseReader {
 public:
  explicit SparseReader(const char* bytes) {
    std::uint32_t wide;
    std::memcpy(&left_, bytes, sizeof left_);
    std::memcpy(&wide, bytes + sizeof left_, sizeof wide);
    gap_ = bytes + kSparseHeader;
    value_ = gap_ + left_ * sizeof(std::uint16_t);
    wide_ = value_ + left_ * sizeof(float);
    end_ = wide_ + wide * sizeof(std::uint32_t);
  }

  // Entries that are left.
  std::uint32_t left() const { return left_; }
  // The next one. REQUIRES: left() != 0
  SparseEntry next() {
    SparseEntry entry{before_ + gap(), 0};
    std::memcpy(&entry.value, value_, sizeof entry.value);
    value_ += sizeof entry.value;
    before_ = entry.index + 1;
    --left_;
    return entry;
  }
  // The end of the value.
  const char* end() const { return end_; }

 private:
  std::uint32_t gap() {
    std::uint16_t narrow;
    std::memcpy(&narrow, gap_, sizeof narrow);
    gap_ += sizeof narrow;
    if (narrow != kWideGap) return narrow;
    std::uint32_t wide;
    std::memcpy(&wide, wide_, sizeof wide);
    wide_ += sizeof wide;
    return wide;
  }

  const char* gap_;
  const char* value_;
  const char* wide_;
  const char* end_;
  std::uint32_t left_;
  std::uint32_t before_ = 0;  // the least index that the next entry may have
};

}  // namespace warplite
