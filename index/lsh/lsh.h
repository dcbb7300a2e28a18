// Locality-sensitive hashing: the keywords of vectors, for search by match counts. m functions each
// give a vector a bucket; two vectors have the same one with a probability that is their
// similarity, so that match count / m estimates it. papers/genie-2018 §IV.
//   e2lsh    h(x) = ⌊(a·x + b) / w⌋, a of normal numbers for L2 and of Cauchy ones for L1 (Eqn. 10)
//   rbh      h(x) = (⌊x₁/g₁ + u₁⌋, ⌊x₂/g₂ + u₂⌋, …), pitches g from Gamma(2, σ) (Eqn. 2)
//   simhash  h(x) = whether a·x ≥ 0, a of normal numbers
// What e2lsh and rbh compute is hashed into few buckets by MurmurHash3, seeded with the function's
// number (§IV-A2). Vectors with different values meet in a bucket once in as many as there are.
//
// The paper's Eqn. 2 has one pitch for all dimensions. Then the probability would be the mean of
// Π max(0, 1 − |xᵢ − yᵢ| / g) over g, which is no function of the L1 distance; with a pitch drawn
// for each dimension it is the product of exp(−|xᵢ − yᵢ| / σ), as Rahimi and Recht have it.
//
// Arithmetic is in double and in the order of the dimensions, products of float32 being exact, none
// of it fused: signatures are the same on every machine and with any number of threads.
//
// The bytes of a model, little-endian:
//   header   80 bytes, see lsh_model.cc: version, column, options, scale, what it learnt from
//   factors  float[m][dim]  a / w, or 1 / g, or a
//   offsets  float[m] of e2lsh, float[m][dim] of rbh, within [−1/2, 1/2]: cells are found by
//            rounding, not by rounding down (compute/host/lsh_hash.h); none of simhash
// Threads: any; large inputs are spread over the threads of searches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compute/match.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "index/lsh/options.h"
#include "index/trained.h"

namespace warplite::index {

// The bucket of vectors that are not there.
inline constexpr std::uint32_t kNoBucket = 0xffffffffu;

class LshModel final : public Model {
 public:
  // REQUIRES: bytes that open_lsh() takes
  explicit LshModel(Bytes bytes);

  LshFamily family() const { return family_; }
  std::uint32_t m() const { return m_; }
  std::uint32_t buckets() const { return buckets_; }
  std::uint32_t dim() const { return dim_; }
  // The width of e2lsh, the sigma of rbh, 1 of simhash.
  double scale() const { return scale_; }

  std::span<const std::byte> bytes() const override { return {bytes_.data(), bytes_.size()}; }
  std::size_t memory() const override {
    return bytes_.size() + (factors_.size() + offsets_.size()) * sizeof(float);
  }
  std::uint64_t trained_on() const override { return trained_on_; }
  std::uint64_t table_rows() const override { return table_rows_; }
  // Codes are signatures (lsh_codes.h), made on the threads of searches, not by the device.
  Bytes encode(compute::Device& device, const MatrixView& vectors, const Bitmap* present,
               compute::Cancellation* cancellation,
               const compute::Buffer* centroids) const override;
  double coding_bytes() const override { return 0; }
  void check_codes(std::span<const std::byte> codes, std::uint32_t rows) const override;

  // The bucket of each function, [vectors.rows][m]; kNoBucket in rows that `present` has no bit
  // for. `present`: null when all are there.
  void signature(const MatrixView& vectors, const Bitmap* present, std::uint32_t* out) const;

  // Appends the keywords of a row, in the order of the functions: i · buckets + the bucket for
  // function i; a row without a vector has none. `signature`: [m].
  void append_keywords(const std::uint32_t* signature, std::vector<compute::Keyword>& out) const;

 private:
  Bytes bytes_;
  LshFamily family_;
  std::uint32_t m_, buckets_, dim_;
  double scale_;
  std::uint64_t trained_on_, table_rows_;
  std::vector<float> factors_, offsets_;  // by panels (lsh_kernels.h)
};

// The model of an index of this kind, as what it is. Throws std::bad_cast for another.
inline const LshModel& hashed(const Model& model) { return dynamic_cast<const LshModel&>(model); }

// Draws the functions. `sample`: what widths are chosen from (lsh_training.h).
// Throws Error{kInvalid} when that has too few rows.
std::shared_ptr<const LshModel> train_lsh(const LshOptions& options, const ColumnShape& column,
                                          const MatrixView& sample, std::uint64_t table_rows);

// Throws Error{kCorrupt} unless the bytes are of a model for these options and this column.
std::shared_ptr<const LshModel> open_lsh(std::span<const std::byte> bytes,
                                         const ColumnShape& column, const LshOptions& options);

// index=lsh. It learns as soon as there are as many rows as a sample for widths may have, and again
// only when it was asked to learn from fewer and the table has become much larger since.
Kind lsh_kind();

}  // namespace warplite::index
