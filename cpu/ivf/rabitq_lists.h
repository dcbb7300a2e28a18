// A RabitqLists looks at lists of RaBitQ codes (compute/rabitq.h): at the signs of all rows together,
// and at the other planes of those rows that the signs do not rule out.
// Not thread-safe: one per thread, as are the tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/ivf.h"
#include "core/bytes.h"
#include "cpu/ivf/candidates.h"
#include "cpu/ivf/rabitq_kernels.h"
#include "cpu/ivf/rows.h"

namespace warplite::cpu {

// The bytes of a run.
struct IvfRunView {
  const std::uint32_t* begins;
  const std::uint32_t* ordinals;
  const float* bias;
  const std::uint8_t* codes;
  const std::uint8_t* records;

  static IvfRunView of(const compute::IvfShape& shape, const std::byte* bytes,
                       std::uint32_t positions);
};

class RabitqLists {
 public:
  // What a query makes of one list.
  struct Tables {
    RabitqTables kernel;
    float a = 0;  // D
    Bytes memory;
  };
  // Consecutive positions of one list of a run, whole groups of them.
  struct Span {
    const IvfRunView* run;
    std::uint32_t begin, end;
    const RowMap* rows;   // says which rows live; null: all
    std::uint32_t first;  // added to ordinals
  };

  explicit RabitqLists(const compute::IvfShape& shape, bool product);

  // REQUIRES: `tables` are used with this shape only.
  void prepare(const float* y, const float* centroid, Tables& tables);
  // Adds the rows of the list that the tables are of.
  void scan(const Span& span, const Tables& tables, Candidates& candidates);
  // Asks memory for what prepare() reads, and scan() of each row.
  void ask_for(const Span& span, const float* centroid) const;

 private:
  struct Part;
  void sum(const Part& part, const RabitqTables& tables);
  void look_closer(const Part& part, const Tables& tables, std::size_t found,
                   Candidates& candidates);
  float fine_score(const Part& part, std::uint32_t place, const Tables& tables);
  float product(const Part& part, std::uint32_t place, const RabitqTables& tables,
                const std::uint8_t* planes);
  void copy_signs(const Part& part, std::uint32_t place, std::uint8_t* out) const;

  const compute::IvfShape shape_;
  const compute::RabitqGroup group_;
  const bool product_;
  const RabitqKernels& kernels_;
  const std::uint32_t record_;  // bytes
  const float signs_weight_;  // 2^(B−2)
  std::vector<float> scratch_, lows_;
  std::vector<std::uint16_t> sums_;
  std::vector<std::uint32_t> wide_, places_;
  std::vector<std::uint8_t> planes_;  // of one row, the signs among them
};

}  // namespace warplite::cpu
