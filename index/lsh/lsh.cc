#include "index/lsh/lsh.h"

#include <algorithm>
#include <cstring>

#include "compute/host/parallel.h"
#include "index/clustering/model_space.h"
#include "index/lsh/codes.h"
#include "index/lsh/layout.h"
#include "index/lsh/panels.h"

namespace warplite::index {
namespace {

constexpr std::size_t kBlockElements = std::size_t{1} << 12;  // of rows, in the first-level cache
constexpr std::size_t kConverted = 4096;                      // rows as float32 at a time
constexpr std::size_t kThreadSteps = std::size_t{1} << 18;    // of dimensions worth a thread

}  // namespace

LshModel::LshModel(Bytes bytes) : bytes_(std::move(bytes)) {
  LshHeader header;
  std::memcpy(&header, bytes_.data(), sizeof header);
  family_ = static_cast<LshFamily>(header.family);
  m_ = header.m;
  buckets_ = header.buckets;
  dim_ = header.dim;
  scale_ = header.scale;
  trained_on_ = header.trained_on;
  table_rows_ = header.table_rows;
  const LshLayout layout = LshLayout::of(family_, m_, dim_);
  const float* const floats = reinterpret_cast<const float*>(bytes_.data() + sizeof header);
  factors_ = by_panels(floats, m_, dim_);
  if (layout.offsets != 0) {
    offsets_ = by_panels(floats + layout.factors, m_, layout.offsets / m_);
  }
}

void LshModel::signature(const MatrixView& vectors, const Bitmap* present,
                         std::uint32_t* out) const {
  WARP_CHECK(vectors.dim == dim_);
  const LshFunctions functions{family_,         m_,
                               buckets_,        dim_,
                               factors_.data(), offsets_.empty() ? nullptr : offsets_.data()};
  const std::size_t block = std::max<std::size_t>(4, kBlockElements / dim_);
  std::vector<float> floats(std::min(vectors.rows, kConverted) * dim_);
  for (std::size_t begin = 0; begin < vectors.rows; begin += kConverted) {
    const std::size_t rows = std::min(kConverted, vectors.rows - begin);
    to_model_space({vectors.row(begin), rows, dim_, vectors.type}, Distance::kL2, {},
                   floats.data());
    compute::in_parallel(rows, block, rows * dim_ * m_ / kThreadSteps,
                         [&](std::size_t first, std::size_t last) {
      std::vector<double> doubles(block * dim_);
      for (std::size_t row = first; row < last; row += block) {
        const std::size_t count = std::min(block, last - row);
        std::copy_n(floats.data() + row * dim_, count * dim_, doubles.data());
        hash_rows(functions, doubles.data(), count, out + (begin + row) * m_);
      }
    });
  }
  if (present == nullptr) return;
  for (std::size_t row = 0; row < vectors.rows; ++row) {
    if (!present->test(row)) std::fill_n(out + row * m_, m_, kNoBucket);
  }
}

Bytes LshModel::encode(compute::Device&, const MatrixView& vectors, const Bitmap* present,
                       compute::Cancellation* cancellation, const compute::Buffer*) const {
  return encode_signatures(*this, vectors, present, cancellation);
}

void LshModel::check_codes(std::span<const std::byte> codes, std::uint32_t rows) const {
  check_signatures(*this, codes, rows);
}

void LshModel::append_keywords(const std::uint32_t* signature,
                               std::vector<compute::Keyword>& out) const {
  for (std::uint32_t i = 0; i < m_; ++i) {
    if (signature[i] == kNoBucket) continue;
    out.push_back(compute::Keyword{i} * buckets_ + signature[i]);
  }
}

}  // namespace warplite::index
