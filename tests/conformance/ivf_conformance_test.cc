#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/reference.h"
#include "core/bytes.h"
#include "core/elements.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using warplite::testing::Candidate;
using warplite::testing::conformance_devices;
using warplite::testing::expect_hits;
using warplite::testing::expect_interrupted;
using warplite::testing::Restore;
using warplite::testing::turn;

namespace {

using Random = std::mt19937_64;

// kFewCodes: rows of a list share few codes and biases, so that scores tie. kHuge: float32
// overflows. kZeros: every table is flat. kNegative: distances of codes that would be below zero.
// kTiny: squares of differences are below float32's range, or nearly.
enum class Data { kRandom, kFewCodes, kHuge, kZeros, kNegative, kTiny, kCount };

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
  std::uint64_t seed = 1;
};

std::string describe(const Case& c) {
  std::ostringstream text;
  text << info(c.distance).name << " type " << static_cast<int>(c.type) << " dim " << c.shape.dim
       << " lists " << c.shape.lists << " m " << c.shape.m << " bits " << c.shape.bits << " data "
       << static_cast<int>(c.data) << " list rows " << c.list_rows.front() << "… runs " << c.runs
       << " blocks " << c.blocks << " filter " << c.filter << " vectors " << c.vectors
       << " refine " << c.refine << " k " << c.k << " queries " << c.queries << " nprobe "
       << c.nprobe << " seed " << c.seed;
  return text.str();
}

