// Searches by postings on vectors: bytes of impacts become 16-bit products, the even and the odd ones
// each with counters of their own.
#include "cpu/sparse/kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "compute/sparse/postings.h"
#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/sparse/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Counters = hn::CappedTag<std::int16_t, 32>;
constexpr Counters kCounters;

#if HWY_TARGET == HWY_SCALAR
// A vector is one number.
void add_columns(const SparseColumn* columns, std::size_t n, std::size_t first, std::size_t count,
                 std::int16_t* counters) {
  for (std::size_t at = first; at < first + count; ++at) {
    const std::uint32_t row = compute::sparse_row(static_cast<std::uint32_t>(at));
    int counter = counters[at];
    for (std::size_t c = 0; c < n; ++c) {
      const int impact = columns[c].impacts[row];
      const int taken = std::max(impact - 1, 0) * columns[c].weight >> 8;
      counter += columns[c].taken_off ? -taken : impact * columns[c].weight >> 8;
      counter = std::clamp(counter, -32768, 32767);
    }
    counters[at] = static_cast<std::int16_t>(counter);
  }
}
#else
using Bytes = hn::CappedTag<std::uint8_t, 64>;
using Products = hn::Repartition<std::uint16_t, Bytes>;
using Counter = hn::VFromD<Counters>;

constexpr Bytes kBytes;
constexpr Products kProducts;
constexpr std::size_t kLanes = hn::MaxLanes(kBytes);

// Counters in registers: of so many vectors of impacts, which are those of kRows rows.
constexpr std::size_t kVectors = 4;
constexpr std::size_t kRows = kVectors * kLanes;

// Columns are read at many places in turn: what comes is fetched so many rows ahead.
constexpr std::size_t kAhead = 512;

// Where the even ones of vector `i` stand; the odd ones stand 32 behind.
constexpr std::size_t place(std::size_t i) {
  return i * kLanes / 64 * 64 + i * kLanes % 64 / 2;
}

HWY_INLINE Counter product(hn::VFromD<Products> impacts, hn::VFromD<Products> weight) {
  return hn::BitCast(kCounters, hn::MulHigh(impacts, weight));
}

void add_columns(const SparseColumn* columns, std::size_t n, std::size_t first, std::size_t count,
                 std::int16_t* counters) {
  const auto one = hn::Set(kBytes, std::uint8_t{1});
  const auto upper = hn::Set(kProducts, std::uint16_t{0xff00});
  for (std::size_t at = first; at < first + count; at += kRows) {
    Counter even[kVectors], odd[kVectors];
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kVectors; ++i) {
      even[i] = hn::LoadU(kCounters, counters + at + place(i));
      odd[i] = hn::LoadU(kCounters, counters + at + place(i) + 32);
    }
    for (std::size_t c = 0; c < n; ++c) {
      const std::uint8_t* const impacts = columns[c].impacts + at;
      HWY_UNROLL(4)
      for (std::size_t i = 0; i < kRows; i += 64) __builtin_prefetch(impacts + kAhead + i);
      const auto weight = hn::Set(kProducts, columns[c].weight);
      if (!columns[c].taken_off) {
        HWY_UNROLL(4)
        for (std::size_t i = 0; i < kVectors; ++i) {
          const auto some = hn::BitCast(kProducts, hn::LoadU(kBytes, impacts + i * kLanes));
          even[i] = hn::SaturatedAdd(even[i], product(hn::ShiftLeft<8>(some), weight));
          odd[i] = hn::SaturatedAdd(odd[i], product(hn::And(some, upper), weight));
        }
      } else {
        HWY_UNROLL(4)
        for (std::size_t i = 0; i < kVectors; ++i) {
          const auto less = hn::SaturatedSub(hn::LoadU(kBytes, impacts + i * kLanes), one);
          const auto some = hn::BitCast(kProducts, less);
          even[i] = hn::SaturatedSub(even[i], product(hn::ShiftLeft<8>(some), weight));
          odd[i] = hn::SaturatedSub(odd[i], product(hn::And(some, upper), weight));
        }
      }
    }
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kVectors; ++i) {
      hn::StoreU(even[i], kCounters, counters + at + place(i));
      hn::StoreU(odd[i], kCounters, counters + at + place(i) + 32);
    }
  }
}

#endif

bool reaches(const std::int16_t* counters, std::size_t count, int floor) {
  constexpr int kLeast = std::numeric_limits<std::int16_t>::min();
  constexpr int kMost = std::numeric_limits<std::int16_t>::max();
  if (floor <= kLeast || floor > kMost) return floor <= kLeast;
  const auto below = hn::Set(kCounters, static_cast<std::int16_t>(floor - 1));
  auto most = below;
  const std::size_t lanes = hn::Lanes(kCounters);
  for (std::size_t i = 0; i < count; i += lanes) {
    most = hn::Max(most, hn::LoadU(kCounters, counters + i));
  }
  return !hn::AllFalse(kCounters, hn::Gt(most, below));
}

std::size_t collect(const std::int16_t* counters, std::size_t count, std::int16_t floor,
                    std::uint32_t* places) {
  const std::size_t lanes = hn::Lanes(kCounters);
  const auto below = hn::Set(kCounters, static_cast<std::int16_t>(floor - 1));
  std::size_t found = 0;
  for (std::size_t at = 0; at < count; at += lanes) {
    const auto reaches = hn::Gt(hn::LoadU(kCounters, counters + at), below);
    if (hn::AllFalse(kCounters, reaches)) continue;
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(kCounters, reaches, bytes);
    std::uint64_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    for (; bits != 0; bits &= bits - 1) {
      places[found++] = static_cast<std::uint32_t>(at + std::size_t(std::countr_zero(bits)));
    }
  }
  return found;
}

}  // namespace

void fill_sparse(SparseKernels& kernels) {
  kernels.add_columns = add_columns;
  kernels.reaches = reaches;
  kernels.collect = collect;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const SparseKernels& sparse_kernels() {
  static const KernelTables<SparseKernels> tables{WARPLITE_EACH_TARGET(fill_sparse)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif
