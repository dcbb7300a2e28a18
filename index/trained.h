// Index kinds that learn from the rows before they can serve them: ivfflat, ivfpq, ivfrabitq and
// lsh. A kind trains a model from a sample; the model codes the rows of a segment, once, into bytes
// that engine/ keeps beside the segment's vectors. Inverted files gather codes of many segments in
// a run, which a device searches (papers/faiss-gpu-2017 §2, §5); codes of lsh are signatures, whose
// matches a device counts (lsh.h). Models, codes and what is made of them never change once made,
// so that engine/ names them by stamps.
// Threads: const members may run concurrently. Errors: Error{kInterrupted} when asked to end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/ivf.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "index/index.h"

namespace warplite::index {

// A Progress receives what long work reports: "training: k-means 3 of 10", and the part done, from
// 0 to 1. It may be empty. It is called on the thread that asked for the work, now and then.
using Progress = std::function<void(const std::string& what, double done)>;

// A table at a time: rows that it has, and the number that its next segment will get. So segments
// from that number on are newer.
struct TableMoment {
  std::uint64_t rows = 0;
  std::int64_t next_segment = 0;

  TableMoment() = default;
  TableMoment(std::uint64_t table_rows, std::int64_t next = 0)
      : rows(table_rows), next_segment(next) {}
};

// Codes of one segment, as Model::encode() made them.
struct CodedBlock {
  std::span<const std::byte> codes;
  std::uint32_t rows = 0;
};
// Is told the number of a block, on any thread, once nothing of it is read any more.
using ReleaseBlock = std::function<void(std::size_t)>;

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

class InvertedModel;

class Model {
 public:
  virtual ~Model() = default;

  // Itself, when it has lists; else null.
  virtual const InvertedModel* inverted() const { return nullptr; }

  // The bytes it was read from, or is written as.
  virtual std::span<const std::byte> bytes() const = 0;
  // How many bytes of memory it takes, with what it makes for searches.
  virtual std::size_t memory() const = 0;
  // Rows it learnt from, and rows that the table then had.
  virtual std::uint64_t trained_on() const = 0;
  virtual std::uint64_t table_rows() const = 0;

  // Codes of every vector; the same bytes on every device. `present`: null when all are there.
  // What compares vectors runs on `device`. `centroids`: those of InvertedModel::centroids(),
  // resident on it; null: they are copied there each time.
  virtual Bytes encode(compute::Device& device, const MatrixView& vectors, const Bitmap* present,
                       compute::Cancellation* cancellation,
                       const compute::Buffer* centroids = nullptr) const = 0;
  // Bytes that a device compares to code a vector; 0: it has no part in it.
  virtual double coding_bytes() const = 0;
  // Throws Error{kCorrupt} unless these are codes of `rows` rows that this model can have made.
  virtual void check_codes(std::span<const std::byte> codes, std::uint32_t rows) const = 0;

  // These serve store=codes. Both REQUIRE check_codes() of each block, and a kind that takes
  // ColumnShape::codes_only. decode() writes what the codes say the vectors of `rows` are, as the
  // column's element type; zeros for rows without one. `present`, if not null: a bit for each of
  // `rows`, set for those that have one.
  virtual void decode(const CodedBlock&, RowRange, std::byte*, Bitmap*) const { no_decoding(); }
  // Codes of rows of several blocks, in the order given.
  virtual Bytes gather(std::span<const CodedRow>) const { no_decoding(); }

 private:
  [[noreturn]] static void no_decoding() {
    throw Error(ErrorKind::kUnsupported, "codes of this kind of index are not decoded");
  }
};

class Calibration;

// Codes are the list of each row, and with shape().m != 0 what its vector is within the list. Rows
// without a vector have no list.
class InvertedModel : public Model {
 public:
  const InvertedModel* inverted() const final { return this; }

  virtual const compute::IvfShape& shape() const = 0;
  virtual const float* centroids() const = 0;  // of lists, then of shape().groups groups
  virtual const Run* coarse() const = 0;       // IvfModelBuffers::coarse; null when there is none
  virtual const float* codebooks() const = 0;  // null without codebooks
  virtual const float* mean() const = 0;       // the same

