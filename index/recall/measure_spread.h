// The measurement of a Spread: by rows and queries that the model has not learnt from.
#pragma once

#include <cstdint>
#include <span>

#include "index/recall/held_rows.h"
#include "index/recall/spread.h"

namespace warplite::index {

// `rows` lie in the `lists` given (CodesView::kNoList: in none). Held rows are queries, but for those that
// `twins` says are repeated. The same with any number of threads. Throws Error{kInterrupted}.
Spread measure_spread(const HeldRows& held, const Twins& twins, const MatrixView& rows,
                      std::span<const std::uint32_t> lists);

}  // namespace warplite::index
