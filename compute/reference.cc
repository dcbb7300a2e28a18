// Compiled with -ffp-contract=off: a fused multiply-add would change the bits.
#include "compute/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "core/elements.h"

namespace warplite::compute {
namespace {

class Accumulators {
 public:
  void add(std::size_t i, double term) { lanes_[i % 16] += term; }
  double total() {
    for (std::size_t s = 8; s > 0; s /= 2) {
      for (std::size_t j = 0; j < s; ++j) lanes_[j] += lanes_[j + s];
    }
    return lanes_[0];
  }

 private:
  double lanes_[16] = {};
};

// A vector's elements as doubles.
template <ElementType kType>
struct Elements {
  const std::byte* data;
  double operator[](std::size_t i) const { return read_element<kType>(data, i); }
};

double cosine_of_sums(double dot, double xx, double yy) {
  if (xx == 0 || yy == 0) return 1;
  return std::max(0.0, 1 - dot / std::sqrt(xx * yy));
}

double negate(double sum) { return sum == 0 ? 0 : -sum; }

// total(a, b, term): the sum of the term over the elements. -Wswitch makes sure that no distance is left
// out of this and of bit_distance().
template <class Number, class Vector, class Total>
double distance_of(Distance distance, Vector x, Vector y, const Total& total) {
  const auto product = [](Number a, Number b) { return a * b; };
  switch (distance) {
    case Distance::kL2:
      return std::sqrt(total(x, y, [](Number a, Number b) { return (a - b) * (a - b); }));
    case Distance::kL1: return total(x, y, [](Number a, Number b) { return std::abs(a - b); });
    case Distance::kInnerProduct: return negate(total(x, y, product));
    case Distance::kCosine:
      return cosine_of_sums(total(x, y, product), total(x, x, product), total(y, y, product));
    case Distance::kHamming:
    case Distance::kJaccard: break;
  }
  return 0;
}

template <ElementType kType>
double real_distance(Distance distance, std::uint32_t dim, Elements<kType> x, Elements<kType> y) {
  return distance_of<double>(distance, x, y, [dim](const auto& a, const auto& b, const auto& term) {
    Accumulators sum;
    for (std::size_t i = 0; i < dim; ++i) sum.add(i, term(a[i], b[i]));
    return sum.total();
  });
}

double int8_distance(Distance distance, std::uint32_t dim, const std::byte* x,
                     const std::byte* y) {
  return distance_of<int>(distance, x, y, [dim](const std::byte* a, const std::byte* b, const auto& term) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      sum += term(static_cast<std::int8_t>(a[i]), static_cast<std::int8_t>(b[i]));
    }
    return static_cast<double>(sum);
  });
}

double bit_distance(Distance distance, std::uint32_t dim, const std::byte* x,
                    const std::byte* y) {
  const auto count = [=](const auto& combined) {
    int bits = 0;
    for (std::size_t i = 0; i < dim / 8; ++i) {
      bits += std::popcount(static_cast<unsigned char>(combined(x[i], y[i])));
    }
    return bits;
  };
  const double differ = count([](std::byte a, std::byte b) { return a ^ b; });
  switch (distance) {
    case Distance::kHamming: return differ;
    case Distance::kJaccard: {
      const double either = count([](std::byte a, std::byte b) { return a | b; });
      return either == 0 ? 0 : differ / either;
    }
    case Distance::kL2:
    case Distance::kL1:
    case Distance::kInnerProduct:
    case Distance::kCosine: break;
  }
  return 0;
}

}  // namespace

double canonical_distance(Distance distance, ElementType type, std::uint32_t dim,
                          const std::byte* x, const std::byte* y) {
  if (is_bits(type)) return bit_distance(distance, dim, x, y);
  double value = 0;
  with_numbers(type, [&]<ElementType kType>() {
    if constexpr (is_real(kType)) {
      value = real_distance<kType>(distance, dim, {x}, {y});
    } else {
      static_assert(kType == ElementType::kInt8);
      value = int8_distance(distance, dim, x, y);
    }
  });
  return value;
}

}  // namespace warplite::compute
