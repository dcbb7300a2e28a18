// The measurement of a Spread: by rows and queries that the model has not learnt from.
#pragma once

#include <cstdint>
#include <span>

#include "index/recall/spread.h"
#include "index/training_task.h"

namespace warplite::index {

// `rows` lie in the `lists` given (CodesView::kNoList: in none); `queries`: [count][dim] in model
// space. The same with any number of threads. Throws Error{kInterrupted}.
Spread measure_spread(const TrainingTask& task, const InvertedModel& model, Distance distance,
                      const MatrixView& rows, std::span<const std::uint32_t> lists,
                      std::span<const float> queries);

}  // namespace warplite::index
