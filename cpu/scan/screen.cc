#include "cpu/scan/screen.h"

#include <cmath>
#include <limits>

#include "core/elements.h"
#include "cpu/runtime/flush_denormals.h"

namespace warplite::cpu {
namespace {

constexpr double kUnit = 0x1p-24;  // rounding of float32
constexpr double kExact = 0x1p-36;  // relative error of canonical sums
constexpr std::uint32_t kSmallestDim = 32;  // below, a row's overhead is what counts
constexpr std::uint32_t kLargestDim = 1u << 16;
constexpr std::size_t kPadding = 32;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A float that is not below `value`, by two units of its last place at most.
float round_up(double value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (value > static_cast<double>(kMost)) return kInfinity;
  if (value < static_cast<double>(-kMost)) return -kMost;
  return std::nextafter(static_cast<float>(value), kInfinity);
}

}  // namespace

bool Screen::suits(const compute::Workload& work, const ScanKernels& kernels) {
  const MatrixView& queries = work.queries;
  return kernels.screens[static_cast<int>(queries.type)][static_cast<int>(work.distance)] !=
             nullptr &&
         queries.dim >= kSmallestDim && queries.dim <= kLargestDim;
}

Screen::Screen(const compute::Workload& work, const ScanKernels& kernels)
    : distance_(work.distance),
      screen_(kernels.screens[static_cast<int>(work.queries.type)]
                             [static_cast<int>(work.distance)]),
      dim_(work.queries.dim),
      gamma_((dim_ + 8) * kUnit / (1 - (dim_ + 8) * kUnit)),
      queries_(work.queries.rows) {
  const MatrixView& queries = work.queries;
  const std::size_t padded = (queries.dim + kPadding - 1) / kPadding * kPadding;
  floats_ = Bytes(queries.rows * padded * sizeof(float), Bytes::Fill::kBrief);
  for (std::size_t q = 0; q < queries.rows; ++q) {
    float* floats = reinterpret_cast<float*>(floats_.data()) + q * padded;
    double square = 0;
    for (std::size_t i = 0; i < padded; ++i) {
      const float element = i < queries.dim ? element_at(queries.type, queries.row(q), i) : 0;
      const double value = static_cast<double>(element);
      floats[i] = element;
      square += value * value;
    }
    Query& query = queries_[q];
    query.norm = std::sqrt(square) * (1 + kExact);
    const bool in_range = square <= static_cast<double>(kLargestSquare);
    if (distance_ == Distance::kInnerProduct) query.usable = in_range;
    if (distance_ == Distance::kCosine) {
      query.usable = in_range && square >= static_cast<double>(kSmallestSquare);
    }
    // γ and the row's norm being off, underflow where ‖y‖ is large against ‖x‖, roundings.
    const double slack = (gamma_ * (1 + 2 * gamma_) + 8 * kUnit) * query.norm +
                         0x1p-120 * std::sqrt(dim_);
    query.form = {queries.dim, queries.stride(), floats, round_up(slack)};
  }
}

float Screen::limit(const Query& query, double threshold) const {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  if (!query.usable || !(threshold < kAll)) return kInfinity;
  switch (distance_) {
    case Distance::kL2: {
      if (threshold < 0) return -1;
      const double most = threshold * (1 + kExact) * (1 + kUnit) + std::sqrt(dim_) * 0x1p-124;
      return round_up(most * most * (1 + gamma_) + dim_ * 0x1p-126);
    }
    case Distance::kL1: {
      if (threshold < 0) return -1;
      const double most = threshold * (1 + kExact) * (1 + kUnit) + dim_ * 0x1p-124;
      return round_up(most * (1 + gamma_) + dim_ * 0x1p-126);
    }
    case Distance::kInnerProduct: {
      const double floor = std::sqrt(dim_) * 0x1p-60 * query.norm + dim_ * 0x1p-120;
      return round_up(threshold + floor + 8 * kUnit * std::fabs(threshold));
    }
    case Distance::kCosine: {
      const double error = 2 * gamma_ + 16 * kUnit;
      const double cosine = 1 - threshold - error - error * std::fabs(1 - threshold);
      return round_up(-cosine * query.norm + 8 * kUnit * std::fabs(cosine) * query.norm);
    }
    case Distance::kHamming:
    case Distance::kJaccard: break;
  }
  return kInfinity;
}

std::size_t Screen::keep(std::size_t q, double threshold, const std::byte* base,
                         const std::uint32_t* rows, std::size_t n, float* lows,
                         std::uint32_t* kept) const {
  const Query& query = queries_[q];
  const float most = limit(query, threshold);
  {
    const FlushDenormals flush;
    screen_(query.form, base, rows, n, lows);
  }
  std::size_t found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    kept[found] = rows[i];
    found += static_cast<std::size_t>(!(lows[i] > most));
  }
  return found;
}

}  // namespace warplite::cpu
