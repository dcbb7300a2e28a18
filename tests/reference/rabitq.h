// The obvious scalar version of RaBitQ codes: compute/rabitq.h.
// Threads: functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/ivf.h"
#include "tests/reference/reference.h"

namespace warplite::compute {

// A query and a list.
class RabitqPair {
 public:
  RabitqPair(const IvfShape& shape, Distance distance, const float* y, const float* centroid,
             bool codes_decide);

  float distance() const { return d_; }  // D
  // Of a position of a run; `ordinal` receives what it holds. +∞ for NaN.
  float score(const std::byte* run, const IvfLayout& at, std::uint32_t position,
              std::uint32_t* ordinal) const;

 private:
  float signs_product(const std::vector<int>& code) const;
  float product(const std::vector<int>& code) const;
  int level(const std::byte* group, const std::byte* record, std::uint32_t place,
            std::uint32_t element) const;

  const IvfShape shape_;
  const bool with_signs_;
  float d_ = 0, norm_ = 0, unit_ = 0, fine_ = 0;
  std::vector<int> coarse_, elements_;  // w, v
};

struct RabitqProbe {
  float score;
  std::uint32_t list;
};
// The best lists by their codes, or by D where there are no groups: coarse_candidates().
std::vector<RabitqProbe> rabitq_probes(const IvfWork& work, const float* query,
                                       const IvfHostModel& model);

}  // namespace warplite::compute
