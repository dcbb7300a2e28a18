#include "index/lsh/kernels.h"

#include <algorithm>
#include <cstring>

#include "index/lsh/hash.h"

namespace warplite::index {
namespace {

constexpr std::size_t kTogether = 4;  // rows that the numbers of a panel are read for

#define WARPLITE_INLINE inline __attribute__((always_inline))

// Left to themselves compilers keep the sums in memory. These vectors are computed by element, as
// if in a loop, with any instructions; none of the products are fused with sums. They are passed by
// reference: how such vectors are passed by value depends on what a machine has.
using Floats = float __attribute__((vector_size(kPanel * sizeof(float))));
using Doubles = double __attribute__((vector_size(kPanel * sizeof(double))));
using Words = std::uint32_t __attribute__((vector_size(kPanel * sizeof(std::uint32_t))));
using WordPairs = std::uint32_t __attribute__((vector_size(kPanel * sizeof(double))));

WARPLITE_INLINE void load(const float* from, Doubles& to) {
  Floats floats;
  std::memcpy(&floats, from, sizeof floats);
  to = __builtin_convertvector(floats, Doubles);
}

WARPLITE_INLINE void split(const Doubles& values, Words& low, Words& high) {
  WordPairs pairs;
  std::memcpy(&pairs, &values, sizeof pairs);
  low = __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6);
  high = __builtin_shufflevector(pairs, pairs, 1, 3, 5, 7);
}

// A panel: where its numbers begin, and how many functions it really has.
struct Panel {
  const float* factors;
  const float* offsets;
  Words numbers;  // of its functions
  std::size_t functions;
};

WARPLITE_INLINE void put(const Words& hashes, const Panel& panel, std::uint32_t buckets,
                         std::uint32_t* out) {
  for (std::size_t i = 0; i < panel.functions; ++i) out[i] = bucket_of(hashes[i], buckets);
}

// Grids: the hash of the numbers of the cell that each of `Rows` rows is in.
template <std::size_t Rows>
WARPLITE_INLINE void bin(const LshFunctions& all, const Panel& panel, const double* rows,
                         std::uint32_t* out) {
  Words states[Rows];
  for (std::size_t r = 0; r < Rows; ++r) states[r] = panel.numbers;
  for (std::uint32_t d = 0; d < all.dim; ++d) {
    Doubles pitch, offset;
    load(panel.factors + d * kPanel, pitch);
    load(panel.offsets + d * kPanel, offset);
    for (std::size_t r = 0; r < Rows; ++r) {
      Words cell, rest;
      split(pitch * rows[r * all.dim + d] + offset + kToWhole, cell, rest);
      states[r] = murmur3_add(states[r], cell);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    put(murmur3_finish(states[r], all.dim * 4), panel, all.buckets, out + r * all.m);
  }
}

// Projections of `Rows` rows.
template <std::size_t Rows>
WARPLITE_INLINE void project(const LshFunctions& all, const Panel& panel, const double* rows,
                             std::uint32_t* out) {
  Doubles sums[Rows] = {};
  for (std::uint32_t d = 0; d < all.dim; ++d) {
    Doubles factor;
    load(panel.factors + d * kPanel, factor);
    for (std::size_t r = 0; r < Rows; ++r) sums[r] += factor * rows[r * all.dim + d];
  }
  for (std::size_t r = 0; r < Rows; ++r, out += all.m) {
    if (all.family == LshFamily::kSimhash) {
      for (std::size_t i = 0; i < panel.functions; ++i) out[i] = sums[r][i] >= 0 ? 1 : 0;
      continue;
    }
    // All 64 bits of a bucket's number: those of large ones say more.
    Doubles offset;
    Words low, high;
    load(panel.offsets, offset);
    split(sums[r] + offset + kToWhole, low, high);
    const Words state = murmur3_add(murmur3_add(panel.numbers, low), high);
    put(murmur3_finish(state, 8), panel, all.buckets, out);
  }
}

template <std::size_t Rows>
WARPLITE_INLINE void hash_panel(const LshFunctions& all, const Panel& panel, const double* rows,
                                std::uint32_t* out) {
  if (all.family == LshFamily::kRbh) {
    bin<Rows>(all, panel, rows, out);
  } else {
    project<Rows>(all, panel, rows, out);
  }
}

WARPLITE_INLINE void hash_panels(const LshFunctions& all, const double* rows, std::size_t count,
                                 std::uint32_t* out) {
  const std::size_t factors = std::size_t{all.dim} * kPanel;
  const std::size_t offsets = all.family == LshFamily::kRbh ? factors : kPanel;
  for (std::uint32_t first = 0; first < all.m; first += kPanel) {
    const std::size_t at = first / kPanel;
    const Panel panel{all.factors + at * factors,
                      all.offsets == nullptr ? nullptr : all.offsets + at * offsets,
                      {first, first + 1, first + 2, first + 3},
                      std::min<std::size_t>(kPanel, all.m - first)};
    std::size_t row = 0;
    for (; row + kTogether <= count; row += kTogether) {
      hash_panel<kTogether>(all, panel, rows + row * all.dim, out + row * all.m + first);
    }
    for (; row < count; ++row) {
      hash_panel<1>(all, panel, rows + row * all.dim, out + row * all.m + first);
    }
  }
}

using HashRows = void (*)(const LshFunctions&, const double*, std::size_t, std::uint32_t*);

void hash_by_any(const LshFunctions& all, const double* rows, std::size_t count,
                 std::uint32_t* out) {
  hash_panels(all, rows, count, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void hash_by_avx2(const LshFunctions& all, const double* rows,
                                                  std::size_t count, std::uint32_t* out) {
  hash_panels(all, rows, count, out);
}
#endif

HashRows widest_of_machine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return hash_by_avx2;
#endif
  return hash_by_any;
}

}  // namespace

std::vector<float> by_panels(const float* from, std::uint32_t functions, std::size_t each) {
  std::vector<float> out((functions + kPanel - 1) / kPanel * kPanel * each);
  for (std::size_t i = 0; i < functions; ++i) {
    for (std::size_t d = 0; d < each; ++d) {
      out[(i / kPanel * each + d) * kPanel + i % kPanel] = from[i * each + d];
    }
  }
  return out;
}

void hash_rows(const LshFunctions& functions, const double* rows, std::size_t count,
               std::uint32_t* out) {
  static const HashRows kHash = widest_of_machine();
  kHash(functions, rows, count, out);
}

}  // namespace warplite::index
