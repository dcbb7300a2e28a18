#include "compute/host/host_kernels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "compute/host/lsh_hash.h"
#include "compute/host/rotation.h"
#include "compute/reference.h"

namespace warplite::compute {
namespace {

constexpr std::size_t kBlockRows = 4, kBlockColumns = 8;

void add_row(const float* a, std::size_t depth, const float* b, std::size_t columns, float* out) {
  for (std::size_t d = 0; d < depth; ++d) {
    for (std::size_t c = 0; c < columns; ++c) out[c] += a[d] * b[d * columns + c];
  }
}

void add_block(const float* a, std::size_t depth, const float* panel, float* out,
               std::size_t leading) {
  for (std::size_t r = 0; r < kBlockRows; ++r) {
    add_row(a + r * depth, depth, panel, kBlockColumns, out + r * leading);
  }
}

// out[r * m + i] = hash(x, i) of each row x and function i of the panel.
template <typename Hash>
void hash_each(const HashPanel& panel, const double* rows, std::size_t count, std::uint32_t* out,
               const Hash& hash) {
  for (std::size_t r = 0; r < count; ++r) {
    for (std::uint32_t i = 0; i < panel.functions; ++i) {
      out[r * panel.m + i] = hash(rows + r * panel.dim, i);
    }
  }
}

double project(const HashPanel& panel, const double* x, std::uint32_t i) {
  double sum = 0;
  for (std::uint32_t d = 0; d < panel.dim; ++d) {
    sum += static_cast<double>(panel.factors[d * HashPanel::kFunctions + i]) * x[d];
  }
  return sum;
}

void hash_cells(const HashPanel& panel, const double* rows, std::size_t count,
                std::uint32_t* out) {
  hash_each(panel, rows, count, out, [&](const double* x, std::uint32_t i) {
    std::uint32_t state = panel.first + i;
    for (std::uint32_t d = 0; d < panel.dim; ++d) {
      const std::size_t at = d * HashPanel::kFunctions + i;
      const double product = static_cast<double>(panel.factors[at]) * x[d];
      const double cell = product + static_cast<double>(panel.offsets[at]) + kToWhole;
      state = murmur3_add(state, static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(cell)));
    }
    return bucket_of(murmur3_finish(state, panel.dim * 4), panel.buckets);
  });
}

// All 64 bits of an interval's number: those of large ones say more.
void hash_sums(const HashPanel& panel, const double* rows, std::size_t count, std::uint32_t* out) {
  hash_each(panel, rows, count, out, [&](const double* x, std::uint32_t i) {
    const double sum = project(panel, x, i) + static_cast<double>(panel.offsets[i]) + kToWhole;
    const auto number = std::bit_cast<std::uint64_t>(sum);
    const std::uint32_t low = murmur3_add(panel.first + i, static_cast<std::uint32_t>(number));
    const std::uint32_t state = murmur3_add(low, static_cast<std::uint32_t>(number >> 32));
    return bucket_of(murmur3_finish(state, 8), panel.buckets);
  });
}

void hash_signs(const HashPanel& panel, const double* rows, std::size_t count,
                std::uint32_t* out) {
  hash_each(panel, rows, count, out, [&](const double* x, std::uint32_t i) {
    return project(panel, x, i) >= 0 ? 1u : 0u;
  });
}

template <typename Test>
void mask_each(std::size_t words, std::uint64_t* masks, const Test& test) {
  for (std::size_t w = 0; w < words; ++w) {
    masks[w] = 0;
    for (std::size_t i = 0; i < 64; ++i) masks[w] |= std::uint64_t{test(w * 64 + i)} << i;
  }
}

template <typename T>
void mask_interval(const T* values, std::size_t words, T low, T high, std::uint64_t* masks) {
  mask_each(words, masks, [&](std::size_t i) { return values[i] >= low && values[i] <= high; });
}

void mask_lengths(const std::uint32_t* ends, std::size_t words, std::uint32_t length,
                  std::uint64_t* masks) {
  const std::uint32_t* const begins = ends - 1;
  mask_each(words, masks, [&](std::size_t i) { return ends[i] - begins[i] == length; });
}

std::size_t count_bits(const std::uint64_t* words, std::size_t n) {
  std::size_t bits = 0;
  for (std::size_t w = 0; w < n; ++w) bits += static_cast<std::size_t>(std::popcount(words[w]));
  return bits;
}

void try_levels(LevelTries& tries) {
  for (std::size_t i = 0; i < LevelTries::kTries; ++i) {
    double product = 0, square = 0;
    for (const double magnitude : tries.magnitudes) {
      const double level = std::floor(std::min(magnitude * tries.scales[i], tries.most)) + 0.5;
      product += level * magnitude;
      square += level * level;
    }
    tries.products[i] = product;
    tries.squares[i] = square;
  }
}

void nearest_in_groups(const GroupedRows& work, double* out) {
  std::uint32_t row = 0;
  for (const std::uint32_t end : work.ends) {
    std::fill_n(out, work.queries.rows, std::numeric_limits<double>::infinity());
    for (; row < end; ++row) {
      for (std::size_t q = 0; q < work.queries.rows; ++q) {
        out[q] = std::min(out[q], canonical_distance(work.distance, work.queries.type,
                                                     work.queries.dim, work.queries.row(q),
                                                     work.rows[row]));
      }
    }
    out += work.queries.rows;
  }
}

const HostKernels& definitions() {
  static const HostKernels kernels;
  return kernels;
}

std::atomic<const HostKernels& (*)()> kernels_in_use{definitions};

}  // namespace

HostKernels::HostKernels()
    : product{kBlockRows, kBlockColumns, add_block, add_row},
      hash_cells(compute::hash_cells),
      hash_sums(compute::hash_sums),
      hash_signs(compute::hash_signs),
      mask_integers(mask_interval<std::int64_t>),
      mask_reals(mask_interval<double>),
      mask_lengths(compute::mask_lengths),
      count_bits(compute::count_bits),
      try_levels(compute::try_levels),
      rotation_round(define_round),
      nearest_in_groups(compute::nearest_in_groups) {}

const HostKernels& host_kernels() { return kernels_in_use.load(std::memory_order_relaxed)(); }

void set_host_kernels(const HostKernels& (*in_use)()) { kernels_in_use = in_use; }

}  // namespace warplite::compute