std::shared_ptr<Bytes> bytes_of(const std::vector<float>& values) {
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

class World {
 public:
  explicit World(const Case& c) : case_(c), random_(c.seed) {
    make_model();
    for (std::size_t r = 0; r < c.runs; ++r) make_run(r);
    make_queries();
    expect();
  }

  void check(const Candidate& candidate) {
    Device& device = *candidate.device;
    candidate.prepare();
    if (!device.supports_ivf(case_.shape)) return;
    HitTable best(case_.queries, case_.k);
    const Status status = device.ivf_nearest(work_on(device), best);
    // A device may leave so many nominees to the CPU.
    const bool many = case_.k * std::max<std::size_t>(case_.refine, 1) > 1024;
    if (status.kind == ErrorKind::kUnsupported && many) return;
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < case_.queries; ++q) expect_hits(expected_[q], best.sorted(q), q);
  }

  // The work with everything resident. Valid until the next one.
  const IvfWork& work_on(Device& device) {
    centroids_.load(device);
    work_.model.centroids = centroids_.buffer.get();
    if (case_.shape.m != 0) codebooks_.load(device);
    work_.model.codebooks = codebooks_.buffer.get();
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      RunData& data = runs_[r];
      data.bytes.load(device);
      for (std::size_t b = 0; b < data.blocks.size(); ++b) {
        if (case_.vectors) data.vectors[b].load(device);
        data.blocks[b].vectors = data.vectors[b].buffer.get();
      }
      given_[r] = {data.bytes.buffer.get(), data.positions, data.longest, data.blocks};
    }
    return work_;
  }

  IvfWork& work() { return work_; }

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
    std::vector<float> centroids = elements(std::size_t{shape.lists} * shape.dim);
    // Two lists equally near to every query.
    if (shape.lists > 2) {
      std::copy_n(centroids.begin() + shape.dim, shape.dim, centroids.begin() + 2 * shape.dim);
    }
    centroids_.bytes = bytes_of(centroids);
    codebooks_.bytes =
        bytes_of(elements(std::size_t{shape.m} * shape.codewords() * shape.sub_dim()));
    mean_ = elements(shape.dim);
    work_.distance = case_.distance;
    work_.model.shape = shape;
    work_.model.mean = shape.m == 0 ? nullptr : mean_.data();
    work_.nprobe = case_.nprobe;
    work_.refine = case_.refine;
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
    write_run(run, lists);
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

  void write_run(RunData& run, const std::vector<std::uint32_t>& lists) {
    const IvfShape& shape = case_.shape;
    const std::uint32_t unit = shape.m != 0 && shape.bits == 4 ? kFastScanRows : 1;
    std::vector<std::uint32_t> begins{0}, ordinals;
    for (std::uint32_t list = 0; list < shape.lists; ++list) {
      for (std::uint32_t ordinal = 0; ordinal < lists.size(); ++ordinal) {
        if (lists[ordinal] == list) ordinals.push_back(ordinal);
      }
      while (ordinals.size() % unit != 0) ordinals.push_back(kNoOrdinal);
      begins.push_back(static_cast<std::uint32_t>(ordinals.size()));
      run.longest = std::max(run.longest, begins[list + 1] - begins[list]);
    }
    run.positions = static_cast<std::uint32_t>(ordinals.size());
    const IvfLayout at = IvfLayout::of(shape, run.positions);
    run.bytes.bytes = std::make_shared<Bytes>(at.size);
    std::byte* bytes = run.bytes.bytes->data();
    std::memset(bytes, 0, at.size);
    std::memcpy(bytes + at.begins, begins.data(), begins.size() * 4);
    if (run.positions == 0) return;
    std::memcpy(bytes + at.ordinals, ordinals.data(), ordinals.size() * 4);
    if (shape.m == 0) return;
    for (std::uint32_t p = 0; p < run.positions; ++p) {
      if (ordinals[p] == kNoOrdinal) continue;
      float bias = element();
      if (case_.data == Data::kFewCodes) bias = static_cast<float>(random_() % 3) / 4;
      if (case_.data == Data::kNegative) bias -= 100;
      std::memcpy(bytes + at.bias + std::size_t{p} * 4, &bias, 4);
      write_code(p, reinterpret_cast<std::uint8_t*>(bytes + at.codes));
    }
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

  void make_queries() {
    const std::size_t stride = bytes_per_vector(case_.type, case_.shape.dim);
    queries_.resize(case_.queries * stride);
    for (std::size_t q = 0; q < case_.queries; ++q) write_vector(queries_.data() + q * stride);
    model_queries_ = elements(case_.queries * case_.shape.dim);
    work_.queries = {queries_.data(), case_.queries, case_.shape.dim, case_.type};
    work_.model_queries = model_queries_.data();
    work_.runs = given_;
  }

  void expect() {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      given_[r].positions = runs_[r].positions;
      given_[r].blocks = runs_[r].blocks;
      host_runs_[r].vectors = runs_[r].host_vectors;
    }
    HitTable best(case_.queries, case_.k);
    reference_ivf_nearest(work_, reinterpret_cast<const float*>(centroids_.bytes->data()),
                          reinterpret_cast<const float*>(codebooks_.bytes->data()), host_runs_,
                          best);
    for (std::size_t q = 0; q < case_.queries; ++q) expected_.push_back(best.sorted(q));
  }

  const Case case_;
  Random random_;
  Resident centroids_, codebooks_;
  std::vector<float> mean_, model_queries_;
  std::vector<std::byte> queries_;
  std::vector<RunData> runs_;
  std::vector<IvfHostRun> host_runs_;
  std::vector<IvfRun> given_;
  IvfWork work_;
  std::vector<std::vector<Hit>> expected_;
};

void check_everywhere(const Case& c) {
  const std::string description = describe(c);
  World world(c);
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, ": ", description);
    world.check(candidate);
  }
}

struct Coding {
  std::uint32_t m, bits, sub_dim;
};

// m == 0: sub_dim is the dimension.
const std::vector<Coding>& codings() {
  static const std::vector<Coding> all = {{0, 8, 24}, {1, 8, 8},  {3, 8, 5},   {4, 8, 4},
                                          {32, 8, 2}, {7, 8, 16}, {257, 8, 1}, {1, 4, 3},
                                          {2, 4, 8},  {3, 4, 4},  {5, 4, 1},   {8, 4, 4},
                                          {33, 4, 2}, {64, 4, 1}, {257, 4, 1}, {300, 4, 1},
                                          {515, 4, 1}, {0, 4, 65}};
  return all;
}

std::vector<ElementType> number_types() {
  std::vector<ElementType> types;
  for (const ElementInfo& row : kElementTypes) {
    if (row.numbers != Numbers::kBits) types.push_back(row.type);
  }
  return types;
}

