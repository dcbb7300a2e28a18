// The host's inner loops with every SIMD target against their definitions, to the bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "compute/host/host_kernels.h"
#include "core/elements.h"
#include "cpu/host/kernels.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::testing;
using compute::HashPanel;
using compute::HostKernels;
using compute::ProductKernels;

namespace {

const HostKernels kDefinitions;

// Calls check(kernels) with each target's.
template <typename Check>
void with_each_target(const Check& check) {
  const Restore restore;
  for (const std::string& target : cpu::simd_targets()) {
    CAPTURE(target);
    cpu::force_simd_target(target);
    check(cpu::host_kernels());
  }
}

template <typename T>
std::vector<T> normal(std::size_t n, T scale = 1) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<T> numbers(0, scale);
  std::vector<T> out(n);
  for (T& x : out) x = numbers(random);
  return out;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

}  // namespace

namespace {

struct Groups {
  std::vector<std::byte> vectors;
  std::vector<const std::byte*> rows;
  std::vector<std::uint32_t> ends;
};

// Many numbers are alike; a few rows are of zeros, or too large for products in float32.
void fill_rows(std::mt19937& random, ElementType type, std::uint32_t dim, std::size_t count,
               std::byte* out) {
  const std::size_t stride = bytes_per_vector(type, dim);
  for (std::size_t row = 0; row < count; ++row, out += stride) {
    if (is_bits(type)) {
      for (std::size_t i = 0; i < stride; ++i) out[i] = static_cast<std::byte>(random());
      continue;
    }
    const bool zeros = random() % 37 == 0, whole = random() % 3 == 0;
    const bool large = type == ElementType::kFloat32 && random() % 41 == 0;
    with_numbers(type, [&]<ElementType kType>() {
      for (std::uint32_t i = 0; i < dim; ++i) {
        const float tenths = static_cast<float>(random() % 201) / 10 - 10;
        const float value = zeros ? 0 : whole ? static_cast<float>(random() % 3) : tenths;
        write_element<kType>(large ? value * 1e36f : value, out, i);
      }
    });
  }
}

Groups random_groups(std::mt19937& random, ElementType type, std::uint32_t dim,
                     const std::vector<std::uint32_t>& sizes) {
  Groups groups;
  for (const std::uint32_t size : sizes) {
    groups.ends.push_back((groups.ends.empty() ? 0 : groups.ends.back()) + size);
  }
  const std::size_t stride = bytes_per_vector(type, dim);
  groups.vectors.resize((groups.ends.back() + 1) * stride);
  for (std::uint32_t row = 0; row < groups.ends.back(); ++row) {
    groups.rows.push_back(groups.vectors.data() + row * stride);
  }
  fill_rows(random, type, dim, groups.ends.back(), groups.vectors.data());
  // Every other row differs from the one before by so little that products in float32 do not tell.
  for (std::uint32_t row = 1; type == ElementType::kFloat32 && row < groups.ends.back(); row += 2) {
    std::byte* const copy = groups.vectors.data() + row * stride;
    std::copy_n(groups.rows[row - 1], stride, copy);
    const std::size_t at = random() % dim;
    const float value = read_element<ElementType::kFloat32>(copy, at);
    write_element<ElementType::kFloat32>(std::nextafter(value, random() % 2 == 0 ? -1e38f : 1e38f),
                                         copy, at);
  }
  return groups;
}

}  // namespace

