// The measurement of a Spread: by rows and queries that the model has not learnt from.
#pragma once

#include <cstdint>
#include <span>

#include "index/recall/held_rows.h"
#include "index/recall/spread.h"

namespace warplite::index {

// `rows` lie in the `lists` given (CodesView::kNoList: in none). Held rows that are `usual` are
// queries. The same with any number of threads. Throws Error{kInterrupted}.
Spread measure_spread(const HeldRows& held, const std::vector<bool>& usual, const MatrixView& rows,
                      std::span<const std::uint32_t> lists);

}  // namespace warplite::index