Case make_case(const Coding& coding, std::uint64_t n) {
  Case c;
  c.shape.m = coding.m;
  c.shape.bits = coding.bits;
  c.shape.dim = coding.m == 0 ? coding.sub_dim : coding.m * coding.sub_dim;
  c.shape.lists = turn<std::uint32_t>({5, 1, 17, 8, 3}, n);
  c.distance = turn({Distance::kL2, Distance::kCosine, Distance::kInnerProduct}, n);
  const std::vector<ElementType> types = number_types();
  c.type = types[n / 3 % types.size()];
  c.data = static_cast<Data>(n / 2 % static_cast<std::uint64_t>(Data::kCount));
  c.refine = turn<std::size_t>({0, 1, 8, 2}, n / 2);
  c.vectors = c.refine != 0 || c.shape.m == 0 || n % 3 == 0;
  c.k = turn<std::size_t>({10, 1, 3, 1000, 40}, n / 4);
  c.runs = turn<std::size_t>({1, 3, 2}, n);
  c.blocks = turn<std::size_t>({1, 4, 2}, n / 2);
  c.filter = turn({0, 0, 2, 5, 0, 40, -1}, n);
  c.queries = turn<std::size_t>({1, 2, 5, 33, 1, 70}, n);
  c.nprobe = turn<std::uint32_t>({1, 2, 1000, 4}, n / 3);
  c.nprobe = std::min(c.nprobe, c.shape.lists);
  c.seed = n + 1;
  return c;
}

}  // namespace

TEST_CASE("ivf: every coding gives the reference's hits") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const Coding& coding : codings()) {
    for (int round = 0; round < 15; ++round) check_everywhere(make_case(coding, n++));
  }
}

TEST_CASE("ivf: every distance, element type and refinement") {
  const Restore restore;
  std::uint64_t n = 1000;
  for (Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    for (ElementType type : number_types()) {
      for (std::size_t refine : {0, 1, 8}) {
        for (const Coding& coding : {Coding{0, 8, 40}, Coding{8, 8, 4}, Coding{8, 4, 4}}) {
          Case c = make_case(coding, n++);
          c.distance = distance;
          c.type = type;
          c.refine = refine;
          c.vectors = refine != 0 || coding.m == 0;
          check_everywhere(c);
        }
      }
    }
  }
}

