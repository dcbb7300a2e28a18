// Queries in groups that are as large as memory allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/error.h"

namespace warplite::gpu {

// Calls body(first, count) for some of `total` queries after the other, `group` at a time, and
// again with half as many when memory runs out. Groups are multiples of `unit`, but for the last.
template <typename Body>
void in_groups(std::size_t total, std::size_t group, std::size_t unit, const Body& body) {
  for (std::size_t first = 0; first < total;) {
    const std::size_t left = total - first, parts = (left + group - 1) / group;
    const std::size_t equal = ((left + parts - 1) / parts + unit - 1) / unit * unit;
    const std::size_t count = std::min({group, equal, left});
    try {
      body(first, count);
      first += count;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoMemory || group <= unit) throw;
      group = (group / 2 + unit - 1) / unit * unit;
    }
  }
}

// Calls body(queries), and for either half of them when it says that they are too many (false),
// which it does not of a single one, or when memory runs out.
template <typename Query, typename Body>
void by_halves(std::span<Query> queries, const Body& body) {
  try {
    if (body(queries)) return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoMemory || queries.size() == 1) throw;
  }
  const std::size_t half = queries.size() / 2;
  by_halves(queries.first(half), body);
  by_halves(queries.subspan(half), body);
}

}  // namespace warplite::gpu
