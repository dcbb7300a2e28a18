// A model, runs and queries of inverted files, drawn from a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "compute/device.h"
#include "core/bfloat16.h"
#include "core/bytes.h"
#include "core/elements.h"
#include "index/clustering/model_space.h"
#include "tests/reference/reference.h"

namespace warplite::testing::ivf {

using namespace warplite::compute;

using Random = std::mt19937_64;

// kFewCodes: rows of a list share few codes and biases, so that scores tie. kHuge: float32
// overflows. kZeros: every table is flat. kNegative: distances of codes that would be below zero.
// kTiny: squares of differences are below float32's range, or nearly.
enum class Data { kRandom, kFewCodes, kHuge, kZeros, kNegative, kTiny, kCount };

// What a device is to hold of a run; the rest it reads from the host's memory.
enum class Held { kAll, kBeforeRecords, kNothing };

// What a case is; everything is derived from it and the seed.
struct Case {
  Distance distance = Distance::kL2;
  ElementType type = ElementType::kFloat32;
  IvfShape shape;
  Data data = Data::kRandom;
  std::vector<std::uint32_t> list_rows = {0, 1, 31, 32, 33};  // by turns
  std::size_t runs = 1;
  std::size_t blocks = 1;  // of each run
  int filter = 0;          // 0: none; n: about one row in n lives; −1: none lives
  bool vectors = true;
  std::size_t refine = 0, k = 10, queries = 3;
  std::uint32_t nprobe = 4;
  bool contrast = false;  // queries probe lists by their contrast
  bool rotated = false;  // in model space queries are those of the column, rotated at random
  std::uint64_t seed = 1;
  Held held = Held::kAll;
};

inline std::string describe(const Case& c) {
  std::ostringstream text;
  text << info(c.distance).name << " type " << static_cast<int>(c.type) << " dim " << c.shape.dim
       << " lists " << c.shape.lists << " m " << c.shape.m << " bits " << c.shape.bits << " planes "
       << c.shape.planes << " listwise " << c.shape.listwise << " groups " << c.shape.groups
       << " data " << static_cast<int>(c.data) << " list rows " << c.list_rows.front() << "… runs "
       << c.runs << " blocks " << c.blocks << " filter " << c.filter << " vectors " << c.vectors
       << " refine " << c.refine << " k " << c.k << " contrast " << c.contrast << " rotated " << c.rotated << " queries "
       << c.queries << " nprobe " << c.nprobe << " seed " << c.seed << " held "
       << static_cast<int>(c.held);
  return text.str();
}

inline std::shared_ptr<Bytes> bytes_of(const std::vector<float>& values) {
  auto bytes = std::make_shared<Bytes>(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
  return bytes;
}

// Bytes of the oracle that are resident on the device under test.
struct Resident {
  std::shared_ptr<Bytes> bytes;
  std::shared_ptr<const Buffer> buffer;

  void load(Device& device) {
    const Status status = device.make_resident({bytes, bytes->data(), bytes->size()}, &buffer);
    REQUIRE_MESSAGE(status.ok(), status.message);
  }
  void map(Device& device, std::size_t held) {
    const Status status = device.map_host({bytes, bytes->data(), bytes->size()}, held, &buffer);
    REQUIRE_MESSAGE(status.ok(), status.message);
  }
};

struct RunData {
  Resident bytes;
  std::vector<Resident> vectors;
  std::vector<std::vector<RowId>> rowids;
  std::vector<std::vector<std::uint64_t>> live;
  std::vector<Block> blocks;
  std::uint32_t positions = 0, longest = 0;
  std::vector<const std::byte*> host_vectors;
};

// The model, the runs and the queries of a case.
class Drawing {
 protected:
  explicit Drawing(const Case& c) : case_(c), random_(c.seed) {
    make_model();
    for (std::size_t r = 0; r < c.runs; ++r) make_run(r);
    make_queries();
  }

  const Case case_;
  Random random_;
  Resident centroids_, codebooks_;
  std::vector<float> mean_, model_queries_;
  std::vector<std::byte> queries_;
  std::vector<RunData> runs_;
  RunData coarse_;
  std::vector<IvfHostRun> host_runs_;
  std::vector<IvfRun> given_;
  IvfWork work_;

 private:
  double uniform() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  float element() {
    const double value = uniform();
    if (case_.data == Data::kZeros) return random_() % 2 == 0 ? 0.0f : -0.0f;
    if (case_.data == Data::kHuge) {
      return static_cast<float>(value * (random_() % 4 == 0 ? 3e38 : 1e19));
    }
    return static_cast<float>(value);
  }
  std::vector<float> elements(std::size_t n) {
    std::vector<float> all(n);
    for (float& value : all) value = element();
    return all;
  }

  void make_model() {
    const IvfShape& shape = case_.shape;
    std::vector<float> centroids = elements((std::size_t{shape.lists} + shape.groups) * shape.dim);
    // Two lists equally near to every query.
    if (shape.lists > 2) {
      std::copy_n(centroids.begin() + shape.dim, shape.dim, centroids.begin() + 2 * shape.dim);
    }
    centroids_.bytes = bytes_of(centroids);
    if (shape.has_codebooks()) {
      codebooks_.bytes =
          bytes_of(elements(std::size_t{shape.m} * shape.codewords() * shape.sub_dim()));
    }
    mean_ = elements(shape.dim);
    work_.distance = case_.distance;
    work_.model.shape = shape;
    work_.model.mean = shape.has_codebooks() ? mean_.data() : nullptr;
    if (shape.groups != 0) make_coarse_run();
    work_.nprobe = case_.nprobe;
    if (case_.contrast) {
      const std::uint32_t most = case_.nprobe;
      work_.by_contrast = {{1.6f, 1.4f, 1.25f, 1.1f}, {1u, most / 4 + 1, most / 3 + 1, most / 2 + 1, most}};
    }
    work_.refine = case_.refine;
    work_.codes_decide = case_.refine == 0 && case_.seed % 2 != 0;
  }

  // Lists in groups, one of which may have none.
  void make_coarse_run() {
    std::vector<std::uint32_t> groups(case_.shape.lists);
    for (std::uint32_t& group : groups) {
      group = static_cast<std::uint32_t>(random_() % case_.shape.groups);
    }
    write_run(case_.shape.coarse(), coarse_, groups);
    work_.model.coarse_positions = coarse_.positions;
  }

  void make_run(std::size_t r) {
    runs_.emplace_back();
    given_.emplace_back();
    RunData& run = runs_.back();
    std::vector<std::uint32_t> lists;  // of each ordinal
    for (std::uint32_t list = 0; list < case_.shape.lists; ++list) {
      lists.insert(lists.end(), case_.list_rows[(list + r) % case_.list_rows.size()], list);
    }
    std::shuffle(lists.begin(), lists.end(), random_);
    make_blocks(r, static_cast<std::uint32_t>(lists.size()));
    write_run(case_.shape, run, lists);
    host_runs_.push_back({run.bytes.bytes->data(), {}});
  }

  // The second of several blocks is empty; the others share the rows unevenly.
  void make_blocks(std::size_t r, std::uint32_t rows) {
    RunData& run = runs_[r];
    for (std::size_t b = 0; b < case_.blocks; ++b) {
      const bool last = b + 1 == case_.blocks;
      const std::uint32_t part = last ? rows : b == 1 ? 0 : rows / 3;
      rows -= part;
      make_block(run, r, b, part);
    }
    for (std::size_t b = 0; b < case_.blocks; ++b) {
      Block& block = run.blocks[b];
      block.rowids = {static_cast<RowId>(-7000000 * (r + 1) + 100000 * b), nullptr};
      if ((r + b) % 2 == 0) block.rowids = {0, run.rowids[b].data()};
      block.live = case_.filter == 0 ? nullptr : run.live[b].data();
      run.host_vectors.push_back(case_.vectors ? run.vectors[b].bytes->data() : nullptr);
    }
  }

  void make_block(RunData& run, std::size_t r, std::size_t b, std::uint32_t rows) {
    const std::size_t stride = bytes_per_vector(case_.type, case_.shape.dim);
    Resident vectors;
    vectors.bytes = std::make_shared<Bytes>(std::max<std::size_t>(rows * stride, 1));
    std::vector<RowId> rowids;
    std::vector<std::uint64_t> live(rows / 64 + 1);
    std::uint32_t live_rows = 0;
    for (std::uint32_t row = 0; row < rows; ++row) {
      write_vector(vectors.bytes->data() + row * stride);
      rowids.push_back(static_cast<RowId>(1000000 * (r * case_.blocks + b) + row * 3));
      if (case_.filter < 0 || (case_.filter > 0 && random_() % case_.filter != 0)) continue;
      live[row / 64] |= std::uint64_t{1} << (row % 64);
      ++live_rows;
    }
    std::shuffle(rowids.begin(), rowids.end(), random_);
    run.vectors.push_back(std::move(vectors));
    run.rowids.push_back(std::move(rowids));
    run.live.push_back(std::move(live));
    Block block;
    block.rows = rows;
    block.id = static_cast<std::uint32_t>(3 + 10 * r + b);
    block.live_rows = live_rows;
    run.blocks.push_back(block);
  }

  // Values of few digits, so that canonical distances tie too.
  void write_vector(std::byte* to) {
    for (std::uint32_t i = 0; i < case_.shape.dim; ++i) {
      double value = case_.data == Data::kFewCodes ? static_cast<double>(random_() % 2)
                                                   : std::round(uniform() * 64) / 64;
      if (case_.data == Data::kTiny && case_.type == ElementType::kFloat32) value *= 0x1p-74;
      with_numbers(case_.type, [&]<ElementType kType>() {
        const double scaled = is_real(kType) ? value : value * 127;
        write_element<kType>(static_cast<float>(scaled), to, i);
      });
    }
  }

  void write_run(const IvfShape& shape, RunData& run, const std::vector<std::uint32_t>& lists) {
    const std::uint32_t unit = shape.fast_scan() ? kFastScanRows : 1;
    std::vector<std::uint32_t> order(shape.lists), begins(shape.lists + 1), ends(shape.lists);
    std::iota(order.begin(), order.end(), 0u);
    if (shape.planes != 0) std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::uint32_t> ordinals;
    for (const std::uint32_t list : order) {
      std::vector<std::uint32_t> own;
      for (std::uint32_t ordinal = 0; ordinal < lists.size(); ++ordinal) {
        if (lists[ordinal] == list) own.push_back(ordinal);
      }
      begins[list] = place_behind(shape, static_cast<std::uint32_t>(ordinals.size()),
                                  static_cast<std::uint32_t>(own.size()));
      ordinals.resize(begins[list], kNoOrdinal);
      ordinals.insert(ordinals.end(), own.begin(), own.end());
      ends[list] = static_cast<std::uint32_t>(ordinals.size());
      run.longest = std::max(run.longest, ends[list] - begins[list]);
    }
    while (ordinals.size() % unit != 0) ordinals.push_back(kNoOrdinal);
    begins.back() = run.positions = static_cast<std::uint32_t>(ordinals.size());
    const IvfLayout at = IvfLayout::of(shape, run.positions);
    run.bytes.bytes = std::make_shared<Bytes>(at.size);
    std::byte* bytes = run.bytes.bytes->data();
    std::memset(bytes, 0, at.size);
    std::memcpy(bytes + at.begins, begins.data(), begins.size() * 4);
    if (shape.fast_scan()) std::memcpy(bytes + at.ends, ends.data(), ends.size() * 4);
    if (run.positions == 0) return;
    std::memcpy(bytes + at.ordinals, ordinals.data(), ordinals.size() * 4);
    if (shape.planes != 0) return write_rabitq(shape, ordinals, bytes);
    if (shape.m == 0) return;
    for (std::uint32_t p = 0; p < run.positions; ++p) {
      if (ordinals[p] == kNoOrdinal) continue;
      const float bias = some_bias();
      std::memcpy(bytes + at.bias + std::size_t{p} * 4, &bias, 4);
      write_code(p, reinterpret_cast<std::uint8_t*>(bytes + at.codes));
    }
  }

  // Where a list of so many rows may begin, behind what ends at `end`: in no more groups than it
  // needs.
  std::uint32_t place_behind(const IvfShape& shape, std::uint32_t end, std::uint32_t rows) {
    if (!shape.fast_scan()) return end;
    const std::uint32_t next = (end + kFastScanRows - 1) / kFastScanRows * kFastScanRows;
    const std::uint32_t room = next - end, rest = (rows + kFastScanRows - 1) % kFastScanRows + 1;
    if (shape.planes == 0 || (rows != 0 && rest > room)) return next;
    if (rows > room) return next - rest;
    return end + static_cast<std::uint32_t>(random_() % (room - rows + 1));
  }

  void write_code(std::uint32_t position, std::uint8_t* codes) {
    const IvfShape& shape = case_.shape;
    const std::uint64_t same = random_() % 3;
    for (std::uint32_t s = 0; s < shape.m; ++s) {
      const std::uint32_t code = static_cast<std::uint32_t>(
          (case_.data == Data::kFewCodes ? same * 5 + s : random_()) % shape.codewords());
      if (shape.bits == 8) {
        codes[std::size_t{position} * shape.code_stride() + s] = static_cast<std::uint8_t>(code);
        continue;
      }
      const std::size_t group = position / kFastScanRows, i = position % kFastScanRows;
      codes[(group * shape.m + s) * 16 + i % 16] |=
          static_cast<std::uint8_t>(i < 16 ? code : code << 4);
    }
  }

  void write_rabitq(const IvfShape& shape, const std::vector<std::uint32_t>& ordinals,
                    std::byte* bytes) {
    const auto positions = static_cast<std::uint32_t>(ordinals.size());
    const IvfLayout at = IvfLayout::of(shape, positions);
    const RabitqGroup group(shape.m);
    const std::size_t size = RabitqRecord::size(shape.dim, shape.planes);
    for (std::uint32_t p = 0; p < positions; ++p) {
      std::byte* const factors = bytes + at.codes + std::size_t{p / 32} * group.size;
      std::byte* const record = bytes + at.records + p * size;
      float bias = std::numeric_limits<float>::infinity(), f = 0, g = 0;
      if (ordinals[p] != kNoOrdinal) {
        bias = some_bias();
        f = case_.data == Data::kFewCodes ? -0.5f : -std::fabs(element());
        g = random_() % 3 == 0 ? 0 : std::fabs(element()) / 4;
        write_planes(shape, p, factors, record);
      }
      const std::uint16_t halves[] = {float_to_bfloat16(bias), float_to_bfloat16(f),
                                      float_to_bfloat16(g)};
      std::memcpy(factors + group.bias + p % 32 * 2, &halves[0], 2);
      std::memcpy(factors + group.f + p % 32 * 2, &halves[1], 2);
      std::memcpy(factors + group.g + p % 32 * 2, &halves[2], 2);
      if (shape.planes < 2 || ordinals[p] == kNoOrdinal) continue;
      const float fine = f / static_cast<float>(1u << shape.planes);
      std::memcpy(record + RabitqRecord::kBias, &bias, 4);
      std::memcpy(record + RabitqRecord::kFine, &fine, 4);
    }
  }

  float some_bias() {
    float bias = element();
    if (case_.data == Data::kFewCodes) bias = static_cast<float>(random_() % 3) / 4;
    if (case_.data == Data::kNegative) bias -= 100;
    return bias;
  }

  void write_planes(const IvfShape& shape, std::uint32_t position, std::byte* group,
                    std::byte* record) {
    const std::uint64_t same = random_() % 3;
    for (std::uint32_t i = 0; i < shape.dim; ++i) {
      const std::uint64_t code = case_.data == Data::kFewCodes ? same * 5 + i : random_();
      if ((code & 1) != 0) {
        const unsigned bit = 1u << (i % 4 + (position % 32 < 16 ? 0 : 4));
        group[i / 4 * 16 + position % 16] |= static_cast<std::byte>(bit);
      }
      for (std::uint32_t p = 1; p < shape.planes; ++p) {
        if (((code >> p) & 1) == 0) continue;
        record[RabitqRecord::kPlanes + (p - 1) * plane_bytes(shape.dim) + i / 8] |=
            static_cast<std::byte>(1u << (i % 8));
      }
    }
  }

  void make_queries() {
    const std::size_t stride = bytes_per_vector(case_.type, case_.shape.dim);
    queries_.resize(case_.queries * stride);
    for (std::size_t q = 0; q < case_.queries; ++q) write_vector(queries_.data() + q * stride);
    model_queries_ = elements(case_.queries * case_.shape.dim);
    work_.queries = {queries_.data(), case_.queries, case_.shape.dim, case_.type};
    if (case_.rotated) {
      index::to_model_space(work_.queries, case_.distance, {nullptr, true}, model_queries_.data());
    }
    work_.model_queries = model_queries_.data();
    work_.runs = given_;
  }
};

}  // namespace warplite::testing::ivf
