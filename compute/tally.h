// A pass of k-means as a device with memory of its own makes it, over rows that are resident there:
// each row belongs to its nearest list, and the rows of each list are added up.
// Rows are as index/clustering/model_space.h has them without a rotation: converted to float32, and with
// `normalised` divided by their norm. Lists are those that AssignWork (ivf.h) finds. Sums are
// float64, of one row after the other in their order, that of blocks and then of rows, so that they
// are the same bits on every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "core/types.h"

namespace warplite::compute {

// One of several who add their rows to the same sums, each those that follow another's. Lists do
// not depend on each other: who is first goes on with some while the next one adds to those before.
// Threads: the one that tallies. Whoever waits may keep what others need of its device meanwhile, so that
// all pieces of work have devices in one order, the registry's. Ownership: outlives the tally.
class TallyTurn {
 public:
  virtual ~TallyTurn() = default;
  // Returns once lists up to `end` have all rows that come before. False: they will not, or the
  // work is given up.
  virtual bool await(std::uint32_t end) = 0;
  // Lists up to `end` have these rows, too.
  virtual void pass_on(std::uint32_t end) = 0;
};

struct TallyWork {
  std::span<const Block> blocks;             // of vectors that hold numbers
  ElementType type = ElementType::kFloat32;
  bool normalised = false;
  std::uint32_t dim = 0, lists = 0;
  const Buffer* centroids = nullptr;         // float32 [lists][dim], on the device
  TallyTurn* turn = nullptr;                 // null: nobody else adds
  Cancellation* cancellation = nullptr;
};

// By list; work adds to it.
struct ListTallies {
  struct Row {
    double distance = -1;  // -1: there is none
    std::uint32_t block = 0, row = 0;
  };
  std::vector<std::uint64_t> counts;
  std::vector<double> sums;     // [lists][dim]
  std::vector<double> squares;  // of distances from the centroid
  std::vector<Row> farthest;    // from the centroid, the first of several; Block::id and row

  ListTallies(std::size_t lists, std::uint32_t dim)
      : counts(lists), sums(lists * dim), squares(lists), farthest(lists) {}
};

}  // namespace warplite::compute
