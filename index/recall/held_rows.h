// The rows that are held aside to measure a model with, and rows of the sample among which their
// nearest are sought.
// Threads: const members from any. Errors: Error{kInterrupted}, and what the device reports.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compute/device.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "core/distance.h"
#include "core/types.h"
#include "index/trained.h"
#include "index/training_task.h"

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

// What every measurement knows. Task and model outlive it.
struct HeldRows {
  HeldRows(const TrainingTask& from, const InvertedModel& of, Distance by, const MatrixView& sample,
           std::span<const std::size_t> order);
  // Some of these held rows, to which only `among` may be near.
  HeldRows(const HeldRows& held, std::span<const std::size_t> some, Bitmap among);

  std::size_t size() const { return rows.view().rows; }
  // The nearest to each of the first held rows, among rows that the task's device has in this
  // buffer.
  compute::HitTable nearest(const compute::Buffer* buffer, const MatrixView& among,
                            std::size_t held, std::size_t k) const;
  // Of the vector in model space.
  double square_norm(std::size_t row) const;

  const TrainingTask& task;
  const InvertedModel& model;
  const Distance distance;
  const PickedRows rows;
  std::vector<float> in_model_space;  // of rows, as queries
  const Bitmap live;                  // rows that may be near; of size 0: all

 private:
  std::vector<float> scales_;  // of in_model_space
};

// Tells a device which of the first rows take part.
class LiveRows {
 public:
  LiveRows(const HeldRows& held, std::size_t rows);
  void mark(compute::Block& block) const;

 private:
  Bitmap live_;
};

// Bytes on a device, which outlive what is there.
std::shared_ptr<const compute::Buffer> resident(compute::Device& device, const void* data,
                                                std::size_t size);

}  // namespace warplite::index
