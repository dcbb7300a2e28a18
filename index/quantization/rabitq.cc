#include "index/quantization/rabitq.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "compute/host/host_kernels.h"
#include "compute/rabitq.h"
#include "index/quantization/finite.h"

namespace warplite::index {
namespace {

// Steps of the uniform quantiser of B bits that suits a normal distribution of spread 1 best (Max,
// 1960), by B. A code is tried with steps around it, and the one is kept whose direction is
// nearest; then with steps around that one. Of 96 normal elements and 4 bits the square of the error
// is 0.00989 after the first, 0.00954 after both, and 0.00953 at the least.
constexpr double kSteps[compute::kMostPlanes + 1] = {0,      1.5958, 0.9957, 0.5860, 0.3352,
                                                     0.1881, 0.1041, 0.0569, 0.0308};
constexpr double kTries[] = {0.6, 0.75, 0.87, 1, 1.15, 1.35, 1.7};
constexpr double kNearTries[] = {0.93, 0.95, 0.97, 0.985, 1, 1.02, 1.04, 1.06};

// The k of a level k + ½: whole steps of a magnitude, but for those beyond the last.
double steps(double magnitude, double scale, double most) {
  return static_cast<double>(static_cast<int>(std::min(magnitude * scale, most)));
}

// Codes of eight elements, a byte each, as one bit of each.
std::uint8_t bits_of(std::uint64_t codes, std::uint32_t bit) {
  constexpr std::uint64_t kLowest = 0x0101010101010101u, kGather = 0x0102040810204080u;
  return static_cast<std::uint8_t>(((codes >> bit & kLowest) * kGather) >> 56);
}

// A Coder holds what is needed of one residual.
class Coder {
 public:
  Coder(std::uint32_t dim, const float* centroid, const float* row)
      : magnitudes_(dim), negative_(dim) {
    for (std::uint32_t i = 0; i < dim; ++i) {
      const double r = static_cast<double>(row[i]) - static_cast<double>(centroid[i]);
      negative_[i] = std::signbit(r) ? 1 : 0;
      magnitudes_[i] = std::fabs(r);
      square_ += r * r;
      sum_ += magnitudes_[i];
      with_centroid_ += r * static_cast<double>(centroid[i]);
    }
  }

  RabitqFactors code(Distance distance, std::uint32_t count, RabitqTries tries,
                     std::uint8_t* planes) const {
    const std::uint32_t dim = static_cast<std::uint32_t>(magnitudes_.size());
    std::memset(planes, 0, std::size_t{count} * compute::plane_bytes(dim));
    if (!(square_ > 0)) return {};
    const bool product = distance == Distance::kInnerProduct;
    const double part = product ? -1 : -2;
    RabitqFactors factors;
    factors.bias = nearest_finite(product ? -with_centroid_ : square_);
    const double f = square_ / sum_;
    const double apart = dim - sum_ * sum_ / square_;
    factors.f = nearest_finite(part * f);
    factors.g = nearest_finite(dim == 1 ? 0
                                : compute::kErrors * -part * f * std::sqrt(std::max(0.0, apart)) /
                                      std::sqrt(dim - 1.0));
    if (count == 1) {
      write_signs(planes);
    } else {
      factors.fine = nearest_finite(part * square_ / write(count, best_scale(count, tries), planes));
    }
    return factors;
  }

 private:
  // Steps to the unit of magnitude, of which the code's direction is nearest to the residual's.
  double best_scale(std::uint32_t count, RabitqTries tries) const {
    const double spread = std::sqrt(square_ / static_cast<double>(magnitudes_.size()));
    const double scale = best_scale(count, spread * kSteps[count], kTries);
    return tries == RabitqTries::kOnce || scale == 0 ? scale : best_scale(count, 1 / scale, kNearTries);
  }
  // The same of steps that are so many times `step`; 0: there is none.
  double best_scale(std::uint32_t count, double step, std::span<const double> times) const {
    compute::LevelTries tries{magnitudes_, {}, static_cast<double>((1u << (count - 1)) - 1), {}, {}};
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double scale = 1 / (step * times[i]);
      if (scale > 0 && scale <= std::numeric_limits<double>::max()) tries.scales[i] = scale;
    }
    compute::host_kernels().try_levels(tries);
    const double *const products = tries.products, *const squares = tries.squares;
    std::size_t best = 0;
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (tries.scales[i] == 0) continue;
      // Compares the cosines.
      const bool nearer = products[i] * products[i] * squares[best] >
                          products[best] * products[best] * squares[i];
      if (tries.scales[best] == 0 || nearer) best = i;
    }
    return tries.scales[best];
  }

  // All there is to a plane alone.
  void write_signs(std::uint8_t* plane) const {
    const std::size_t dim = magnitudes_.size();
    for (std::size_t i = 0; i < dim; ++i) {
      plane[i / 8] |= static_cast<std::uint8_t>((negative_[i] ^ 1) << i % 8);
    }
  }

  // Returns the product of the code's direction with the residual.
  double write(std::uint32_t count, double scale, std::uint8_t* planes) const {
    const std::size_t dim = magnitudes_.size(), bytes = compute::plane_bytes(static_cast<std::uint32_t>(dim));
    const std::uint32_t sign = 1u << (count - 1), most = sign - 1;
    double product = 0;
    for (std::size_t first = 0; first < dim; first += 8) {
      std::uint64_t codes = 0;
      for (std::size_t i = first; i < std::min(dim, first + 8); ++i) {
        const double k = steps(magnitudes_[i], scale, most);
        const auto level = static_cast<std::uint64_t>(k);
        codes |= (negative_[i] != 0 ? most - level : sign | level) << 8 * (i - first);
        product += (k + 0.5) * magnitudes_[i];
      }
      for (std::uint32_t p = 0; p < count; ++p) {
        planes[p * bytes + first / 8] = bits_of(codes, count - 1 - p);
      }
    }
    return product;
  }

  std::vector<double> magnitudes_;
  std::vector<std::uint8_t> negative_;
  double square_ = 0, sum_ = 0, with_centroid_ = 0;
};

}  // namespace

RabitqFactors encode_rabitq(Distance distance, std::uint32_t dim, const float* centroid,
                            const float* row, std::uint32_t count, RabitqTries tries,
                            std::uint8_t* planes) {
  return Coder(dim, centroid, row).code(distance, count, tries, planes);
}

void decode_rabitq(Distance distance, std::uint32_t dim, const float* centroid,
                   const RabitqFactors& factors, std::uint32_t count, const std::uint8_t* planes,
                   float* out) {
  const std::size_t bytes = compute::plane_bytes(dim);
  const double part = distance == Distance::kInnerProduct ? -1 : -2;
  const double scale = static_cast<double>(count == 1 ? factors.f : factors.fine) / part;
  const double middle = static_cast<double>((1u << count) - 1) / 2;
  for (std::uint32_t i = 0; i < dim; ++i) {
    std::uint32_t code = 0;
    for (std::uint32_t p = 0; p < count; ++p)
      code = code * 2 + ((planes[p * bytes + i / 8] >> (i % 8)) & 1);
    const double element = count == 1 ? 2 * (code - middle) : code - middle;
    out[i] = nearest_finite(static_cast<double>(centroid[i]) + scale * element);
  }
}

}  // namespace warplite::index
