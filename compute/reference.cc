// Compiled with -ffp-contract=off: a fused multiply-add would change the bits.
#include "compute/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/half.h"

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

struct Float32Elements {
  const std::byte* data;
  double operator[](std::size_t i) const {
    float value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    return value;
  }
};

struct Float16Elements {
  const std::byte* data;
  double operator[](std::size_t i) const {
    std::uint16_t bits;
    std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
    return half_to_float(bits);
  }
};

double cosine_of_sums(double dot, double xx, double yy) {
  if (xx == 0 || yy == 0) return 1;
  return std::max(0.0, 1 - dot / std::sqrt(xx * yy));
}

double negate(double sum) { return sum == 0 ? 0 : -sum; }

template <typename Elements>
double real_distance(Distance distance, std::uint32_t dim, Elements x, Elements y) {
  Accumulators sum, xx, yy;
  for (std::size_t i = 0; i < dim; ++i) {
    const double t = x[i] - y[i];
    switch (distance) {
      case Distance::kL2: sum.add(i, t * t); break;
      case Distance::kL1: sum.add(i, std::fabs(t)); break;
      default:
        sum.add(i, x[i] * y[i]);
        xx.add(i, x[i] * x[i]);
        yy.add(i, y[i] * y[i]);
    }
  }
  if (distance == Distance::kL2) return std::sqrt(sum.total());
  if (distance == Distance::kL1) return sum.total();
  if (distance == Distance::kInnerProduct) return negate(sum.total());
  return cosine_of_sums(sum.total(), xx.total(), yy.total());
}

double int8_distance(Distance distance, std::uint32_t dim, const std::byte* x,
                     const std::byte* y) {
  std::int64_t l2 = 0, l1 = 0, dot = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    const std::int64_t a = static_cast<std::int8_t>(x[i]), b = static_cast<std::int8_t>(y[i]);
    l2 += (a - b) * (a - b);
    l1 += std::abs(a - b);
    dot += a * b;
    xx += a * a;
    yy += b * b;
  }
  if (distance == Distance::kL2) return std::sqrt(static_cast<double>(l2));
  if (distance == Distance::kL1) return static_cast<double>(l1);
  if (distance == Distance::kInnerProduct) return negate(static_cast<double>(dot));
  return cosine_of_sums(static_cast<double>(dot), static_cast<double>(xx),
                        static_cast<double>(yy));
}

double hamming_distance(std::uint32_t dim, const std::byte* x, const std::byte* y) {
  int bits = 0;
  for (std::size_t i = 0; i < dim / 8; ++i) {
    bits += std::popcount(static_cast<unsigned char>(x[i] ^ y[i]));
  }
  return bits;
}

template <typename Visit>
void for_each_hit(const Workload& work, std::span<const HostBlock> blocks, Visit visit) {
  const std::size_t stride = work.queries.stride();
  for (std::size_t query = 0; query < work.queries.rows; ++query) {
    for (const HostBlock& host : blocks) {
      const Block& block = host.block;
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        if (block.live != nullptr && !((block.live[row / 64] >> (row % 64)) & 1)) continue;
        const double distance =
            canonical_distance(work.distance, work.queries.type, work.queries.dim,
                               work.queries.row(query), host.vectors + row * stride);
        const Hit hit{distance, block.rowids[row], block.id, row};
        if (work.admits(hit)) visit(query, hit);
      }
    }
  }
}

}  // namespace

double canonical_distance(Distance distance, ElementType type, std::uint32_t dim,
                          const std::byte* x, const std::byte* y) {
  switch (type) {
    case ElementType::kFloat32:
      return real_distance(distance, dim, Float32Elements{x}, Float32Elements{y});
    case ElementType::kFloat16:
      return real_distance(distance, dim, Float16Elements{x}, Float16Elements{y});
    case ElementType::kInt8: return int8_distance(distance, dim, x, y);
    case ElementType::kBit: return hamming_distance(dim, x, y);
  }
  return 0;
}

void reference_nearest(const Workload& work, std::span<const HostBlock> blocks, HitTable& best) {
  for_each_hit(work, blocks, [&](std::size_t query, const Hit& hit) { best.row(query).push(hit); });
}

void reference_within(const Workload& work, std::span<const HostBlock> blocks, HitLists& out) {
  for_each_hit(work, blocks, [&](std::size_t query, const Hit& hit) { out[query].push_back(hit); });
}

}  // namespace warplite::compute
