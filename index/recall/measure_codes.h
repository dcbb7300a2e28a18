// What codes find of the nearest rows, as a Calibration has it.
// Threads: as the task's. Errors: Error{kInterrupted}, and what the device reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/bytes.h"
#include "core/types.h"
#include "index/recall/calibration.h"
#include "index/recall/groups.h"
#include "index/recall/held_rows.h"
#include "index/recall/observed.h"
#include "index/trained.h"

namespace warplite::index {

// Rows, their codes, and these by lists.
struct CodedRows {
  CodedRows(const HeldRows& held, const MatrixView& some);
  // The list of each row.
  std::vector<std::uint32_t> lists(const InvertedModel& model) const;

  const MatrixView rows;
  const Bytes codes;
  const CodedBlock block;
  const Run run;
};

// What codes find of the `nearest` rows of the first of each fold, which are of coded rows.
// REQUIRES: the model has codes.
void measure_codes(const std::deque<HeldRows>& folds, const Groups& groups, const CodedRows& coded,
                   const std::vector<Places>& nearest, const Share& share,
                   const std::vector<std::vector<Contrast>>& contrasts, Calibration& calibration);

}  // namespace warplite::index
