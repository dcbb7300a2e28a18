// The CPU device against what the machine can do: streaming reads bound few queries,
// fused multiply-adds bound many. Prints one JSON line per measurement.
//   distance_lab [substring of the names to run]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/machine_peaks.h"
#include "compute/device.h"
#include "core/bytes.h"
#include "core/half.h"
#include "cpu/cpu_device.h"
#include "cpu/runtime/targets.h"

using namespace warplite;

namespace {

constexpr int kRuns = 7;

struct Experiment {
  ElementType type;
  Distance distance;
  std::uint32_t rows, dim;
  std::size_t queries;
  std::size_t k;     // 0: within, unbounded
  int one_in = 1;    // rows that live
  unsigned threads = 2;
  const char* target = "";  // SIMD target, or the best
};

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float";
    case ElementType::kFloat16: return "float16";
    case ElementType::kInt8: return "int8";
    default: return "bit";
  }
}

std::string name_of(const Experiment& e) {
  std::string name = std::string(name_of(e.type)) + "[" + std::to_string(e.dim) + "] " +
                     std::string(info(e.distance).name) + " rows=" + std::to_string(e.rows) +
                     " queries=" + std::to_string(e.queries) +
                     (e.k == 0 ? " all" : " k=" + std::to_string(e.k));
  if (e.one_in != 1) name += " live=1/" + std::to_string(e.one_in);
  name += " threads=" + std::to_string(e.threads);
  return e.target[0] == 0 ? name : name + " " + e.target;
}

using Data = Bytes;  // on huge pages, as the product has its vectors

std::shared_ptr<Data> random_vectors(ElementType type, std::size_t rows, std::uint32_t dim,
                                     std::uint64_t seed) {
  auto data = std::make_shared<Data>(rows * bytes_per_vector(type, dim));
  std::mt19937_64 random(seed);
  if (type == ElementType::kInt8 || type == ElementType::kBit) {
    for (std::size_t i = 0; i < data->size(); ++i) data->data()[i] = static_cast<std::byte>(random());
    return data;
  }
  for (std::size_t i = 0; i < rows * dim; ++i) {
    const float value = static_cast<float>(random() >> 40) * 0x1p-24f;
    if (type == ElementType::kFloat32) {
      std::memcpy(data->data() + i * 4, &value, 4);
    } else {
      const std::uint16_t half = float_to_half(value);
      std::memcpy(data->data() + i * 2, &half, 2);
    }
  }
  return data;
}

// A table cut into segments, as the product holds it.
class Table {
 public:
  Table(compute::Device& device, const Experiment& e)
      : data_(random_vectors(e.type, e.rows, e.dim, 1)) {
    const std::size_t stride = bytes_per_vector(e.type, e.dim);
    std::uint32_t segment = 65536;
    while (segment > 1024 && segment * stride > (std::size_t{4} << 20)) segment /= 2;
    live_.assign(e.rows / 64 + 1, 0);
    std::mt19937_64 random(2);
    for (std::uint32_t at = 0; at < e.rows; at += segment) {
      add_block(device, e, at, std::min(segment, e.rows - at), random);
    }
  }
  const std::vector<compute::Block>& blocks() const { return blocks_; }

 private:
  void add_block(compute::Device& device, const Experiment& e, std::uint32_t at, std::uint32_t rows,
                 std::mt19937_64& random) {
    const std::size_t stride = bytes_per_vector(e.type, e.dim);
    std::shared_ptr<const compute::Buffer> buffer;
    device.make_resident({data_, data_->data() + at * stride, rows * stride}, &buffer).raise();
    compute::Block block;
    block.vectors = buffer.get();
    block.rows = rows;
    block.id = static_cast<std::uint32_t>(blocks_.size());
    block.rowids.first = at;
    block.live_rows = rows;
    if (e.one_in != 1) {
      std::uint64_t* words = live_.data() + at / 64;
      block.live = words;
      block.live_rows = 0;
      for (std::uint32_t row = 0; row < rows; ++row) {
        if (random() % static_cast<unsigned>(e.one_in) != 0) continue;
        words[row / 64] |= std::uint64_t{1} << (row % 64);
        ++block.live_rows;
      }
    }
    buffers_.push_back(std::move(buffer));
    blocks_.push_back(block);
  }

  std::shared_ptr<Data> data_;
  std::vector<std::uint64_t> live_;
  std::vector<std::shared_ptr<const compute::Buffer>> buffers_;
  std::vector<compute::Block> blocks_;
};

