#include "core/sparse.h"

#include <cmath>
#include <vector>

namespace warplite {
namespace {

template <typename T>
void append(const T& number, std::string& to) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename T>
T number_at(const char* from, std::size_t i) {
  T number;
  std::memcpy(&number, from + i * sizeof number, sizeof number);
  return number;
}

}  // namespace

void append_sparse(std::span<const SparseEntry> entries, std::string& to) {
  std::vector<std::uint32_t> wide;
  std::vector<std::uint16_t> gaps;
  gaps.reserve(entries.size());
  std::uint32_t before = 0;
  for (const SparseEntry& entry : entries) {
    const std::uint32_t gap = entry.index - before;
    if (gap >= kWideGap) wide.push_back(gap);
    gaps.push_back(gap < kWideGap ? static_cast<std::uint16_t>(gap) : kWideGap);
    before = entry.index + 1;
  }
  append(static_cast<std::uint32_t>(entries.size()), to);
  append(static_cast<std::uint32_t>(wide.size()), to);
  for (const std::uint16_t gap : gaps) append(gap, to);
  for (const SparseEntry& entry : entries) append(entry.value, to);
  for (const std::uint32_t gap : wide) append(gap, to);
}

const char* sparse_fault(std::string_view bytes, std::uint32_t dim) {
  if (bytes.size() < kSparseHeader) return "has no count of entries";
  const auto count = number_at<std::uint32_t>(bytes.data(), 0);
  const auto wide = number_at<std::uint32_t>(bytes.data(), 1);
  if (bytes.size() != kSparseHeader + std::uint64_t{count} * 6 + std::uint64_t{wide} * 4) {
    return "its length is not that of its entries";
  }
  const char* const gaps = bytes.data() + kSparseHeader;
  const char* const values = gaps + std::size_t{count} * sizeof(std::uint16_t);
  const char* const wide_gaps = values + std::size_t{count} * sizeof(float);
  std::uint64_t before = 0;
  std::uint32_t wide_seen = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t gap = number_at<std::uint16_t>(gaps, i);
    if (gap == kWideGap) {
      if (wide_seen == wide) return "has too few wide gaps";
      gap = number_at<std::uint32_t>(wide_gaps, wide_seen++);
    }
    if (before + gap >= dim) return "an index is not below the dimension";
    before += gap + 1;
    if (!std::isfinite(number_at<float>(values, i))) return "holds NaN or infinity";
  }
  return wide_seen == wide ? nullptr : "has too many wide gaps";
}

}  // namespace warplite
