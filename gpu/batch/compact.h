// Some rows of a table, copied together for the product: the live ones, where a filter leaves few
// and it would else have to multiply all of them, or a sample.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "gpu/batch/shadow.h"
#include "gpu/rows/row_table.h"
#include "gpu/runtime/lane.h"

namespace warplite::gpu {

// A block's half-precision copy, and where its live rows go.
struct CompactSource {
  const std::uint16_t* rows;
  const RowStats* stats;
  std::uint32_t first_position;
  std::uint32_t reserved;
};

struct CompactRows {
  DeviceBytes memory;
  const std::uint16_t* rows = nullptr;      // panels, as Shadow::rows
  const RowStats* stats = nullptr;
  const std::uint32_t* ordinals = nullptr;  // ascending
  std::uint32_t count = 0;
};

// Throws Error{kNoMemory}. REQUIRES: a source for every block of the table, `count` live rows.
CompactRows compact(const RowTable& table, std::span<const CompactSource> sources,
                    std::uint32_t count, Lane& lane);

// The same of the rows with these ordinals. REQUIRES: there are some.
CompactRows gather(const RowTable& table, std::span<const CompactSource> sources,
                   std::span<const std::uint32_t> chosen, Lane& lane);

}  // namespace warplite::gpu