  // How recall grows with what is looked at (recall/calibration.h); null: it was not measured.
  virtual const Calibration* calibration() const = 0;

  // Says whether model space is what vectors are, as the distance compares them, rotated at random
  // (compute/host/rotation.h).
  virtual bool rotates_at_random() const = 0;
  // `out`: [vectors.rows][dim], in model space (compute/ivf.h).
  virtual void to_model_space(const MatrixView& vectors, float* out) const = 0;
  // The same of queries. Products put rows in the same order however long a query is, but codes tell
  // products with what lies between the query and a centroid, which says little of a query that is far shorter:
  // so each is multiplied by a power of two, `scales`[i], that makes it as long as the longest centroid,
  // and so are the scores that it gets. Other distances: 1.
  virtual void queries_to_model_space(const MatrixView& queries, float* out, float* scales) const = 0;

  // What it says to a device, without the bytes that are to be resident: centroids, codebooks and
  // the run of lists. It lives as long as the model.
  compute::IvfModelBuffers buffers() const;

  // REQUIRES: check_codes() of each. Blocks in the order of their ordinals.
  virtual Run make_run(std::span<const CodedBlock> blocks,
                       const ReleaseBlock& release = {}) const = 0;
};

inline compute::IvfModelBuffers InvertedModel::buffers() const {
  compute::IvfModelBuffers buffers;
  buffers.shape = shape();
  buffers.mean = mean();
  if (const Run* lists = coarse(); lists != nullptr) buffers.coarse_positions = lists->positions;
  return buffers;
}

// The model as what it is; null when it is no such.
inline std::shared_ptr<const InvertedModel> inverted(const std::shared_ptr<const Model>& model) {
  return {model, model->inverted()};
}

class InvertedIndex;

class Trained : public Index {
 public:
  const Trained* trained() const final { return this; }
  // Itself, when it has lists; else null.
  virtual const InvertedIndex* inverted() const { return nullptr; }

  // Rows it wants to learn from when the table has `rows`.
  virtual std::size_t sample_rows(std::uint64_t rows) const = 0;
  // What it will make of a table of `rows` rows, for people: "2191 lists"; may be empty.
  virtual std::string plan(std::uint64_t) const { return {}; }
  // Says whether a table of `rows` rows is worth training without being asked to: the model there
  // is (null: none) is missing or too small for it.
  virtual bool wants_training(std::uint64_t rows, const Model* model) const = 0;
  // Throws Error{kInvalid} that says what is missing when the sample is too small.
  virtual std::shared_ptr<const Model> train(const compute::Devices& devices,
                                             const MatrixView& sample, const TableMoment& table,
                                             compute::Cancellation* cancellation,
                                             const Progress& progress) const = 0;
  // Bytes that a device compares to train with so many rows; 0: it has no part in it.
  virtual double training_bytes(std::size_t sample_rows) const = 0;
  // Throws Error{kCorrupt} unless `bytes` are those of a model of this kind and shape.
  virtual std::shared_ptr<const Model> open(std::span<const std::byte> bytes) const = 0;

  // Returns how many candidates a query that does not say takes for each row that it wants.
  virtual std::size_t default_refine() const = 0;
};

class InvertedIndex : public Trained {
 public:
  const InvertedIndex* inverted() const final { return this; }

  // Lists that a query looks into that does not say.
  virtual std::uint32_t default_nprobe(const InvertedModel& model) const = 0;
  // The recall that the table asks for, if it does.
  virtual std::optional<double> default_recall() const = 0;

  // Rows it wants to measure recall with, of a table of so many; 0: too few tell anything.
  virtual std::size_t measured_rows(std::uint64_t rows) const = 0;
  // The same model, whose codes stay as they are, with its recall measured anew by a sample of the
  // table as it is now, of which the last so many rows are newer than the last measurement. Null: the
  // sample has too few rows.
  virtual std::shared_ptr<const InvertedModel> measure(const compute::Devices& devices,
                                                       const InvertedModel& model,
                                                       const MatrixView& sample, std::size_t newer,
                                                       const TableMoment& table,
                                                       compute::Cancellation* cancellation,
                                                       const Progress& progress) const = 0;
};

}  // namespace warplite::index
