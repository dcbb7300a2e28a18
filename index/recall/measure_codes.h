// What codes find of the nearest rows, as a Calibration has it.
// Threads: as the task's. Errors: Error{kInterrupted}, and what the device reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/types.h"
#include "index/recall/calibration.h"
#include "index/recall/held_rows.h"
#include "index/trained.h"

namespace warplite::index {

// Rows and their codes.
struct CodedRows {
  CodedRows(const HeldRows& held, const MatrixView& some);
  // The list of each row.
  std::vector<std::uint32_t> lists(const InvertedModel& model) const;

  const MatrixView rows;
  const Bytes codes;
  const CodedBlock block;
};

// The nearest of each held row that measure_codes() wants to know, at least.
inline constexpr std::size_t kNearRows = 128;

// `some`: of `all` rows the first. `nearest`, `twins`: of all rows. REQUIRES: the model has codes.
void measure_codes(const HeldRows& held, const MatrixView& all, const CodedRows& some,
                   compute::HitTable& nearest, const Twins& twins, Calibration::Table& table);

}  // namespace warplite::index