TEST_CASE("ivf: whole vectors whose squares are below float32's range") {
  const Restore restore;
  std::uint64_t n = 5000;
  for (std::uint32_t dim : {1u, 16u, 40u, 129u}) {
    for (std::size_t queries : {1, 5, 70}) {
      Case c = make_case({0, 8, dim}, n++);
      c.distance = Distance::kL2;
      c.type = ElementType::kFloat32;
      c.data = Data::kTiny;
      c.list_rows = {300, 33, 64};
      c.nprobe = c.shape.lists;
      c.queries = queries;
      c.k = turn<std::size_t>({1, 3, 10}, n);
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: ties straddle the number of candidates") {
  const Restore restore;
  std::uint64_t n = 2000;
  for (std::size_t refine : {0, 1, 2, 8}) {
    for (std::size_t k : {1, 7, 30}) {
      for (const Coding& coding : {Coding{4, 8, 4}, Coding{4, 4, 4}, Coding{0, 8, 8}}) {
        for (Data data : {Data::kFewCodes, Data::kZeros}) {
          Case c = make_case(coding, n++);
          c.data = data;
          c.refine = refine;
          c.k = k;
          c.vectors = refine != 0 || coding.m == 0;
          c.filter = 0;
          c.list_rows = {100, 33, 64};
          c.nprobe = c.shape.lists;
          check_everywhere(c);
        }
      }
    }
  }
}

TEST_CASE("ivf: giant lists among small ones") {
  const Restore restore;
  std::uint64_t n = 3000;
  for (const Coding& coding :
       {Coding{16, 8, 2}, Coding{16, 4, 2}, Coding{9, 4, 2}, Coding{0, 8, 32}}) {
    for (std::size_t queries : {1, 2, 70}) {
      Case c = make_case(coding, n++);
      c.shape.lists = 40;
      c.list_rows = {9000, 1, 0, 40, 300, 7};
      c.list_rows.resize(40, 31);
      c.queries = queries;
      c.nprobe = 39;
      c.k = 25;
      c.runs = 2;
      c.blocks = 3;
      c.filter = turn({0, 3}, n);
      check_everywhere(c);
    }
  }
}

TEST_CASE("ivf: lists much longer than tables") {
  const Restore restore;
  for (const Coding& coding : {Coding{2, 8, 4}, Coding{2, 4, 4}, Coding{0, 8, 8}}) {
    for (std::size_t refine : {0, 4}) {
      Case c = make_case(coding, 4000 + refine);
      c.shape.lists = 3;
      c.list_rows = {5000, 3000};
      c.queries = 70;
      c.nprobe = 3;
      c.refine = refine;
      c.vectors = true;
      c.runs = 1;
      c.filter = 0;
      check_everywhere(c);
    }
  }
}

// Nothing is asked of such results, but that they are rows, and that the next search is right.
TEST_CASE("ivf: a device outlives queries and rows that are no numbers") {
  const Restore restore;
  const float kNone[] = {std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  for (const Coding& coding : {Coding{8, 8, 4}, Coding{8, 4, 4}, Coding{0, 8, 32}}) {
    for (std::size_t queries : {1, 5, 70}) {
      Case c = make_case(coding, 7);
      c.queries = queries;
      c.shape.lists = 300;  // enough for products of many
      c.list_rows = {3, 0, 1};
      c.nprobe = 20;
      c.filter = 0;
      World world(c);
      std::vector<float> numbers(queries * c.shape.dim);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = i % 3 == 0 ? kNone[i / c.shape.dim % 3] : 3.4e38f;
      }
      for (const Candidate& candidate : conformance_devices()) {
        INFO(candidate.name);
        candidate.prepare();
        Device& device = *candidate.device;
        if (!device.supports_ivf(c.shape)) continue;
        IvfWork work = world.work_on(device);
        work.model_queries = numbers.data();
        HitTable best(queries, c.k);
        const Status status = device.ivf_nearest(work, best);
        CHECK_MESSAGE(status.ok(), status.message);
        std::vector<Assigned> lists(queries);
        AssignWork assign;
        assign.rows = numbers.data();
        assign.count = queries;
        assign.dim = c.shape.dim;
        assign.lists = c.shape.lists;
        assign.centroids = work.model.centroids;
        assign.out = lists.data();
        const Status assigned = device.assign(assign);
        CHECK_MESSAGE(assigned.ok(), assigned.message);
        for (const Assigned& one : lists) CHECK(one.list < c.shape.lists);
        world.check(candidate);
      }
    }
  }
}

// Takes some gigabytes: by name alone, --no-skip.
TEST_CASE("ivf: more rows than one pass over vectors may have" * doctest::skip()) {
  const Restore restore;
  constexpr std::uint32_t kLists = 4096, kEach = 33000, kBlockRows = 65536;
  constexpr std::uint32_t kRows = kLists * kEach;  // above 2^27
  const IvfShape shape{4, kLists, 1, 8};
  const IvfLayout at = IvfLayout::of(shape, kRows);
  Random random(11);
  auto bytes = std::make_shared<Bytes>(at.size);
  auto* const begins = reinterpret_cast<std::uint32_t*>(bytes->data() + at.begins);
  auto* const ordinals = reinterpret_cast<std::uint32_t*>(bytes->data() + at.ordinals);
  auto* const bias = reinterpret_cast<float*>(bytes->data() + at.bias);
  auto* const codes = reinterpret_cast<std::uint32_t*>(bytes->data() + at.codes);
  for (std::uint32_t list = 0; list <= kLists; ++list) begins[list] = list * kEach;
  for (std::uint32_t p = 0; p < kRows; ++p) {
    ordinals[p] = p % kEach * kLists + p / kEach;
    const std::uint64_t bits = random();
    bias[p] = static_cast<float>(bits >> 40) * 0x1p-24f;
    codes[p] = static_cast<std::uint32_t>(bits & 255);
  }
  std::vector<Block> blocks;
  for (std::uint32_t first = 0; first < kRows; first += kBlockRows) {
    Block block;
    block.rows = block.live_rows = std::min(kBlockRows, kRows - first);
    block.id = static_cast<std::uint32_t>(blocks.size());
    block.rowids = {static_cast<RowId>(first), nullptr};
    blocks.push_back(block);
  }
  const auto floats = [&](std::size_t n) {
    std::vector<float> all(n);
    for (float& x : all) x = static_cast<float>(random() >> 40) * 0x1p-24f;
    return all;
  };
  const auto centroids = bytes_of(floats(kLists * 4)), codebooks = bytes_of(floats(256 * 4));
  const std::vector<float> mean(4), queries = floats(3 * 4);
  std::vector<std::vector<Hit>> expected;
  for (const Candidate& candidate : conformance_devices()) {
    if (candidate.asks != 0 && &candidate != &conformance_devices().front()) continue;
    candidate.prepare();
    Device& device = *candidate.device;
    std::shared_ptr<const Buffer> lists, words, run;
    REQUIRE(device.make_resident({centroids, centroids->data(), centroids->size()}, &lists).ok());
    REQUIRE(device.make_resident({codebooks, codebooks->data(), codebooks->size()}, &words).ok());
    REQUIRE(device.make_resident({bytes, bytes->data(), bytes->size()}, &run).ok());
    const IvfRun one{run.get(), kRows, kEach, blocks};
    IvfWork work;
    work.queries = {reinterpret_cast<const std::byte*>(queries.data()), 3, 4,
                    ElementType::kFloat32};
    work.model_queries = queries.data();
    work.model = {shape, lists.get(), words.get(), mean.data()};
    work.runs = {&one, 1};
    work.nprobe = 64;
    HitTable best(3, 10);
    const Status status = device.ivf_nearest(work, best);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < 3; ++q) {
      if (&candidate == &conformance_devices().front()) expected.push_back(best.sorted(q));
      REQUIRE(best.sorted(q).size() == expected[q].size());
      for (std::size_t i = 0; i < expected[q].size(); ++i) {
        CHECK(best.sorted(q)[i].rowid == expected[q][i].rowid);
        CHECK(best.sorted(q)[i].distance == expected[q][i].distance);
      }
    }
  }
}

TEST_CASE("ivf: a search adds to what the table holds") {
  const Restore restore;
  Case c = make_case({8, 8, 4}, 3);
  c.queries = 2;
  c.filter = 0;
  c.nprobe = c.shape.lists;
  World world(c);
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name);
    candidate.prepare();
    if (!candidate.device->supports_ivf(c.shape)) continue;
    HitTable best(c.queries, 2);
    const Hit near{-1e9, 42, 7, 3}, far{1e300, 43, 7, 4};
    for (const Hit& hit : {near, far}) best.row(0).push(hit);
    REQUIRE(candidate.device->ivf_nearest(world.work_on(*candidate.device), best).ok());
    REQUIRE(best.sorted(0).size() == 2);
    CHECK(best.sorted(0)[0].rowid == 42);
    CHECK(best.sorted(0)[1].rowid != 43);
  }
}

