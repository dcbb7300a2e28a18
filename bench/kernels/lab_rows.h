// Rows, devices and timing for the programs that measure GPUs. Without a file, rows are drawn around
// random centres with 8-bit values, which is what image descriptors look like; with one
// (FILE.bvecs), they are its rows again and again, each time with other noise.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/device.h"
#include "compute/devices/plugin.h"
#include "compute/host/parallel.h"
#include "core/utf8.h"
#include "cpu/runtime/thread_pool.h"

namespace warplite::bench {

using namespace warplite::compute;

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Changes some characters to those of another text.
inline CodePoints changed(CodePoints text, std::size_t changes, const CodePoints& other,
                          std::mt19937_64& random) {
  for (; changes > 0 && !text.empty(); --changes) {
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(random() % text.size());
    const std::uint32_t point = other.empty() ? 'x' : other[random() % other.size()];
    switch (random() % 3) {
      case 0: *at = point; break;
      case 1: text.insert(at, point); break;
      default: text.erase(at);
    }
  }
  return text;
}

// Patterns that rows are made from.
struct Patterns {
  std::uint32_t dim;
  std::vector<float> values;
  std::size_t count() const { return values.size() / dim; }
};

inline Patterns read_bvecs(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Patterns patterns{0, {}};
  std::int32_t dim = 0;
  while (in.read(reinterpret_cast<char*>(&dim), 4)) {
    std::vector<unsigned char> row(static_cast<std::size_t>(dim));
    in.read(reinterpret_cast<char*>(row.data()), dim);
    patterns.dim = static_cast<std::uint32_t>(dim);
    patterns.values.insert(patterns.values.end(), row.begin(), row.end());
  }
  if (patterns.values.empty()) std::fprintf(stderr, "no vectors in %s\n", path.c_str());
  return patterns;
}

inline Patterns make_patterns(std::uint32_t dim) {
  std::mt19937_64 random(7);
  std::exponential_distribution<float> value(1 / 30.0f);
  Patterns patterns{dim, std::vector<float>(std::size_t{20000} * dim)};
  for (float& v : patterns.values) v = std::min(255.0f, std::floor(value(random)));
  return patterns;
}

enum class Noise { kInteger, kReal };

// Rows of patterns with noise, drawn with the row number as the seed.
inline std::vector<float> make_rows(const Patterns& patterns, std::size_t rows, Noise noise,
                             std::uint64_t seed) {
  std::vector<float> out(rows * patterns.dim);
  const auto fill = [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      std::mt19937_64 random(seed * 1000003 + row);
      const float* pattern = &patterns.values[random() % patterns.count() * patterns.dim];
      float* to = &out[row * patterns.dim];
      for (std::uint32_t i = 0; i < patterns.dim; ++i) {
        const std::uint64_t bits = random();
        // About normal: a sum of four uniform numbers.
        const float z = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                           (bits >> 32 & 0xffff) + (bits >> 48)) / 65536 - 2;
        const float x = std::clamp(pattern[i] + 14 * z, 0.0f, 255.0f);
        to[i] = noise == Noise::kInteger ? std::round(x) : x;
      }
    }
  };
  std::vector<std::thread> threads;
  const std::size_t n = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t t = 0; t < n; ++t) threads.emplace_back(fill, rows * t / n, rows * (t + 1) / n);
  for (std::thread& thread : threads) thread.join();
  return out;
}

// Rows on both devices, in segments of about 4 MB.
struct Table {
  std::uint32_t dim;
  std::vector<float> rows;
  std::vector<Block> gpu, cpu;
  std::vector<std::shared_ptr<const Buffer>> buffers;

  std::size_t size() const { return rows.size() / dim; }
};

inline void place(Table& table, Device& gpu, Device& cpu) {
  std::uint32_t segment = 1024;
  while (segment * 2 * table.dim * 4 <= (4u << 20)) segment *= 2;
  for (std::size_t at = 0; at < table.size(); at += segment) {
    const std::size_t n = std::min<std::size_t>(segment, table.size() - at);
    const auto* data = reinterpret_cast<const std::byte*>(&table.rows[at * table.dim]);
    Block block;
    block.rows = block.live_rows = static_cast<std::uint32_t>(n);
    block.id = static_cast<std::uint32_t>(table.gpu.size());
    block.rowids.first = static_cast<RowId>(at + 1);
    for (auto& [device, blocks] : {std::pair<Device*, std::vector<Block>*>{&gpu, &table.gpu},
                                   {&cpu, &table.cpu}}) {
      std::shared_ptr<const Buffer> buffer;
      device->make_resident({nullptr, data, n * table.dim * 4}, &buffer).raise();
      block.vectors = buffer.get();
      table.buffers.push_back(buffer);
      blocks->push_back(block);
    }
  }
}

// Whether the first queries have the hits that they should have.
inline std::string same(HitTable& found, HitTable& expected) {
  for (std::size_t q = 0; q < expected.queries(); ++q) {
    const auto a = found.sorted(q), b = expected.sorted(q);
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hit& x, const Hit& y) {
          return x.rowid == y.rowid && x.distance == y.distance;
        })) {
      return "NO, query " + std::to_string(q);
    }
  }
  return "yes, " + std::to_string(expected.queries());
}

struct Timing {
  double median, least;
};

inline Timing time(int rounds, const std::function<void()>& body) {
  body();
  body();
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const Clock::time_point begin = Clock::now();
    body();
    times.push_back(milliseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[0]};
}

// The first GPU of a plug-in; ends the program when there is none.
inline Device& open_gpu(const std::string& plugin) {
  set_workers(cpu::run_on_pool);
  std::vector<Device*> devices;
  const std::string why =
      open_plugin(plugin, WARPLITE_VERSION, [&](Device* device) { devices.push_back(device); });
  if (!devices.empty()) return *devices[0];
  std::fprintf(stderr, "no GPU: %s\n", why.c_str());
  std::exit(2);
}

}  // namespace warplite::bench
