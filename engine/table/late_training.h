// Remembers, for all connections of the process, which columns could not learn, so that not every transaction tries
// again. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/process/stamp.h"

namespace warplite::engine {

class View;

struct LateTraining {
  std::uint64_t rows;  // sealed ones, from which on it is tried again,
  std::uint32_t seconds;  // or as soon as there is more time than this; 0: it was no matter of time
};

// `vectors`: the stamp of a column's first vectors, which no other column has.
void remember_late(const Stamp& vectors, const LateTraining& late);
std::optional<LateTraining> late_training(const Stamp& vectors);

// Says whether the column has no model because time ran out.
bool ran_out_of_time(const View& view, std::size_t column);

}  // namespace warplite::engine
