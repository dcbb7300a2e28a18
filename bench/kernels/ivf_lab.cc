// Inverted files on the CPU: queries per second and recall on SIFT descriptors, repeated with
// noise.
// Prints one JSON line per measurement.
//   ivf_lab sift_base.bvecs sift_query.bvecs directory [rows lists m [substring of the names]]
// What was trained is kept in `directory`, with base.u8, query.u8 and truth.i32 ([query][10]) for
// other programs to measure with.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "compute/device.h"
#include "core/bytes.h"
#include "cpu/cpu_device.h"
#include "cpu/runtime/targets.h"

using namespace warplite;

namespace {

constexpr std::uint32_t kDim = 128;
constexpr std::size_t kQueries = 1000, kTruth = 10;
constexpr std::size_t kBlockRows = 8192;
constexpr int kRuns = 7;

struct Sizes {
  std::uint32_t rows, lists, m;
};

template <class T>
void write_file(const std::string& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!file) throw std::runtime_error("cannot write " + path);
}

template <class T>
bool read_file(const std::string& path, std::size_t size, std::vector<T>& values) {
  std::ifstream file(path, std::ios::binary);
  values.resize(size);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(size * sizeof(T)));
  return file.gcount() == static_cast<std::streamsize>(size * sizeof(T));
}

// `rows` vectors: those of the file, then again with noise.
std::vector<std::uint8_t> noisy_vectors(const std::string& path, std::size_t rows) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const std::size_t given = bytes.size() / (kDim + 4);
  if (given == 0) throw std::runtime_error("no vectors in " + path);
  std::mt19937 random(7);
  std::vector<std::uint8_t> all(rows * kDim);
  for (std::size_t row = 0; row < rows; ++row) {
    const char* from = &bytes[row % given * (kDim + 4) + 4];
    for (std::size_t i = 0; i < kDim; ++i) {
      const int value = static_cast<unsigned char>(from[i]);
      const int noise = row < given ? 0 : static_cast<int>(random() % 25) - 12;
      all[row * kDim + i] = static_cast<std::uint8_t>(std::clamp(value + noise, 0, 255));
    }
  }
  return all;
}

std::shared_ptr<Bytes> floats_of(const std::vector<std::uint8_t>& values) {
  auto bytes = std::make_shared<Bytes>(values.size() * sizeof(float));
  auto* floats = reinterpret_cast<float*>(bytes->data());
  for (std::size_t i = 0; i < values.size(); ++i) floats[i] = values[i];
  return bytes;
}

const float* floats_in(const Bytes& bytes) { return reinterpret_cast<const float*>(bytes.data()); }

std::shared_ptr<const compute::Buffer> resident(compute::Device& device,
                                                std::shared_ptr<const void> owner,
                                                const void* data, std::size_t size) {
  std::shared_ptr<const compute::Buffer> buffer;
  device.make_resident({std::move(owner), static_cast<const std::byte*>(data), size}, &buffer)
      .raise();
  return buffer;
}

// The k nearest of `base` for each query, as row numbers.
std::vector<std::uint32_t> nearest_rows(compute::Device& device, const float* base,
                                        std::uint32_t rows, const float* queries, std::size_t n,
                                        std::size_t k) {
  const auto buffer = resident(device, nullptr, base, std::size_t{rows} * kDim * sizeof(float));
  const compute::Block block{buffer.get(), nullptr, rows, 0, {}, nullptr, rows};
  compute::Workload work;
  work.queries = {reinterpret_cast<const std::byte*>(queries), n, kDim, ElementType::kFloat32};
  work.blocks = {&block, 1};
  compute::HitTable best(n, k);
  device.nearest(work, best).raise();
  std::vector<std::uint32_t> found;
  for (std::size_t q = 0; q < n; ++q) {
    for (const Hit& hit : best.sorted(q)) found.push_back(hit.row);
  }
  return found;
}

// A few rounds of k-means in `dim` dimensions, good enough to measure with.
template <class Assign>
void k_means(const std::vector<float>& rows, std::uint32_t dim, std::uint32_t k, int rounds,
             float* centroids, const Assign& assign) {
  const std::size_t n = rows.size() / dim;
  for (std::size_t c = 0; c < k; ++c) {
    std::copy_n(&rows[c * (n / k) * dim], dim, centroids + c * dim);
  }
  for (int round = 0; round < rounds; ++round) {
    const auto nearest = assign();
    std::vector<double> sums(std::size_t{k} * dim);
    std::vector<std::size_t> counts(k);
    for (std::size_t row = 0; row < n; ++row) {
      ++counts[nearest[row]];
      for (std::size_t i = 0; i < dim; ++i) sums[nearest[row] * dim + i] += rows[row * dim + i];
    }
    for (std::size_t c = 0; c < k; ++c) {
      if (counts[c] == 0) continue;
      for (std::size_t i = 0; i < dim; ++i) {
        centroids[c * dim + i] =
            static_cast<float>(sums[c * dim + i] / static_cast<double>(counts[c]));
      }
    }
  }
}