namespace {

}  // namespace

TEST_CASE("ivf: a cancelled search ends soon and says so") {
  const Restore restore;
  for (const Coding& coding : {Coding{64, 8, 1}, Coding{64, 4, 1}, Coding{0, 8, 64}}) {
    Case c = make_case(coding, 5);
    c.shape.lists = 20;
    c.list_rows = {2000};
    c.runs = c.blocks = 1;
    c.vectors = true;
    c.queries = 1;
    c.refine = 1;
    World world(c);
    for (const Candidate& candidate : conformance_devices()) {
      INFO(candidate.name);
      candidate.prepare();
      if (!candidate.device->supports_ivf(c.shape)) continue;
      testing::CountingCancellation cancellation(candidate.asks);
      constexpr std::size_t kQueries = 20000;
      const std::vector<std::byte> queries(kQueries * bytes_per_vector(c.type, c.shape.dim));
      const std::vector<float> model_queries(kQueries * c.shape.dim, 0.25f);
      IvfWork work = world.work_on(*candidate.device);
      work.nprobe = c.shape.lists;
      work.queries.data = queries.data();
      work.queries.rows = kQueries;
      work.model_queries = model_queries.data();
      work.cancellation = &cancellation;
      HitTable best(kQueries, 10);
      expect_interrupted([&] { return candidate.device->ivf_nearest(work, best); });
    }
  }
}