TEST_CASE("host kernels: the nearest rows of groups are those of the definition") {
  std::mt19937 random(7);
  for (const ElementInfo& element : kElementTypes) {
    for (const DistanceInfo& distance : kDistances) {
      if (!applies(distance.distance, element.type)) continue;
      for (const std::uint32_t dim : {8u, 40u, 136u}) {
        for (const std::size_t count : {1u, 6u, 33u}) {
          CAPTURE(element.name);
          CAPTURE(distance.name);
          CAPTURE(dim);
          CAPTURE(count);
          // More rows than are multiplied together, groups without any, and of every small size.
          std::vector<std::uint32_t> sizes{0, 700, 1, 0};
          for (std::uint32_t size = 1; size < 40; ++size) sizes.push_back(size);
          const Groups groups = random_groups(random, element.type, dim, sizes);
          std::vector<std::byte> queries(count * bytes_per_vector(element.type, dim));
          fill_rows(random, element.type, dim, count, queries.data());
          std::copy_n(groups.rows[5], bytes_per_vector(element.type, dim), queries.data());
          const compute::GroupedRows work{distance.distance,
                                          {queries.data(), count, dim, element.type},
                                          groups.rows, groups.ends};
          std::vector<double> expected(sizes.size() * count);
          kDefinitions.nearest_in_groups(work, expected.data());
          with_each_target([&](const HostKernels& kernels) {
            std::vector<double> out(expected.size(), -1);
            kernels.nearest_in_groups(work, out.data());
            CHECK(out == expected);
          });
        }
      }
    }
  }
}

TEST_CASE("host kernels: products add in the order of the definition") {
  with_each_target([](const HostKernels& kernels) {
    const ProductKernels& product = kernels.product;
    REQUIRE(product.rows <= ProductKernels::kMostRows);
    REQUIRE(product.columns <= ProductKernels::kMostColumns);
    for (const std::size_t depth : {0u, 1u, 5u, 256u}) {
      const std::size_t leading = product.columns + 3;
      const auto a = normal<float>(product.rows * depth), b = normal<float>(depth * leading);
      std::vector<float> panel;
      for (std::size_t d = 0; d < depth; ++d) {
        const auto row = b.begin() + static_cast<std::ptrdiff_t>(d * leading);
        panel.insert(panel.end(), row, row + static_cast<std::ptrdiff_t>(product.columns));
      }
      // The last columns are none of the block's, but are a row's.
      std::vector<float> expected = normal<float>(product.rows * leading), out = expected;
      const std::vector<float> before = expected;
      for (std::size_t r = 0; r < product.rows; ++r) {
        kDefinitions.product.add_row(a.data() + r * depth, depth, b.data(), leading,
                                     expected.data() + r * leading);
        product.add_row(a.data() + r * depth, depth, b.data(), leading, out.data() + r * leading);
      }
      CHECK(bits_of(out) == bits_of(expected));
      out = before;
      product.add_block(a.data(), depth, panel.data(), out.data(), leading);
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (i % leading >= product.columns) expected[i] = before[i];
      }
      CHECK(bits_of(out) == bits_of(expected));
    }
  });
}

TEST_CASE("host kernels: buckets of rows are those of the definition") {
  constexpr std::uint32_t kM = 11;
  const auto check = [](const HostKernels& kernels, compute::HashRows HostKernels::*family) {
    for (const std::uint32_t dim : {1u, 2u, 33u}) {
      for (const std::uint32_t functions : {1u, 5u, 8u}) {
        for (const std::size_t count : {0u, 1u, 4u, 19u}) {
          const auto factors = normal<float>(dim * HashPanel::kFunctions, 3);
          const auto offsets = normal<float>(dim * HashPanel::kFunctions, 0.3f);
          auto rows = normal<double>(count * dim, 1e4);
          if (count > 1) std::fill_n(rows.begin(), dim, 0.0);
          if (count > 4) std::fill_n(rows.begin() + dim, dim, 3e38);
          const HashPanel panel{factors.data(), offsets.data(), 16, functions, dim, 8192, kM};
          std::vector<std::uint32_t> expected(count * kM + kM, 7), out = expected;
          (kDefinitions.*family)(panel, rows.data(), count, expected.data());
          (kernels.*family)(panel, rows.data(), count, out.data());
          CHECK(out == expected);
        }
      }
    }
  };
  with_each_target([&](const HostKernels& kernels) {
    check(kernels, &HostKernels::hash_cells);
    check(kernels, &HostKernels::hash_sums);
    check(kernels, &HostKernels::hash_signs);
  });
}