struct Coded {
  compute::IvfShape shape;
  std::vector<float> codebooks;
  std::vector<std::uint8_t> codes;  // [row][m]
};

struct Trained {
  std::vector<float> centroids, mean;
  std::vector<std::uint32_t> lists;  // of each row
};

Trained train_lists(compute::Device& device, const Bytes& base, const Sizes& sizes,
                    const std::string& cache) {
  Trained model;
  model.mean.assign(kDim, 0.0f);
  const float* rows = floats_in(base);
  for (std::size_t i = 0; i < kDim; ++i) {
    double sum = 0;
    for (std::size_t row = 0; row < sizes.rows; ++row) sum += rows[row * kDim + i];
    model.mean[i] = static_cast<float>(sum / sizes.rows);
  }
  if (read_file(cache + ".centroids", std::size_t{sizes.lists} * kDim, model.centroids) &&
      read_file(cache + ".lists", sizes.rows, model.lists)) {
    return model;
  }
  const std::size_t step = std::max<std::size_t>(1, sizes.rows / (sizes.lists * 32));
  std::vector<float> sample;
  for (std::size_t row = 0; row < sizes.rows; row += step) {
    sample.insert(sample.end(), rows + row * kDim, rows + (row + 1) * kDim);
  }
  k_means(sample, kDim, sizes.lists, 6, model.centroids.data(), [&] {
    return nearest_rows(device, model.centroids.data(), sizes.lists, sample.data(),
                        sample.size() / kDim, 1);
  });
  model.lists =
      nearest_rows(device, model.centroids.data(), sizes.lists, rows, sizes.rows, 1);
  write_file(cache + ".centroids", model.centroids);
  write_file(cache + ".lists", model.lists);
  return model;
}

std::vector<float> residuals(const Bytes& base, const Trained& model) {
  std::vector<float> all(model.lists.size() * kDim);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = floats_in(base)[i] - model.centroids[model.lists[i / kDim] * kDim + i % kDim];
  }
  return all;
}

std::vector<std::uint8_t> assign_codes(compute::Device& device, const std::vector<float>& rows,
                                       std::uint32_t dim, std::uint32_t m, std::uint32_t codewords,
                                       const float* codebooks) {
  compute::PqAssignWork work;
  work.rows = rows.data();
  work.count = rows.size() / dim;
  work.dim = dim;
  work.m = m;
  work.codewords = codewords;
  work.codebooks = codebooks;
  std::vector<std::uint8_t> codes(work.count * m);
  work.out = codes.data();
  device.pq_assign(work).raise();
  return codes;
}

Coded train_codes(compute::Device& device, const std::vector<float>& rows,
                  const compute::IvfShape& shape, const std::string& cache) {
  Coded coded{shape, {}, {}};
  const std::size_t n = rows.size() / kDim;
  const std::uint32_t codewords = shape.codewords(), sub_dim = shape.sub_dim();
  if (read_file(cache + ".codebooks", std::size_t{codewords} * kDim, coded.codebooks) &&
      read_file(cache + ".codes", n * shape.m, coded.codes)) {
    return coded;
  }
  for (std::uint32_t s = 0; s < shape.m; ++s) {
    std::vector<float> sample;
    for (std::size_t row = 0; row < n; row += std::max<std::size_t>(1, n / 30000)) {
      const float* from = &rows[row * kDim + s * sub_dim];
      sample.insert(sample.end(), from, from + sub_dim);
    }
    float* codebook = &coded.codebooks[std::size_t{s} * codewords * sub_dim];
    k_means(sample, sub_dim, codewords, 10, codebook, [&] {
      return assign_codes(device, sample, sub_dim, 1, codewords, codebook);
    });
  }
  const auto begin = std::chrono::steady_clock::now();
  coded.codes =
      assign_codes(device, rows, kDim, shape.m, codewords, coded.codebooks.data());
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf("{\"name\": \"assign %zu rows m=%u bits=%u\", \"seconds\": %.3f}\n", n, shape.m,
              shape.bits, time.count());
  write_file(cache + ".codebooks", coded.codebooks);
  write_file(cache + ".codes", coded.codes);
  return coded;
}

