// The buckets of rows, as lsh.h defines them, by panels of functions that are computed together.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/lsh/options.h"

namespace warplite::index {

// [functions][each] as [panels][each][functions of a panel], with zeros for functions that there
// are not.
std::vector<float> by_panels(const float* from, std::uint32_t functions, std::size_t each);

struct LshFunctions {
  LshFamily family;
  std::uint32_t m, buckets, dim;
  const float* factors;  // by panels
  const float* offsets;  // by panels; null of simhash
};

// `out`: [count][m]. A panel is used for all rows before the next is read: callers give as many as
// stay in a cache.
void hash_rows(const LshFunctions& functions, const double* rows, std::size_t count,
               std::uint32_t* out);

}  // namespace warplite::index
