// The header of a .npy file: a Python dict with three known keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warplite::sql {

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Returns nothing unless `text` is exactly such a dict, e.g.
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
std::optional<NpyHeader> parse_npy_header(std::string_view text);

}  // namespace warplite::sql
