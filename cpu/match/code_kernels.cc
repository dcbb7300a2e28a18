// Counting over columns of codes on vectors: a few vectors of rows at a time, whose counts stay in
// registers while all tests of the query go by.
#include "cpu/match/code_kernels.h"

#include <algorithm>

#include "cpu/runtime/highway_config.h"
#include "cpu/runtime/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/match/code_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace warplite::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kUnit = 64;  // rows that there are a multiple of

template <class Count>
using Tag = hn::CappedTag<Count, 64 / sizeof(Count)>;
template <class Count>
constexpr std::size_t kVectors = std::min<std::size_t>(4, kUnit / hn::MaxLanes(Tag<Count>()));

HWY_INLINE auto load(Tag<std::uint16_t> tag, const std::uint16_t* codes) {
  return hn::LoadU(tag, codes);
}
HWY_INLINE auto load(Tag<std::uint32_t> tag, const std::uint16_t* codes) {
  const hn::Rebind<std::uint16_t, Tag<std::uint32_t>> narrow;
  return hn::PromoteTo(tag, hn::LoadU(narrow, codes));
}

template <class Count>
void count_codes(const CodeTest* tests, std::size_t n, std::size_t first, std::size_t rows,
                 Count* counts) {
  const Tag<Count> tag;
  constexpr std::size_t kLanes = hn::MaxLanes(tag);
  constexpr std::size_t kStep = kVectors<Count> * kLanes;
  static_assert(kUnit % kStep == 0);
  for (std::size_t at = 0; at < rows; at += kStep) {
    hn::VFromD<Tag<Count>> sums[kVectors<Count>];
    HWY_UNROLL(4)
    for (auto& sum : sums) sum = hn::Zero(tag);
    for (std::size_t i = 0; i < n; ++i) {
      const CodeTest& test = tests[i];
      const auto low = hn::Set(tag, test.low), width = hn::Set(tag, test.width);
      const auto weight = hn::Set(tag, static_cast<Count>(test.weight));
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors<Count>; ++v) {
        // Codes below `low` become large ones.
        const auto beyond = hn::Sub(load(tag, test.codes + first + at + v * kLanes), low);
        const auto passes = hn::Eq(hn::Min(beyond, width), beyond);
        sums[v] = hn::Add(sums[v], hn::IfThenElseZero(passes, weight));
      }
    }
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors<Count>; ++v) {
      hn::StoreU(sums[v], tag, counts + at + v * kLanes);
    }
  }
}

}  // namespace

void fill_codes(CodeKernels& kernels) {
  kernels.shorts = count_codes<std::uint16_t>;
  kernels.words = count_codes<std::uint32_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace warplite::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace warplite::cpu {

const CodeKernels& code_kernels() {
  static const KernelTables<CodeKernels> tables{WARPLITE_EACH_TARGET(fill_codes)};
  return tables.active();
}

}  // namespace warplite::cpu
#endif
