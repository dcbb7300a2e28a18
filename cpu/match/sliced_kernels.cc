// Match counting for as many queries as a vector has bits: a row's counters are the bits of a few
// vectors, to which each of its keywords adds the bitmap of the queries that want it.
#include "cpu/match/sliced_kernels.h"

#include <algorithm>
#include <cstddef>

#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/match/sliced_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/match/carry_save-inl.h"

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr Octets kOctets;
constexpr std::size_t kBytes = hn::MaxLanes(kOctets);

// Columns that are summed before their sums are added up: their bitmaps stay in a cache close by.
constexpr std::uint32_t kGroupPlanes = 6, kGroupColumns = (1u << kGroupPlanes) - 1;

// The sums of a group of columns, of a row.
HWY_INLINE void sum_group(const SlicedRows& rows, std::uint32_t row, std::uint32_t first,
                          std::uint32_t columns, OctetVector* planes) {
  const std::uint16_t* const numbers = rows.numbers + first * rows.stride + row;
  HWY_UNROLL(8)
  for (std::size_t p = 0; p < kMostPlanes; ++p) planes[p] = hn::Zero(kOctets);
  add_all<kGroupPlanes>(
      [&](std::size_t i) HWY_ATTR {
        return hn::LoadU(kOctets, rows.masks + std::size_t{numbers[i * rows.stride]} * kBytes);
      },
      columns, planes);
}

// Adds numbers of kGroupPlanes bits to those of kMostPlanes at `sums`.
HWY_INLINE void add_sums(const std::uint8_t* sums, OctetVector* planes) {
  OctetVector carry = hn::Zero(kOctets);
  HWY_UNROLL(8)
  for (std::size_t p = 0; p < kMostPlanes; ++p) {
    const OctetVector sum = hn::LoadU(kOctets, sums + p * kBytes);
    const OctetVector either = hn::Xor(planes[p], sum);
    const OctetVector next = hn::Or(hn::And(planes[p], sum), hn::And(either, carry));
    planes[p] = hn::Xor(either, carry);
    carry = next;
  }
}

HWY_INLINE void store_planes(const OctetVector* planes, std::uint8_t* out) {
  HWY_UNROLL(8)
  for (std::size_t p = 0; p < kMostPlanes; ++p) hn::StoreU(planes[p], kOctets, out + p * kBytes);
}

// The queries whose floor the counts reach.
HWY_INLINE OctetVector reaching(const OctetVector* planes, const SlicedRows& rows) {
  OctetVector less = hn::Zero(kOctets);
  HWY_UNROLL(8)
  for (std::size_t p = 0; p < kMostPlanes; ++p) {
    const OctetVector floor = hn::LoadU(kOctets, rows.floors + p * kBytes);
    const OctetVector differ = hn::Xor(planes[p], floor);
    less = hn::Or(hn::And(differ, floor), hn::AndNot(differ, less));
  }
  return hn::AndNot(less, hn::LoadU(kOctets, rows.asking));
}

std::size_t count_sliced(const SlicedRows& rows, std::uint32_t* found, std::uint8_t* counts) {
  constexpr std::size_t kSums = kMostPlanes * kBytes;
  const std::uint32_t groups = (rows.columns + kGroupColumns - 1) / kGroupColumns;
  const std::uint32_t each = (rows.columns + groups - 1) / groups;
  std::size_t n = 0;
  OctetVector planes[kMostPlanes];
  for (std::uint32_t first = 0; first < rows.columns; first += each) {
    const std::uint32_t columns = std::min(each, rows.columns - first);
    const bool last = first + columns == rows.columns;
    for (std::uint32_t row = 0; row < rows.rows; ++row) {
      sum_group(rows, row, first, columns, planes);
      if (first != 0) add_sums(rows.sums + row * kSums, planes);
      if (!last) {
        store_planes(planes, rows.sums + row * kSums);
        continue;
      }
      const OctetVector queries = reaching(planes, rows);
      if (hn::AllTrue(kOctets, hn::Eq(queries, hn::Zero(kOctets)))) continue;
      std::uint8_t* const out = counts + n * (kBytes + kSums);
      hn::StoreU(queries, kOctets, out);
      store_planes(planes, out + kBytes);
      found[n++] = row;
    }
  }
  return n;
}

}  // namespace

void fill_sliced(SlicedKernels& kernels) {
  kernels.bytes = kBytes;
  kernels.count = count_sliced;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

static_assert(kCountPlanes == 8);

const SlicedKernels& sliced_kernels() {
  static const KernelTables<SlicedKernels> tables{WARPLITE_EACH_TARGET(fill_sliced)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif
