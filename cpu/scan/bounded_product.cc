#include "cpu/scan/bounded_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/elements.h"
#include "cpu/runtime/flush_denormals.h"

namespace warplite::cpu {
namespace {

constexpr double kLargestSquare = 0x1p80;  // of a norm that cannot overflow
constexpr double kFloor = 0x1p-40;
constexpr std::uint32_t kLargestDim = 1u << 16;
constexpr std::size_t kDepth = 512;  // elements multiplied between visits of the sums
constexpr std::size_t kBlockBytes = 256 << 10;
constexpr std::size_t kStripBytes = 32 << 10;  // the same of strips: few panels read them again
constexpr std::size_t kBlockRows = 512;
constexpr std::size_t kDotsBytes = 64 << 10;
constexpr std::size_t kGroupSteps = std::size_t{1} << 26;  // multiply-adds between looks at `stop`
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The power of two that brings `norm` near 1, within what float32 multiplies exactly.
double scale_for(double norm) {
  if (!(norm > 0) || !std::isfinite(norm)) return 1;
  return std::ldexp(1.0, std::clamp(-std::ilogb(norm), -120, 120));
}

// A median, element by element: a few rows that lie far away would draw a mean to them, and with norms
// that are large against the distances little can be proved.
std::vector<float> middle_of(ElementType type, std::uint32_t dim,
                             const BoundedProduct::Vectors& vectors) {
  constexpr std::size_t kEnough = 17;
  std::vector<float> middle(dim), values;
  const std::size_t step = vectors.size() / kEnough + 1;
  for (std::size_t i = 0; i < dim && !vectors.empty(); ++i) {
    values.clear();
    for (std::size_t v = 0; v < vectors.size(); v += step) {
      const float value = to_float(static_cast<double>(element_at(type, vectors[v], i)));
      if (std::isfinite(value)) values.push_back(value);
    }
    if (values.empty()) continue;
    const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), half, values.end());
    middle[i] = *half;
  }
  return middle;
}

// Into the second-level cache, which has room for a block.
void ask_for(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 64) __builtin_prefetch(bytes.data() + i, 0, 2);
}

}  // namespace

static_assert(products_are({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}));

bool BoundedProduct::suits(Distance distance, std::uint32_t dim) {
  return dim <= kLargestDim && info(distance).product;
}

BoundedProduct::Vectors BoundedProduct::sample_of(const MatrixView& vectors) {
  Vectors sample;
  const std::size_t step = vectors.rows / kSampleRows + 1;
  for (std::size_t i = 0; i < vectors.rows; i += step) sample.push_back(vectors.row(i));
  return sample;
}

BoundedProduct::BoundedProduct(const GemmKernels& gemm, const GemmKernels::Panel& panel,
                               Distance distance, ElementType type, std::uint32_t dim,
                               const Vectors& rows, const Vectors& queries)
    : gemm_(gemm), panel_(panel), distance_(distance), type_(type), dim_(dim),
      depth_(panel.narrow_tile != nullptr ? (dim + 1) / 2 : dim) {
  choose_blocks();
  if (distance == Distance::kCosine) return;
  if (distance == Distance::kL2) centre_ = middle_of(type, dim, rows);
  const double row_norm = largest_norm(rows), query_norm = largest_norm(queries);
  row_scale_ = scale_for(row_norm > 0 ? row_norm : query_norm);
  query_scale_ = distance == Distance::kL2 ? row_scale_ : scale_for(query_norm);
}

void BoundedProduct::choose_blocks() {
  constexpr std::size_t kStrip = GemmKernels::kStrip;
  row_size_ = panel_.strips ? (depth_ + kStrip - 1) / kStrip * kStrip : depth_;
  const std::size_t bytes = panel_.strips ? kStripBytes : kBlockBytes;
  const std::size_t fitting = bytes / (depth_ * sizeof(float)) / gemm_.rows * gemm_.rows;
  block_rows_ = std::clamp(fitting, gemm_.rows, kBlockRows);
  const std::size_t panel_dots = block_rows_ * panel_.queries;
  panel_group_ = std::max<std::size_t>(1, std::min(kDotsBytes / (panel_dots * sizeof(float)),
                                                   kGroupSteps / (panel_dots * depth_)));
}

double BoundedProduct::largest_norm(const Vectors& vectors) const {
  double largest = 0;
  for (const std::byte* vector : vectors) {
    double square = 0;
    for (std::size_t i = 0; i < dim_; ++i) {
      const double shift = centre_.empty() ? 0.0 : static_cast<double>(centre_[i]);
      const double value = static_cast<double>(element_at(type_, vector, i)) - shift;
      square += value * value;
    }
    largest = std::max(largest, square);
  }
  return std::sqrt(largest);
}

void BoundedProduct::pack_queries(const MatrixView& queries, Queries* out) const {
  const std::size_t width = panel_.queries, size = panels_of(queries.rows) * width * depth_;
  const bool narrow = panel_.narrow_panel != nullptr;
  const bool unit = distance_ == Distance::kCosine;
  const PackSource source{type_, dim_, centre_.empty() ? nullptr : centre_.data(),
                          static_cast<float>(query_scale_), unit};
  out->bounds.resize(queries.rows);
  if (out->panels.size() < size * sizeof(float)) out->panels = Bytes(size * sizeof(float));
  float* packed = reinterpret_cast<float*>(out->panels.data());
  Vectors vectors(width);
  std::vector<double> squares(width);
  std::vector<float> wide(narrow ? width * dim_ : 0);
  for (std::size_t first = 0; first < queries.rows; first += width) {
    for (std::size_t i = 0; i < width; ++i) {
      vectors[i] = first + i < queries.rows ? queries.row(first + i) : nullptr;
    }
    float* const panel = packed + first * depth_;
    gemm_.pack(source, vectors.data(), width, narrow ? wide.data() : panel, squares.data());
    if (narrow) panel_.narrow_panel(wide.data(), dim_, panel);
    for (std::size_t i = 0; i < width && first + i < queries.rows; ++i) {
      Query& query = out->bounds[first + i];
      query.square = unit ? (squares[i] > 0 ? 1 : 0) : squares[i];
      query.usable = query.square <= kLargestSquare;
      const double gamma = 1.02 * (dim_ + 16.0) * kUnit + (narrow ? kNarrowed : 0);
      query.slack = to_float(gamma * (std::sqrt(query.square) * (1 + 0x1p-20) + kFloor));
    }
  }
}

BoundedProduct::Rows BoundedProduct::make_rows(std::size_t rows) const {
  Rows out;
  const std::size_t padded = padded_rows(rows);
  out.packed = Bytes(padded * row_size_ * sizeof(float));
  out.halves.resize(padded);
  out.norms.resize(padded);
  out.squares.resize(gemm_.rows);
  constexpr std::size_t kStrip = GemmKernels::kStrip;
  const std::size_t strips = (dim_ + kStrip - 1) / kStrip * kStrip;
  if (panel_.narrow_tile != nullptr) out.wide = Bytes(gemm_.rows * strips * sizeof(float));
  return out;
}

void BoundedProduct::pack_rows(const std::byte* base, const std::uint32_t* numbers, std::size_t n,
                               Rows* out) const {
  const std::size_t stride = bytes_per_vector(type_, dim_);
  pack_rows(n, [&](std::size_t i) { return base + numbers[i] * stride; }, out);
}

void BoundedProduct::pack_rows(std::span<const std::byte* const> rows, Rows* out) const {
  pack_rows(rows.size(), [&](std::size_t i) { return rows[i]; }, out);
}

template <class RowAt>
void BoundedProduct::pack_rows(std::size_t n, const RowAt& row_at, Rows* out) const {
  const bool unit = distance_ == Distance::kCosine, l2 = distance_ == Distance::kL2;
  const PackSource source{type_, dim_, centre_.empty() ? nullptr : centre_.data(),
                          static_cast<float>(row_scale_), unit};
  const GemmKernels::Pack pack = panel_.strips ? gemm_.pack_strips : gemm_.pack;
  float* packed = reinterpret_cast<float*>(out->packed.data());
  Vectors vectors(gemm_.rows);
  for (std::size_t first = 0; first < n; first += gemm_.rows) {
    for (std::size_t i = 0; i < gemm_.rows; ++i) {
      vectors[i] = first + i < n ? row_at(first + i) : nullptr;
    }
    float* const tile = packed + first * row_size_;
    if (panel_.narrow_tile == nullptr) {
      pack(source, vectors.data(), gemm_.rows, tile, out->squares.data());
    } else {
      auto* const wide = reinterpret_cast<float*>(out->wide.data());
      pack(source, vectors.data(), gemm_.rows, wide, out->squares.data());
      panel_.narrow_tile(wide, dim_, tile);
    }
    for (std::size_t i = 0; i < gemm_.rows; ++i) {
      const double square = unit ? 1 : out->squares[i];
      const bool usable = square <= kLargestSquare;
      out->norms[first + i] =
          usable ? to_float(std::sqrt(square) * (1 + 0x1p-20) + kFloor) : 1.0f;
      out->halves[first + i] = to_float(!usable ? -kInfinity
                                        : l2    ? square / 2 * (1 - 32 * kUnit)
                                                : 0);
    }
  }
}

void BoundedProduct::multiply(const Queries& queries, std::size_t first_panel, std::size_t panels,
                              const Rows& packed, std::size_t rows, float* dots,
                              std::span<const std::byte> next) const {
  const FlushDenormals flush;
  const std::size_t width = panel_.queries, size = width * depth_;
  const auto* panel = reinterpret_cast<const float*>(queries.panels.data()) + first_panel * size;
  const auto* tile = reinterpret_cast<const float*>(packed.packed.data());
  const std::size_t used = padded_rows(rows), most = panel_.strips ? depth_ : kDepth;
  const std::size_t each = bytes_per_vector(type_, panel_.narrow_tile != nullptr ? 2 : 1);
  const std::size_t after = panel_.by_row ? width : 1;
  for (std::size_t at = 0; at < depth_; at += most) {
    const std::size_t depth = std::min<std::size_t>(most, depth_ - at);
    for (std::size_t r = 0; r < used; r += gemm_.rows) {
      const auto soon = next.subspan(next.size() * r / used, next.size() * gemm_.rows / used);
      if (!panel_.strips && at == 0) ask_for(soon);
      for (std::size_t p = 0; p < panels; ++p) {
        panel_.multiply(panel + p * size + at * width, tile + r * row_size_ + at * gemm_.rows, depth,
                        at != 0, dots + p * width * block_rows_ + r * after, block_rows_,
                        p == 0 && !soon.empty() ? Ahead{soon.data(), each} : Ahead{});
      }
    }
  }
}

float BoundedProduct::offset(const Query& query, double threshold) const {
  if (!query.usable) return -std::numeric_limits<float>::infinity();
  double value = 0;
  if (distance_ == Distance::kInnerProduct) {
    value = -threshold * row_scale_ * query_scale_;
  } else if (threshold < 0) {
    value = kInfinity;
  } else if (distance_ == Distance::kCosine) {
    value = 1 - threshold;
  } else {
    const double scaled = threshold * row_scale_;
    value = query.square / 2 * (1 - 32 * kUnit) - scaled * scaled / 2 * (1 + 0x1p-28);
  }
  return to_float(value - 8 * kUnit * std::fabs(value));
}

double BoundedProduct::farthest(const Query& query, double key) const {
  switch (distance_) {
    case Distance::kInnerProduct: {
      const double bound = key / row_scale_ / query_scale_;
      return bound + 0x1p-20 * std::fabs(bound);
    }
    case Distance::kCosine: return std::max(0.0, 1 + key);
    case Distance::kL2: {
      const double half = query.square / 2 * (1 + 40 * kUnit) + key;
      return std::sqrt(std::max(0.0, 2 * half)) * (1 + 0x1p-20) / row_scale_;
    }
    case Distance::kL1:
    case Distance::kHamming:
    case Distance::kJaccard: break;
  }
  return kInfinity;
}

}  // namespace warplite::cpu
