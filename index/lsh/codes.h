// Signatures of one segment's rows, as engine/ keeps them beside the vectors. Little-endian:
//   header   u32 magic, u32 version, u32 rows, u32 zero
//   present  u64[⌈rows / 64⌉]: a bit for each row that has a vector; 0 behind the last row
//   buckets  row by row those of the m functions: u16[rows][m], or u32[rows][m] when there are
//            more than 65,536 buckets; of simhash bits, u64[rows][⌈m / 64⌉], least significant
//            first and 0 behind the last one. Zeros for rows without a vector
// e2lsh and rbh are searched by postings. The match count of simhash is what a Hamming distance
// leaves of m, and its bits are compared as vectors of type BIT.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compute/device.h"
#include "core/bitmap.h"
#include "core/bytes.h"
#include "index/lsh/lsh.h"
#include "index/tiles/postings.h"
#include "index/trained.h"

namespace warplite::index {

// Says where things lie in the codes of `rows` rows.
class SignatureLayout {
 public:
  SignatureLayout(LshFamily family, std::uint32_t m, std::uint32_t buckets, std::uint32_t rows);
  SignatureLayout(const LshModel& model, std::uint32_t rows)
      : SignatureLayout(model.family(), model.m(), model.buckets(), rows) {}

  std::size_t present_at() const { return sizeof(std::uint32_t) * 4; }
  std::size_t buckets_at() const { return buckets_at_; }
  std::size_t stride() const { return stride_; }  // of a row's buckets
  std::size_t size() const { return size_; }

  // `signature`: [m]
  void pack(const std::uint32_t* signature, std::byte* row) const;
  void unpack(const std::byte* row, std::uint32_t* signature) const;

 private:
  std::uint32_t m_;
  std::uint32_t width_;  // bytes of a bucket; 0: a bit
  std::size_t stride_, buckets_at_, size_;
};

// See Model::encode() and check_codes().
Bytes encode_signatures(const LshModel& model, const MatrixView& vectors, const Bitmap* present,
                        compute::Cancellation* cancellation);
void check_signatures(const LshModel& model, std::span<const std::byte> codes, std::uint32_t rows);

// Rows that have a vector. REQUIRES: check_codes()
Bitmap coded_rows(const LshModel& model, const CodedBlock& block);
// Keywords are those of LshModel::append_keywords(). `poll` is asked now and then, and may throw.
// REQUIRES: check_codes(), no simhash, at most compute::kTileRows rows
Postings signature_postings(const LshModel& model, const CodedBlock& block,
                            const std::function<void()>& poll);

// Returns how many elements a simhash signature has as a vector of type BIT.
inline std::uint32_t signature_bits(const LshModel& model) { return (model.m() + 63) / 64 * 64; }
// Returns the bit vectors of all rows, one after another; rows without a vector have zeros.
// REQUIRES: check_codes()
std::span<const std::byte> bit_vectors(const LshModel& model, const CodedBlock& block);
// Returns the bit vectors of queries.
std::vector<std::byte> bit_vectors(const LshModel& model, const MatrixView& queries);

}  // namespace warplite::index
