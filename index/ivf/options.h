// IvfOptions are what `index=ivfflat(…)`, `index=ivfpq(…)` and `index=ivfrabitq(…)` say, and what
// holds where they do not.
//   lists   1 … 1,048,576; chosen when training: about 4·√rows, with RaBitQ codes 2.5·√rows, and at
//           most a 32nd of the rows
//   nprobe  1 … lists; max(8, 1.2·√lists)
//   recall  above 0, up to 1: what a query is to find that does not say; none
// of ivfrabitq:
//   bits    1 … 8, of a dimension; 4
//   rotate  0 or 1: rotate at random, so that no dimension is special; 1
//   refine  as of ivfpq; 3
// and of ivfpq:
//   bits    8 or 4, of the code of a sub-space; 8
//   m       sub-spaces, a divisor of dim; of 4 elements each up to dim 256, then of 8; of half as
//           many with 4 bits, so that codes take as much
//   opq     0 or 1: learn a rotation; 0
//   refine  0 … 10,000; 8: of 8·k candidates the true distances decide. 0 with store=codes
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "index/index.h"

namespace warplite::index {

inline constexpr std::uint32_t kMostLists = 1u << 20;  // of a column

struct IvfOptions {
  std::uint32_t lists = 0;   // 0: chosen when training
  std::uint32_t nprobe = 0;  // 0: by the lists there are
  std::optional<double> recall;
  std::uint32_t m = 0;       // 0: ivfflat
  std::uint32_t bits = 8;
  bool opq = false;
  std::uint32_t planes = 0;  // not 0: ivfrabitq
  bool rotate = false;
  std::size_t refine = 0;

  std::uint32_t codewords() const { return 1u << bits; }
  bool has_codebooks() const { return m != 0 && planes == 0; }
};

// Throws Error{kInvalid} that names the parameter, what was expected and what came.
IvfOptions parse_ivfflat(const Spec& spec, const ColumnShape& column);
IvfOptions parse_ivfpq(const Spec& spec, const ColumnShape& column);
IvfOptions parse_ivfrabitq(const Spec& spec, const ColumnShape& column);
// `index=approximate(recall=0.95)`: ivfrabitq with what suits the column.
IvfOptions parse_approximate(const Spec& spec, const ColumnShape& column);

// Lists for a table of `rows` rows, and groups for so many lists; 0: they are not grouped.
std::uint32_t lists_for(const IvfOptions& options, std::uint64_t rows);
std::uint32_t groups_for(const IvfOptions& options, std::uint32_t dim, std::uint32_t lists);

}  // namespace warplite::index