TEST_CASE("ivf: codes of vectors are the reference's") {
  const Restore restore;
  std::uint64_t n = 0;
  for (std::uint32_t m : {1u, 2u, 3u, 8u, 33u}) {
    for (std::uint32_t sub_dim : {1u, 2u, 4u, 7u, 16u}) {
      for (std::uint32_t codewords : {16u, 256u}) {
        Random random(++n);
        const bool huge = n % 7 == 0, ties = n % 3 == 0;
        const auto fill = [&](std::vector<float>& values) {
          for (float& value : values) {
            value = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
            if (ties) value = std::round(value * 2);
            if (huge && random() % 4 == 0) value *= 3e38f;
          }
        };
        PqAssignWork work;
        work.count = turn<std::size_t>({1, 0, 3, 4, 5, 130, 3000}, n);
        work.m = m;
        work.dim = m * sub_dim;
        work.codewords = codewords;
        std::vector<float> rows(work.count * work.dim), codebooks(codewords * work.dim);
        fill(rows);
        fill(codebooks);
        std::vector<std::uint8_t> expected(work.count * m);
        work.rows = rows.data();
        work.codebooks = codebooks.data();
        work.out = expected.data();
        reference_pq_assign(work);
        for (const Candidate& candidate : conformance_devices()) {
          INFO(candidate.name, " m ", m, " sub_dim ", sub_dim, " codewords ", codewords, " rows ",
               work.count);
          candidate.prepare();
          std::vector<std::uint8_t> found(work.count * m, 0xcd);
          work.out = found.data();
          const Status status = candidate.device->pq_assign(work);
          REQUIRE_MESSAGE(status.ok(), status.message);
          CHECK(found == expected);
        }
      }
    }
  }
}

TEST_CASE("ivf: lists of vectors are those of the nearest centroids") {
  const Restore restore;
  std::uint64_t n = 0;
  for (std::uint32_t lists : {1u, 3u, 255u, 256u, 700u, 2500u}) {
    for (std::uint32_t dim : {1u, 3u, 16u, 100u}) {
      Random random(++n);
      const bool ties = n % 2 == 0, huge = n % 5 == 0;
      const std::size_t count = turn<std::size_t>({1, 4, 5, 70, 300}, n);
      std::vector<float> centroids(lists * dim), rows(count * dim);
      for (std::vector<float>* values : {&centroids, &rows}) {
        for (float& value : *values) {
          value = static_cast<float>(std::uniform_real_distribution<double>(-3, 3)(random));
          if (ties) value = std::round(value);
          if (huge && random() % 50 == 0) value *= 1e18f;
        }
      }
      std::copy_n(centroids.begin(), dim, rows.begin());
      const auto row = [dim](const std::vector<float>& values, std::size_t i) {
        return reinterpret_cast<const std::byte*>(&values[i * dim]);
      };
      for (const Candidate& candidate : conformance_devices()) {
        INFO(candidate.name, " lists ", lists, " dim ", dim, " rows ", count);
        candidate.prepare();
        Resident resident{bytes_of(centroids), nullptr};
        resident.load(*candidate.device);
        std::vector<Assigned> found(count);
        AssignWork work;
        work.rows = rows.data();
        work.count = count;
        work.dim = dim;
        work.lists = lists;
        work.centroids = resident.buffer.get();
        work.out = found.data();
        const Status status = candidate.device->assign(work);
        REQUIRE_MESSAGE(status.ok(), status.message);
        for (std::size_t i = 0; i < count; ++i) {
          Assigned nearest{0, std::numeric_limits<double>::infinity()};
          for (std::uint32_t list = 0; list < lists; ++list) {
            const double distance =
                canonical_distance(Distance::kL2, ElementType::kFloat32, dim, row(rows, i),
                                   row(centroids, list));
            if (distance < nearest.distance) nearest = {list, distance};
          }
          CHECK(found[i].list == nearest.list);
          CHECK(found[i].distance == nearest.distance);
        }
      }
    }
  }
}

TEST_CASE("ivf: shapes that make no sense are not offered") {
  for (const Candidate& candidate : conformance_devices()) {
    CHECK_FALSE(candidate.device->supports_ivf({0, 4, 0, 8}));
    CHECK_FALSE(candidate.device->supports_ivf({10, 4, 3, 8}));
    CHECK_FALSE(candidate.device->supports_ivf({12, 4, 3, 5}));
    CHECK_FALSE(candidate.device->supports_ivf({12, 0, 3, 8}));
  }
}