namespace {

template <typename T>
void check_intervals(compute::MaskInterval<T> HostKernels::*mask,
                     const std::vector<T>& candidates) {
  with_each_target([&](const HostKernels& kernels) {
    std::mt19937 random(7);
    const auto any = [&] { return candidates[random() % candidates.size()]; };
    for (std::size_t round = 0; round < 2000; ++round) {
      const std::size_t words = round % 4;
      std::vector<T> values(words * 64 + 1);
      for (T& value : values) value = any();
      const T* const first = values.data() + round % 2;  // alignment must not matter
      const T low = any(), high = any();
      if (low > high) continue;
      std::vector<std::uint64_t> expected(4, 7), masks = expected;
      (kDefinitions.*mask)(first, words, low, high, expected.data());
      (kernels.*mask)(first, words, low, high, masks.data());
      CHECK(masks == expected);
    }
  });
}

}  // namespace

TEST_CASE("host kernels: values in an interval are those of the definition") {
  using Integers = std::numeric_limits<std::int64_t>;
  check_intervals<std::int64_t>(&HostKernels::mask_integers,
                                {Integers::min(), Integers::min() + 1, -1, 0, 1, 1ll << 31,
                                 1ll << 32, Integers::max() - 1, Integers::max()});
  using Reals = std::numeric_limits<double>;
  check_intervals<double>(&HostKernels::mask_reals,
                          {-Reals::infinity(), -1e300, -1, -Reals::denorm_min(), -0.0, 0.0,
                           Reals::denorm_min(), 1, 1e300, Reals::max(), Reals::infinity()});
}

TEST_CASE("host kernels: levels that are tried add up as in the definition") {
  using compute::LevelTries;
  with_each_target([](const HostKernels& kernels) {
    for (const std::size_t dim : {1u, 7u, 96u, 1000u}) {
      auto magnitudes = normal<double>(dim, 3);
      for (double& magnitude : magnitudes) magnitude = std::fabs(magnitude);
      magnitudes[dim / 2] = dim % 2 == 0 ? 0 : 3e38;
      for (const double most : {1.0, 7.0, 127.0}) {
        LevelTries expected{magnitudes, {0, 1e-9, 0.4, 0.5, 1, 7.3, 1e9, 1e300}, most, {}, {}};
        LevelTries tries = expected;
        kDefinitions.try_levels(expected);
        kernels.try_levels(tries);
        CHECK(std::equal(tries.products, std::end(tries.products), expected.products));
        CHECK(std::equal(tries.squares, std::end(tries.squares), expected.squares));
      }
    }
  });
}

TEST_CASE("host kernels: lengths and counts are those of the definition") {
  with_each_target([](const HostKernels& kernels) {
    std::mt19937_64 random(7);
    for (std::size_t words = 0; words < 40; ++words) {
      std::vector<std::uint32_t> ends(words * 64 + 1, 0xfffffff0);  // they wrap around
      for (std::size_t i = 1; i < ends.size(); ++i) {
        ends[i] = ends[i - 1] + static_cast<std::uint32_t>(random() % 5);
      }
      std::vector<std::uint64_t> expected(words + 1, ~std::uint64_t{0}), masks = expected;
      kDefinitions.mask_lengths(ends.data() + 1, words, 3, expected.data());
      kernels.mask_lengths(ends.data() + 1, words, 3, masks.data());
      CHECK(masks == expected);
      CHECK(kernels.count_bits(masks.data(), words) ==
            kDefinitions.count_bits(masks.data(), words));
      for (std::uint64_t& word : masks) word = random() | random();
      CHECK(kernels.count_bits(masks.data(), masks.size()) ==
            kDefinitions.count_bits(masks.data(), masks.size()));
    }
  });
}