// A run over all rows, and the blocks it speaks of.
class Index {
 public:
  Index(compute::Device& device, const std::shared_ptr<Bytes>& base, const Trained& model,
        const Coded& coded)
      : model_(model), coded_(coded) {
    for (std::size_t row = 0; row < model.lists.size(); row += kBlockRows) {
      const std::size_t rows = std::min(kBlockRows, model.lists.size() - row);
      buffers_.push_back(resident(device, base, base->data() + row * kDim * sizeof(float),
                                  rows * kDim * sizeof(float)));
      compute::Block block;
      block.vectors = buffers_.back().get();
      block.rows = block.live_rows = static_cast<std::uint32_t>(rows);
      block.rowids.first = static_cast<RowId>(row);
      blocks_.push_back(block);
    }
    write_run();
    run_.bytes = keep(device, bytes_, bytes_->data(), bytes_->size());
    run_.blocks = blocks_;
    buffers_of_.shape = coded.shape;
    buffers_of_.mean = model.mean.data();
    buffers_of_.centroids =
        keep(device, nullptr, model.centroids.data(), model.centroids.size() * 4);
    if (coded.shape.m != 0) {
      buffers_of_.codebooks =
          keep(device, nullptr, coded.codebooks.data(), coded.codebooks.size() * 4);
    }
  }

  compute::IvfWork work() const {
    compute::IvfWork work;
    work.model = buffers_of_;
    work.runs = {&run_, 1};
    return work;
  }

 private:
  const compute::Buffer* keep(compute::Device& device, std::shared_ptr<const void> owner,
                              const void* data, std::size_t size) {
    buffers_.push_back(resident(device, std::move(owner), data, size));
    return buffers_.back().get();
  }

  void write_run() {
    const compute::IvfShape& shape = coded_.shape;
    std::vector<std::vector<std::uint32_t>> members(shape.lists);
    for (std::uint32_t row = 0; row < model_.lists.size(); ++row) {
      members[model_.lists[row]].push_back(row);
    }
    std::vector<std::uint32_t> begins{0}, ends, ordinals;
    for (const auto& list : members) {
      ordinals.insert(ordinals.end(), list.begin(), list.end());
      ends.push_back(static_cast<std::uint32_t>(ordinals.size()));
      run_.longest = std::max(run_.longest, ends.back() - begins.back());
      while (shape.fast_scan() && ordinals.size() % compute::kFastScanRows != 0) {
        ordinals.push_back(compute::kNoOrdinal);
      }
      begins.push_back(static_cast<std::uint32_t>(ordinals.size()));
    }
    run_.positions = static_cast<std::uint32_t>(ordinals.size());
    const auto at = compute::IvfLayout::of(shape, run_.positions);
    bytes_ = std::make_shared<Bytes>(at.size);
    std::memset(bytes_->data(), 0, at.size);
    std::memcpy(bytes_->data() + at.begins, begins.data(), begins.size() * 4);
    std::memcpy(bytes_->data() + at.ends, ends.data(), ends.size() * 4);
    std::memcpy(bytes_->data() + at.ordinals, ordinals.data(), ordinals.size() * 4);
    if (shape.m == 0) return;
    auto* bias = reinterpret_cast<float*>(bytes_->data() + at.bias);
    auto* codes = reinterpret_cast<std::uint8_t*>(bytes_->data() + at.codes);
    for (std::uint32_t p = 0; p < run_.positions; ++p) {
      if (ordinals[p] != compute::kNoOrdinal) write_row(ordinals[p], p, bias, codes);
    }
  }

  void write_row(std::uint32_t row, std::uint32_t p, float* bias, std::uint8_t* codes) const {
    const compute::IvfShape& shape = coded_.shape;
    const float* centroid = &model_.centroids[model_.lists[row] * kDim];
    double sum = 0;
    for (std::uint32_t s = 0; s < shape.m; ++s) {
      const std::uint32_t code = coded_.codes[std::size_t{row} * shape.m + s];
      const float* word = &coded_.codebooks[(s * shape.codewords() + code) * shape.sub_dim()];
      for (std::uint32_t i = 0; i < shape.sub_dim(); ++i) {
        const std::uint32_t d = s * shape.sub_dim() + i;
        const double element = word[i];
        sum += element * element + 2.0 * (centroid[d] - model_.mean[d]) * element;
      }
      if (shape.bits == 8) {
        codes[std::size_t{p} * shape.code_stride() + s] = static_cast<std::uint8_t>(code);
      } else {
        const std::uint32_t group = p / compute::kFastScanRows, i = p % compute::kFastScanRows;
        codes[(std::size_t{group} * shape.m + s) * 16 + i % 16] |=
            static_cast<std::uint8_t>(i < 16 ? code : code << 4);
      }
    }
    bias[p] = static_cast<float>(sum);
  }

