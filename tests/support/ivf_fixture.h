// Clustered vectors, and indexes of the kinds that learn on a CPU device, for tests of index/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/host/host_kernels.h"
#include "compute/host/parallel.h"
#include "compute/reference.h"
#include "core/error.h"
#include "core/half.h"
#include "cpu/cpu_device.h"
#include "cpu/host/kernels.h"
#include "cpu/runtime/thread_pool.h"
#include "index/ivf/ivf.h"
#include "index/trained.h"

namespace warplite::testing {

// Rows of float32, in memory of their own.
struct Floats {
  std::uint32_t dim = 0;
  std::vector<float> values;

  std::size_t rows() const { return values.size() / dim; }
  const float* row(std::size_t i) const { return values.data() + i * dim; }
  MatrixView view() const {
    return {reinterpret_cast<const std::byte*>(values.data()), rows(), dim, ElementType::kFloat32};
  }
};

// Says whether reading damaged bytes, which `body` does, says so.
template <typename Body>
bool is_refused(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kCorrupt;
  }
  return false;
}

// A copy with a number at some place.
inline std::vector<std::byte> with_number(std::span<const std::byte> bytes, std::size_t at,
                                          std::uint32_t value) {
  std::vector<std::byte> changed(bytes.begin(), bytes.end());
  std::memcpy(changed.data() + at, &value, sizeof value);
  return changed;
}

// Normal numbers that are the same with every standard library.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : random_(seed) {}
  float operator()() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random_() >> 11) * 0x1p-53;
    return static_cast<float>(sum);
  }
  std::vector<float> vector(std::size_t n) {
    std::vector<float> out(n);
    for (float& x : out) x = (*this)();
    return out;
  }
  std::uint64_t whole() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// Rows around `clusters` centres on a curved surface of few dimensions, as descriptors of images
// lie; neighbouring elements are alike.
inline Floats clustered(std::size_t rows, std::uint32_t dim, std::size_t clusters,
                        std::uint64_t seed, std::uint64_t row_seed) {
  constexpr std::size_t kLatent = 12;
  Normal shape(seed), noise(row_seed);
  std::vector<float> map(kLatent * dim), centres(clusters * kLatent);
  for (float& x : map) x = shape();
  for (float& x : centres) x = 2 * shape();
  Floats out{dim, {}};
  out.values.reserve(rows * dim);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* centre = centres.data() + noise.whole() % clusters * kLatent;
    float latent[kLatent];
    for (std::size_t l = 0; l < kLatent; ++l) latent[l] = centre[l] + noise();
    for (std::uint32_t d = 0; d < dim; ++d) {
      float sum = 0;
      for (std::size_t l = 0; l < kLatent; ++l) sum += latent[l] * map[l * dim + d];
      out.values.push_back(std::max(-8.0f, sum) + 0.5f * noise());
    }
  }
  return out;
}

inline void use_worker_threads() {
  compute::set_workers(cpu::run_on_pool);
  compute::set_host_kernels(cpu::host_kernels);
}

class RestoreThreads {
 public:
  ~RestoreThreads() { compute::set_thread_count(0); }
};

// `text`: "lists=16 m=4".
inline index::Spec spec(const std::string& kind, const std::string& text = "") {
  index::Spec spec;
  spec.kind = kind;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::size_t equals = text.find('=', at);
    spec.parameters[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return spec;
}

// An index of a column, and the model that it learnt from rows.
struct Learnt {
  std::unique_ptr<index::Index> index;
  std::shared_ptr<const index::InvertedModel> model;

  const index::InvertedIndex& trained() const { return *index->trained()->inverted(); }
};

inline std::unique_ptr<index::Index> make(const index::Spec& spec,
                                          const index::ColumnShape& column) {
  for (const index::Kind& kind : {index::ivfflat_kind(), index::ivfpq_kind(),
                                  index::ivfrabitq_kind(), index::approximate_kind()}) {
    if (kind.name == spec.kind) return kind.make(spec, column);
  }
  return nullptr;
}

inline Learnt learn(compute::Device& device, const index::Spec& spec, Distance distance,
                    const MatrixView& rows) {
  use_worker_threads();
  Learnt learnt{make(spec, {rows.type, rows.dim, distance}), nullptr};
  learnt.model = index::inverted(learnt.trained().train(device, rows, rows.rows, nullptr, {}));
  return learnt;
}

inline std::span<const std::byte> span_of(const Bytes& bytes) {
  return {bytes.data(), bytes.size()};
}

inline double square_distance(const float* x, const float* y, std::uint32_t dim) {
  double sum = 0;
  for (std::uint32_t i = 0; i < dim; ++i) {
    const double t = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += t * t;
  }
  return sum;
}

}  // namespace warplite::testing
