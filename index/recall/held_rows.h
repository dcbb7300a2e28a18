// The rows that are held aside to measure a model with, and rows of the sample among which their
// nearest are sought.
// Threads: const members from any. Errors: Error{kInterrupted}, and what the device reports.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "core/distance.h"
#include "core/types.h"
#include "index/training_task.h"
#include "index/trained.h"

namespace warplite::index {

inline constexpr std::size_t kHeldRows = 1024;  // at most; and one in
inline constexpr std::size_t kHeldShare = 16;   // of the sample
inline constexpr std::size_t kLeastHeld = 64;   // fewer tell nothing

// Some rows of a sample, one after another.
class PickedRows {
 public:
  PickedRows(const MatrixView& sample, std::span<const std::size_t> order);
  const MatrixView& view() const { return view_; }
  MatrixView first(std::size_t rows) const;

 private:
  Bytes bytes_;
  MatrixView view_;
};

// By held row: how many of its nearest are its twins. A query is none of the rows, but where rows came twice a held
// row has a twin among those that are searched, which is found whatever a search looks at.
using Twins = std::vector<std::uint32_t>;
inline constexpr std::size_t kMostTwins = 32;
// More rows than that are the same, as empty texts have the same embedding: such a row says nothing of other queries.
inline constexpr std::uint32_t kRepeated = ~std::uint32_t{0};

// What every measurement knows. Task and model outlive it.
struct HeldRows {
  HeldRows(const TrainingTask& from, const InvertedModel& of, Distance by, const MatrixView& sample,
           std::span<const std::size_t> order);

  // The nearest to each of the first held rows, among rows that the task's device has in this buffer.
  compute::HitTable nearest(const compute::Buffer* buffer, const MatrixView& among,
                            std::size_t held, std::size_t k) const;
  // Of rows that were found so, kMostTwins more than are wanted. `of_all`: the same of all rows, which says which
  // are repeated; null: it is these.
  Twins twins(compute::HitTable& nearest, const Twins* of_all) const;

  const TrainingTask& task;
  const InvertedModel& model;
  const Distance distance;
  const PickedRows rows;
  std::vector<float> in_model_space;  // of rows, as queries

 private:
  std::uint32_t twins(std::size_t row, std::span<const Hit> nearest) const;
  std::vector<float> scales_;  // of in_model_space
};

// Bytes on a device, which outlive what is there.
std::shared_ptr<const compute::Buffer> resident(compute::Device& device, const void* data,
                                                std::size_t size);

}  // namespace warplite::index