  const Trained& model_;
  const Coded& coded_;
  std::vector<compute::Block> blocks_;
  std::vector<std::shared_ptr<const compute::Buffer>> buffers_;
  std::shared_ptr<Bytes> bytes_;
  compute::IvfRun run_;
  compute::IvfModelBuffers buffers_of_;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Experiment {
  std::size_t batch;  // queries of a call
  std::uint32_t nprobe;
  std::size_t refine;
  unsigned threads;
};

void measure(compute::Device& device, const Index& index, const compute::IvfShape& shape,
             const float* queries, const std::vector<std::int32_t>& truth, const Experiment& e,
             const std::string& wanted) {
  char name[128];
  std::snprintf(name, sizeof name, "m=%u bits=%u nprobe=%u refine=%zu batch=%zu threads=%u",
                shape.m, shape.bits, e.nprobe, e.refine, e.batch, e.threads);
  if (std::string(name).find(wanted) == std::string::npos) return;
  compute::set_thread_count(e.threads);
  compute::IvfWork work = index.work();
  work.nprobe = e.nprobe;
  work.refine = e.refine;
  const std::size_t calls = e.batch == 1 ? 200 : kQueries / e.batch;
  std::size_t right = 0;
  double best_wall = 1e9, best_cpu = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    right = 0;
    const double cpu_before = cpu_seconds();
    const auto before = std::chrono::steady_clock::now();
    for (std::size_t call = 0; call < calls; ++call) {
      work.queries = {reinterpret_cast<const std::byte*>(queries + call * e.batch * kDim), e.batch,
                      kDim, ElementType::kFloat32};
      work.model_queries = queries + call * e.batch * kDim;
      compute::HitTable best(e.batch, kTruth);
      device.ivf_nearest(work, best).raise();
      for (std::size_t q = 0; q < e.batch; ++q) {
        const std::int32_t* true_rows = &truth[(call * e.batch + q) * kTruth];
        for (const Hit& hit : best.sorted(q)) {
          right += static_cast<std::size_t>(
              std::count(true_rows, true_rows + kTruth, static_cast<std::int32_t>(hit.rowid)));
        }
      }
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - before;
    best_wall = std::min(best_wall, wall.count());
    best_cpu = std::min(best_cpu, cpu_seconds() - cpu_before);
  }
  const double done = static_cast<double>(calls * e.batch);
  std::printf("{\"name\": \"%s\", \"simd\": \"%s\", \"qps\": %.0f, \"cpu_us\": %.1f, "
              "\"recall\": %.4f}\n",
              name, cpu::simd_target().c_str(), done / best_wall, best_cpu / done * 1e6,
              static_cast<double>(right) / done / kTruth);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw std::runtime_error("usage: ivf_lab base.bvecs query.bvecs directory …");
  const std::string directory = argv[3];
  const auto number = [&](int i, std::uint32_t otherwise) {
    return argc > i ? static_cast<std::uint32_t>(std::atoi(argv[i])) : otherwise;
  };
  const Sizes sizes{number(4, 500000), number(5, 2048), number(6, 32)};
  const std::string wanted = argc > 7 ? argv[7] : "";
  const std::string cache = directory + "/" + std::to_string(sizes.rows) + "_" +
                            std::to_string(sizes.lists);
  const std::unique_ptr<compute::Device> device = cpu::make_cpu_device();
  const auto base = noisy_vectors(argv[1], sizes.rows);
  const auto queries = noisy_vectors(argv[2], kQueries);
  const auto base_floats = floats_of(base), query_floats = floats_of(queries);
  std::vector<std::int32_t> truth;
  if (!read_file(cache + ".truth.i32", kQueries * kTruth, truth)) {
    const auto rows = nearest_rows(*device, floats_in(*base_floats), sizes.rows,
                                   floats_in(*query_floats), kQueries, kTruth);
    truth.assign(rows.begin(), rows.end());
    write_file(cache + ".truth.i32", truth);
    write_file(cache + ".base.u8", base);
    write_file(cache + ".query.u8", queries);
  }
  const Trained model = train_lists(*device, *base_floats, sizes, cache);
  const std::vector<float> rows = residuals(*base_floats, model);
  for (const compute::IvfShape& shape :
       {compute::IvfShape{kDim, sizes.lists, sizes.m, 8},
        compute::IvfShape{kDim, sizes.lists, sizes.m, 4},
        compute::IvfShape{kDim, sizes.lists, 0, 8}}) {
    const Coded coded = shape.m == 0 ? Coded{shape, {}, {}}
                                     : train_codes(*device, rows, shape,
                                                   cache + "_" + std::to_string(shape.m) + "_" +
                                                       std::to_string(shape.bits));
    const Index index(*device, base_floats, model, coded);
    for (const std::size_t refine : {0, 8}) {
      if (shape.m == 0 && refine != 0) continue;
      for (const std::size_t batch : {1, 1000}) {
        for (const unsigned threads : {1u, 2u}) {
          for (const std::uint32_t nprobe : {16u, 64u}) {
            measure(*device, index, shape, floats_in(*query_floats), truth,
                    {batch, nprobe, refine, threads}, wanted);
          }
        }
      }
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
