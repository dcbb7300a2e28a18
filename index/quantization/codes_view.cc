#include "index/quantization/codes_view.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "index/quantization/finite.h"

namespace warplite::index {
namespace {

constexpr std::uint32_t kMagic = 0x43465649u;  // "IVFC"
constexpr std::uint32_t kMostNarrowLists = 65535;

// How many bits have a row's list.
std::uint32_t list_bits(std::uint32_t lists, CodesVersion version) {
  if (version >= CodesVersion::kPacked) return static_cast<std::uint32_t>(std::bit_width(lists));
  return lists <= kMostNarrowLists ? 16 : version == CodesVersion::kShort ? 24 : 32;
}

// The upper `size` bytes of a float32, rounded to nearest, ties to even. A finite number stays finite.
void put_float(std::byte* to, std::uint32_t size, float value) {
  const std::uint32_t cut = 32 - 8 * size, bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t upper = bits >> cut;
  if (cut != 0) {
    const std::uint32_t left = bits << (32 - cut), half = 0x80000000u;
    const bool up = left > half || (left == half && upper % 2 != 0);
    const std::uint32_t largest = 0x7f7fffffu >> cut;
    if (up && (upper & (0x7fffffffu >> cut)) != largest) ++upper;
  }
  std::memcpy(to, &upper, size);
}

float get_float(const std::byte* from, std::uint32_t size) {
  return std::bit_cast<float>(get_number(from, size) << (32 - 8 * size));
}

// Of g in a short code.
constexpr double kMostShare = 255;

}  // namespace

CodesHeader codes_header(CodesVersion version, std::uint32_t rows) {
  return {kMagic, static_cast<std::uint32_t>(version), rows, 0};
}

CodesHeader read_header(std::span<const std::byte> block) {
  CodesHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  return header;
}

CodesView::CodesView(const compute::IvfShape& shape, std::uint32_t rows, CodesVersion version)
    : short_(version != CodesVersion::kLong),
      fine_(shape.planes > 1),
      list_bits_(list_bits(shape.lists, version)),
      list_load_(version >= CodesVersion::kPacked ? 4 : list_bits_ / 8),
      bias_size_(shape.m == 0 ? 0 : short_ ? 3 : 4),
      code_size_(shape.m == 0      ? 0
                 : shape.bits == 8 ? shape.m
                                   : (shape.m + 1) / 2),
      planes_at_(shape.planes == 0 ? 0 : (short_ ? 3 : 8) + (fine_ ? bias_size_ : 0)),
      rest_size_(planes_at_ + (fine_ ? (shape.planes - 1) * compute::plane_bytes(shape.dim) : 0)) {
  const std::size_t n = rows;
  bias_at_ = lists_at() + (n * list_bits_ + 7) / 8;
  if (!short_) bias_at_ = (bias_at_ + 3) / 4 * 4;
  codes_at_ = bias_at_ + n * bias_size_;
  rest_at_ = codes_at_ + n * code_size_;
  size_ = rest_at_ + n * rest_size_;
}

CodesView::CodesView(const compute::IvfShape& shape, const CodedBlock& block)
    : CodesView(shape, block.rows, CodesVersion{read_header(block.codes)[1]}) {}

void CodesView::put_bias(std::byte* block, std::uint32_t row, float bias) const {
  put_float(block + bias_at_ + std::size_t{row} * bias_size_, bias_size_, bias);
}

float CodesView::bias(const std::byte* block, std::uint32_t row) const {
  return get_float(block + bias_at_ + std::size_t{row} * bias_size_, bias_size_);
}

void CodesView::put_factors(std::byte* block, std::uint32_t row, const RabitqFactors& factors) const {
  put_bias(block, row, factors.bias);
  std::byte* const to = rest(block, row);
  if (short_) {
    put_float(to, 2, factors.f);
    const double most = compute::kErrors * std::fabs(static_cast<double>(get_float(to, 2)));
    const double part = most > 0 ? std::ceil(kMostShare * static_cast<double>(factors.g) / most) : 0;
    to[2] = static_cast<std::byte>(std::min(part, kMostShare));
  } else {
    put_float(to, 4, factors.f);
    put_float(to + 4, 4, factors.g);
  }
  if (fine_) put_float(to + planes_at_ - bias_size_, bias_size_, factors.fine);
}

RabitqFactors CodesView::factors(const std::byte* block, std::uint32_t row) const {
  RabitqFactors factors;
  factors.bias = bias(block, row);
  const std::byte* const from = rest(block, row);
  if (short_) {
    factors.f = get_float(from, 2);
    const double part = std::to_integer<int>(from[2]) / kMostShare;
    factors.g = nearest_finite(compute::kErrors * std::fabs(static_cast<double>(factors.f)) * part);
  } else {
    factors.f = get_float(from, 4);
    factors.g = get_float(from + 4, 4);
  }
  if (fine_) factors.fine = get_float(from + planes_at_ - bias_size_, bias_size_);
  return factors;
}

}  // namespace warplite::index
