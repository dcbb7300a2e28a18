// Index kinds that learn from the rows before they can serve them: ivfflat and ivfpq.
// A kind trains a model from a sample; the model codes the rows of a segment, once, into bytes
// that engine/ keeps beside the segment's vectors; codes of many segments make a run, which a
// device searches. Models, codes and runs never change once made, so that engine/ names them by
// stamps. papers/faiss-gpu-2017 §2, §5.
// Threads: const members may run concurrently. Errors: Error{kInterrupted} when asked to end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/ivf.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "index/index.h"

namespace warplite::index {

// What long work tells of itself: "training: k-means 3 of 10", and the part done, 0 … 1. May be
// empty. Called on the thread that asked for the work, now and then.
using Progress = std::function<void(const std::string& what, double done)>;

// Codes of one segment, as Model::encode() made them.
struct CodedBlock {
  std::span<const std::byte> codes;
  std::uint32_t rows = 0;
};

struct RowRange {
  std::uint32_t first, count;
};

// A row of a block; `block` null: one without a vector.
struct CodedRow {
  const CodedBlock* block;
  std::uint32_t row;
};

// Rows by list, ready for a device.
struct Run {
  Bytes bytes;  // compute::IvfLayout
  std::uint32_t positions = 0;
  std::uint32_t longest = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const compute::IvfShape& shape() const = 0;
  virtual const float* centroids() const = 0;
  virtual const float* codebooks() const = 0;  // null when nothing is coded
  virtual const float* mean() const = 0;
  // The bytes it was read from, or is written as.
  virtual std::span<const std::byte> bytes() const = 0;
  // Rows it learnt from, and rows that the table then had.
  virtual std::uint64_t trained_on() const = 0;
  virtual std::uint64_t table_rows() const = 0;

  // `out`: [vectors.rows][dim], in model space (compute/ivf.h).
  virtual void to_model_space(const MatrixView& vectors, float* out) const = 0;

  // List and code of every vector; the same bytes on every device. `present`: null when all are
  // there; the others get no list. Coarse assignment and coding run on `device`.
  virtual Bytes encode(compute::Device& device, const MatrixView& vectors, const Bitmap* present,
                       compute::Cancellation* cancellation) const = 0;
  // Throws Error{kCorrupt} unless these are codes of `rows` rows that this model can have made.
  virtual void check_codes(std::span<const std::byte> codes, std::uint32_t rows) const = 0;
  // REQUIRES: check_codes() of each. Blocks in the order of their ordinals.
  virtual Run make_run(std::span<const CodedBlock> blocks) const = 0;
  // What the codes say the vectors of `rows` are, as the column's element type; zeros for rows
  // without one. `present`, if not null: a bit for each of `rows`, set for those that have one.
  // For store=codes. REQUIRES: shape().m != 0, check_codes().
  virtual void decode(const CodedBlock& block, RowRange rows, std::byte* out,
                      Bitmap* present) const = 0;
  // Codes of rows of several blocks, in the order given.
  // REQUIRES: shape().m != 0, check_codes() of each block.
  virtual Bytes gather(std::span<const CodedRow> rows) const = 0;
};

class Trained : public Index {
 public:
  // Rows it wants to learn from when the table has `rows`.
  virtual std::size_t sample_rows(std::uint64_t rows) const = 0;
  // Whether a table of `rows` rows is worth training without being asked to: the model there is
  // (null: none) is missing or too small for it.
  virtual bool wants_training(std::uint64_t rows, const Model* model) const = 0;
  // Throws Error{kInvalid} that says what is missing when the sample is too small.
  virtual std::shared_ptr<const Model> train(compute::Device& device, const MatrixView& sample,
                                             std::uint64_t table_rows,
                                             compute::Cancellation* cancellation,
                                             const Progress& progress) const = 0;
  // Throws Error{kCorrupt} unless `bytes` are those of a model of this kind and shape.
  virtual std::shared_ptr<const Model> open(std::span<const std::byte> bytes) const = 0;

  // What a query that does not say gets.
  virtual std::uint32_t default_nprobe(const Model& model) const = 0;
  virtual std::size_t default_refine() const = 0;
};

}  // namespace warplite::index
