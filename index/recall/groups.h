// Rows may lie in groups that are much alike: copies, versions of a document, frames of a film. A
// held row of a group finds the others of it wherever a search looks, and a query that is none of
// the rows finds no such group. So held rows are fresh queries only if they lie in no group, or if
// their group is left out (leave-one-group-out cross-validation). Threads: const members from any.
// Errors: Error{kInterrupted}, and what the device reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/bitmap.h"
#include "index/recall/held_rows.h"

namespace warplite::index {

class Groups {
 public:
  // The nearest of each held row that tell where its group ends, at least.
  static constexpr std::size_t kNearest = 128;

  // `nearest`: to each held row among the rows of the base; `in_a_tenth`: among the first tenth of
  // these, or null.
  Groups(const HeldRows& held, const MatrixView& base, compute::HitTable& nearest,
         compute::HitTable* in_a_tenth);

  // By held row: says whether it stands for queries that may be much like some rows, and for fresh
  // ones.
  const std::vector<bool>& usual() const { return usual_; }
  const std::vector<bool>& fresh() const { return fresh_; }
  // Says whether usual() and fresh() differ.
  bool any() const;
  // Adds folds where too few held rows are fresh: one of each group, without those groups that are
  // there. Each of these searches among the rows that several groups leave, so that the devices do
  // it at once.
  void leave_out(std::deque<HeldRows>& folds) const;

 private:
  // How far the farthest row of it lies that was seen, and up to where others are taken for rows of
  // it, both as apart() has it; none: negative.
  struct Group {
    double extent = -1, limit = -1;
    bool repeated = false;
  };

  void measure_norms();
  std::vector<double> apart(std::size_t row, std::span<const Hit> nearest) const;
  double rounding(std::size_t row) const;
  Group group(std::size_t row, std::span<const Hit> nearest, std::size_t least) const;
  std::vector<std::uint32_t> within(std::size_t row, std::span<const Hit> nearest) const;
  void find(compute::HitTable& nearest, compute::HitTable* in_a_tenth);
  void choose(compute::HitTable& nearest);
  Bitmap outside(const std::vector<std::size_t>& rows) const;

  const HeldRows& held_;
  const MatrixView base_;
  std::vector<double> norms_;   // squares, of the rows of the base; only of products
  std::vector<double> limits_;  // by held row
  std::vector<bool> usual_, fresh_;
  std::vector<std::size_t> one_of_each_;
};

}  // namespace warplite::index