double seconds_of(compute::Device& device, const Experiment& e, const compute::Workload& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    if (e.k == 0) {
      compute::HitLists lists(e.queries);
      device.within(work, lists).raise();
    } else {
      compute::HitTable table(e.queries, e.k);
      device.nearest(work, table).raise();
      for (std::size_t q = 0; q < e.queries; ++q) table.sorted(q);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

void measure(compute::Device& device, const Experiment& e) {
  const std::string best_target = cpu::simd_target();
  if (e.target[0] != 0) cpu::force_simd_target(e.target);
  compute::set_thread_count(e.threads);
  const Table table(device, e);
  const auto queries = random_vectors(e.type, e.queries, e.dim, 3);
  compute::Workload work;
  work.distance = e.distance;
  work.queries = {queries->data(), e.queries, e.dim, e.type};
  work.blocks = table.blocks();
  const double seconds = seconds_of(device, e, work);
  const std::size_t bytes = e.rows * bytes_per_vector(e.type, e.dim);
  const int threads = static_cast<int>(e.threads);
  const double floor = bench::streaming_read_seconds(bytes, threads, kRuns);
  const double flops = 2.0 * static_cast<double>(e.rows) * e.dim * static_cast<double>(e.queries);
  const double peak = bench::fma_flops(threads, 3);
  std::printf("{\"name\": \"%s\", \"simd\": \"%s\", \"ms\": %.3f, \"read_floor_ms\": %.3f, "
              "\"times_floor\": %.2f, \"gflops\": %.1f, \"fma_peak\": %.1f, \"of_peak\": %.3f}\n",
              name_of(e).c_str(), cpu::simd_target().c_str(), seconds * 1e3, floor * 1e3,
              seconds / floor, flops / seconds / 1e9, peak / 1e9, flops / seconds / peak);
  std::fflush(stdout);
  cpu::force_simd_target(best_target);
}

std::vector<Experiment> experiments() {
  constexpr auto kF32 = ElementType::kFloat32;
  constexpr std::uint32_t kRows = 100000;
  std::vector<Experiment> all;
  for (std::uint32_t dim : {768u, 384u, 128u, 96u}) {
    for (std::size_t queries : {2, 3, 4, 6, 8, 16, 32, 64, 100}) {
      for (unsigned threads : {1u, 2u}) {
        all.push_back({kF32, Distance::kL2, kRows, dim, queries, 10, 1, threads});
      }
    }
  }
  for (std::uint32_t dim : {384u, 128u}) {
    for (unsigned threads : {1u, 2u}) {
      all.push_back({kF32, Distance::kL2, kRows, dim, 1, 10, 1, threads});
    }
    all.push_back({kF32, Distance::kL2, kRows, dim, 1, 10, 100});
    all.push_back({kF32, Distance::kL2, kRows, dim, 1, 10, 2});
    all.push_back({kF32, Distance::kL2, kRows, dim, 1, 4096});
    all.push_back({kF32, Distance::kL2, kRows, dim, 1, 0});
    for (Distance distance : {Distance::kCosine, Distance::kInnerProduct, Distance::kL1}) {
      all.push_back({kF32, distance, kRows, dim, 1, 10});
    }
    for (ElementType type : {ElementType::kFloat16, ElementType::kInt8}) {
      all.push_back({type, Distance::kL2, kRows, dim, 1, 10});
    }
    all.push_back({ElementType::kBit, Distance::kHamming, kRows, dim * 8, 1, 10});
    for (unsigned threads : {1u, 2u}) {
      all.push_back({kF32, Distance::kL2, kRows, dim, 1000, 10, 1, threads});
    }
    for (Distance distance : {Distance::kCosine, Distance::kInnerProduct}) {
      all.push_back({kF32, distance, kRows, dim, 1000, 10});
    }
    all.push_back({kF32, Distance::kL2, kRows, dim, 1000, 100});
    all.push_back({kF32, Distance::kL1, kRows, dim, 100, 10});
    all.push_back({ElementType::kFloat16, Distance::kL2, kRows, dim, 1000, 10});
    all.push_back({ElementType::kInt8, Distance::kL2, kRows, dim, 1000, 10});
    all.push_back({ElementType::kBit, Distance::kHamming, kRows, dim * 8, 100, 10});
    for (const char* target : {"SSE4", "SSE2"}) {
      all.push_back({kF32, Distance::kL2, kRows, dim, 1, 10, 1, 2, target});
      all.push_back({kF32, Distance::kL2, kRows, dim, 100, 10, 1, 2, target});
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const char* wanted = argc > 1 ? argv[1] : "";
  for (int threads : {1, 2}) {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    const double seconds = bench::streaming_read_seconds(kBytes, threads, kRuns);
    std::printf("{\"name\": \"machine threads=%d\", \"read_gb_s\": %.1f, \"fma_gflops\": %.1f}\n",
                threads, static_cast<double>(kBytes) / seconds / 1e9,
                bench::fma_flops(threads, 3) / 1e9);
  }
  const std::unique_ptr<compute::Device> device = cpu::make_cpu_device();
  for (const Experiment& experiment : experiments()) {
    if (name_of(experiment).find(wanted) == std::string::npos) continue;
    measure(*device, experiment);
  }
  return 0;
}
