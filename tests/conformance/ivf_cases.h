// Searches of inverted files that differ in everything, made from a number.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/conformance/ivf_world.h"

namespace warplite::testing::ivf {

struct Coding {
  std::uint32_t m, bits, sub_dim;
};

// m == 0: sub_dim is the dimension.
inline const std::vector<Coding>& codings() {
  static const std::vector<Coding> all = {{0, 8, 24}, {1, 8, 8},  {3, 8, 5},   {4, 8, 4},
                                          {32, 8, 2}, {7, 8, 16}, {257, 8, 1}, {1, 4, 3},
                                          {2, 4, 8},  {3, 4, 4},  {5, 4, 1},   {8, 4, 4},
                                          {33, 4, 2}, {64, 4, 1}, {257, 4, 1}, {300, 4, 1},
                                          {515, 4, 1}, {0, 4, 65}};
  return all;
}

inline std::vector<ElementType> number_types() {
  std::vector<ElementType> types;
  for (const ElementInfo& row : kElementTypes) {
    if (row.numbers != Numbers::kBits) types.push_back(row.type);
  }
  return types;
}

inline Case make_case(const Coding& coding, std::uint64_t n) {
  Case c;
  c.shape.m = coding.m;
  c.shape.bits = coding.bits;
  c.shape.dim = coding.m == 0 ? coding.sub_dim : coding.m * coding.sub_dim;
  c.shape.lists = turn<std::uint32_t>({5, 1, 17, 8, 3}, n);
  c.distance = turn({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}, n);
  c.shape.listwise = coding.m != 0 && c.distance != Distance::kInnerProduct && n % 5 > 2;
  const std::vector<ElementType> types = number_types();
  c.type = types[n / 3 % types.size()];
  c.data = static_cast<Data>(n / 2 % static_cast<std::uint64_t>(Data::kCount));
  c.refine = turn<std::size_t>({0, 1, 8, 2}, n / 2);
  c.vectors = c.refine != 0 || c.shape.m == 0 || n % 3 == 0;
  c.k = turn<std::size_t>({10, 1, 3, 1000, 40}, n / 4);
  c.runs = turn<std::size_t>({1, 3, 2}, n);
  c.blocks = turn<std::size_t>({1, 4, 2}, n / 2);
  c.filter = turn({0, 0, 2, 5, 0, 40, -1}, n);
  c.queries = turn<std::size_t>({1, 2, 5, 33, 1, 70}, n);
  c.nprobe = turn<std::uint32_t>({1, 2, 1000, 4}, n / 3);
  c.nprobe = std::min(c.nprobe, c.shape.lists);
  c.seed = n + 1;
  return c;
}

}  // namespace warplite::testing::ivf
