// Columns of parts as codes (compute/codes.h): the rank of each value among those that occur in the
// part, NULL behind all others. They follow from the column's block, so that nothing of them is
// stored: they are made when first asked for, and cached by a key that the block's gives them;
// those of rows that are not sealed are made for one search.
// Threads: as the view's connection; what was loaded may be used by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "core/column.h"
#include "engine/residency/residency.h"
#include "engine/table/view.h"

namespace warplite::engine {

struct ColumnCodes {
  CacheKey key;  // null: of rows that are not sealed, or no codes
  // u16, see compute::code_slots(); null: every value of the part is NULL, and there are no codes
  std::shared_ptr<const ResidentVectors> bytes = nullptr;

  // The value of each code: ascending, a NULL last. REQUIRES: there are codes
  const Column& values() const { return *static_cast<const Column*>(bytes->owner.get()); }
};

// Says whether the codes of these columns of a part are in memory. REQUIRES: the part is sealed.
bool has_column_codes(const View& view, std::uint32_t part, std::span<const std::size_t> columns);

// [parts][columns]; made on several threads where there are none yet. Throws Error{kCorrupt}, Error{kInterrupted}.
std::vector<ColumnCodes> load_column_codes(const View& view, std::span<const std::uint32_t> parts,
                                           std::span<const std::size_t> columns,
                                           compute::Cancellation* cancellation);

}  // namespace warplite::engine
