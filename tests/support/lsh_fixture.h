// Options, models and match counts of locality-sensitive hashing, for its tests.
#pragma once

#include <cstdint>
#include <vector>

#include "index/lsh/lsh.h"
#include "tests/support/ivf_fixture.h"

namespace warplite::testing {

using index::LshFamily;
using index::LshModel;
using index::LshOptions;

// So that the paper's ε + 1/D (Theorem IV.1) is as good as ε.
inline constexpr std::uint32_t kLshBuckets = 1u << 20;

inline LshOptions lsh_options(LshFamily family, std::uint32_t m, double scale = 0,
                              std::uint32_t seed = 0) {
  LshOptions all;
  all.family = family;
  all.m = m;
  all.buckets = family == LshFamily::kSimhash ? 2 : kLshBuckets;
  (family == LshFamily::kRbh ? all.sigma : all.width) =
      family == LshFamily::kSimhash ? 0 : scale;
  all.seed = seed;
  return all;
}

inline index::ColumnShape lsh_column(LshFamily family, std::uint32_t dim,
                                     Distance distance = Distance::kL1) {
  return {ElementType::kFloat32, dim,
          family == LshFamily::kSimhash ? Distance::kCosine : distance};
}

inline std::vector<std::uint32_t> lsh_signatures(const LshModel& model, const MatrixView& rows) {
  std::vector<std::uint32_t> out(rows.rows * model.m());
  model.signature(rows, nullptr, out.data());
  return out;
}

inline std::uint32_t lsh_matches(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t m) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < m; ++i) count += a[i] == b[i] ? 1 : 0;
  return count;
}

// Families with the distances that they serve.
struct LshCase {
  LshFamily family;
  Distance distance;
};

inline constexpr LshCase kLshCases[] = {{LshFamily::kE2lsh, Distance::kL2},
                                        {LshFamily::kE2lsh, Distance::kL1},
                                        {LshFamily::kRbh, Distance::kL1},
                                        {LshFamily::kSimhash, Distance::kCosine}};

}  // namespace warplite::testing
