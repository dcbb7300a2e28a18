// Selection by threshold: the heap it uses, the sample, and every device against the reference with
// samples that were chosen to mislead.
#include <algorithm>
#include <bit>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/policy/select_policy.h"
#include "compute/reference.h"
#include "core/elements.h"
#include "core/min_max_heap.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using warplite::testing::conformance_devices;
using warplite::testing::Restore;

namespace {

using Random = std::mt19937_64;

double uniform(Random& random) { return std::uniform_real_distribution<double>(-1, 1)(random); }

enum class Data { kRandom, kTies, kIdentical, kHuge, kSomeHuge, kTiny, kOffset, kCount };

enum class Sample {
  kChosen,     // as the product chooses it
  kFarthest,   // from the first query
  kNearest,
  kEqual,      // copies of one row, which is far
  kFirst,      // in the order of the table
  kOnePerBlock,
  kTooFew,     // fewer than k
  kAll,
  kCount
};

struct Shape {
  Distance distance = Distance::kL2;
  ElementType type = ElementType::kFloat32;
  std::uint32_t dim = 24;
  Data data = Data::kRandom;
  Sample sample = Sample::kChosen;
  std::vector<std::uint32_t> block_rows;
  std::size_t queries = 20;
  std::size_t k = 10;
  unsigned one_in = 1;  // rows that live
  bool high = false;    // a range that ends among the rows
  std::uint64_t seed = 1;
};

void put(ElementType type, double value, std::size_t i, std::byte* to) {
  with_numbers(type, [&]<ElementType kType>() {
    constexpr double kLargest = static_cast<double>(Element<kType>::kLargest);
    const double scaled = is_real(kType) ? value : value * 127;
    write_element<kType>(static_cast<float>(std::clamp(scaled, -kLargest, kLargest)), to, i);
  });
}

// Every type of numbers, the first twice.
ElementType type_in_turn(std::uint64_t n) {
  std::vector<ElementType> types;
  for (const ElementInfo& row : kElementTypes) {
    if (row.numbers != Numbers::kBits) types.push_back(row.type);
  }
  types.push_back(types.front());
  return types[n % types.size()];
}

class Case {
 public:
  explicit Case(const Shape& shape) : shape_(shape), random_(shape.seed) {
    base_.resize(shape.dim);
    for (double& value : base_) value = uniform(random_);
    stride_ = bytes_per_vector(shape.type, shape.dim);
    for (const std::uint32_t rows : shape.block_rows) make_block(rows);
    for (std::size_t q = 0; q < shape.queries; ++q) append_row(queries_, q % 3 == 2);
    work_.distance = shape.distance;
    work_.queries = {queries_.data(), shape.queries, shape.dim, shape.type};
    for (HostBlock& host : host_) blocks_.push_back(host.block);
    work_.blocks = blocks_;
    choose_sample();
    HitTable best(shape.queries, shape.k);
    reference_nearest(work_, host_, best);
    for (std::size_t q = 0; q < shape.queries; ++q) expected_.push_back(best.list(q));
  }

  void check(Device& device) {
    std::vector<std::shared_ptr<const Buffer>> buffers(blocks_.size());
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      REQUIRE(device.make_resident({bytes_[b], bytes_[b]->data(), bytes_[b]->size()}, &buffers[b])
                  .ok());
      blocks_[b].vectors = buffers[b].get();
    }
    HitTable best(shape_.queries, shape_.k);
    Workload work = work_;
    Status status;
    if (shape_.sample == Sample::kChosen) {
      work.select = Select::kThreshold;
      status = compute::nearest_selected(device, work, best);
    } else {
      work.sample = sample_;
      status = device.nearest(work, best);
    }
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < shape_.queries; ++q) compare(expected_[q], best.sorted(q), q);
  }

 private:
  using Bytes = std::vector<std::byte>;

  void append_row(Bytes& to, bool huge) {
    to.resize(to.size() + stride_);
    std::byte* row = to.data() + to.size() - stride_;
    for (std::size_t i = 0; i < shape_.dim; ++i) {
      const double noise = uniform(random_);
      double value = noise;
      if (shape_.data == Data::kTies) value = static_cast<double>(random_() % 2);
      if (shape_.data == Data::kIdentical) value = base_[i];
      if (shape_.data == Data::kHuge) value = noise * (random_() % 4 == 0 ? 3.3e38 : 1e18);
      if (shape_.data == Data::kSomeHuge && huge) value = noise * 1e19;
      if (shape_.data == Data::kTiny) value = noise * (random_() % 2 == 0 ? 1e-38 : 1e-43);
      if (shape_.data == Data::kOffset) value = 1e5 + noise;
      put(shape_.type, value, i, row);
    }
  }

  void make_block(std::uint32_t rows) {
    auto bytes = std::make_shared<Bytes>();
    auto live = std::make_shared<std::vector<std::uint64_t>>((rows + 63) / 64);
    std::uint32_t live_rows = 0;
    // Copies of one row, far from the others, for Sample::kEqual.
    Bytes copy;
    append_row(copy, true);
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (shape_.sample == Sample::kEqual && row % 3 == 0) {
        bytes->insert(bytes->end(), copies_.empty() ? copy.begin() : copies_.begin(),
                      copies_.empty() ? copy.end() : copies_.end());
        if (copies_.empty()) copies_ = copy;
      } else {
        append_row(*bytes, row % 7 == 3);
      }
      if (random_() % shape_.one_in != 0) continue;
      (*live)[row / 64] |= std::uint64_t{1} << (row % 64);
      ++live_rows;
    }
    HostBlock host;
    host.block.rows = rows;
    host.block.id = static_cast<std::uint32_t>(3 + host_.size());
    host.block.rowids.first = 1000000 - 10000 * static_cast<RowId>(host_.size());
    host.block.live = shape_.one_in == 1 ? nullptr : live->data();
    host.block.live_rows = live_rows;
    host.vectors = bytes->data();
    bytes_.push_back(std::move(bytes));
    live_.push_back(std::move(live));
    host_.push_back(host);
  }

  struct Row {
    double distance;
    SampleRow at;
  };

  void choose_sample() {
    std::vector<Row> rows;
    for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
      for (std::uint32_t row = 0; row < blocks_[b].rows; ++row) {
        if (((*live_[b])[row / 64] >> (row % 64) & 1) == 0) continue;
        rows.push_back({canonical_distance(shape_.distance, shape_.type, shape_.dim,
                                           queries_.data(), host_[b].vectors + row * stride_),
                        {b, row}});
      }
    }
    const auto nearer = [](const Row& a, const Row& b) { return a.distance < b.distance; };
    std::vector<Row> sorted = rows;
    std::stable_sort(sorted.begin(), sorted.end(), nearer);
    if (shape_.high && !sorted.empty()) work_.range.high = sorted[sorted.size() / 5].distance;
    const std::size_t size = std::min(rows.size(), 2 * shape_.k + 5);
    const auto some = static_cast<long>(size), few = static_cast<long>(std::min(size, shape_.k / 2));
    std::vector<Row> taken;
    switch (shape_.sample) {
      case Sample::kFarthest: taken.assign(sorted.end() - some, sorted.end()); break;
      case Sample::kNearest: taken.assign(sorted.begin(), sorted.begin() + some); break;
      case Sample::kFirst: taken.assign(rows.begin(), rows.begin() + some); break;
      case Sample::kTooFew: taken.assign(rows.begin(), rows.begin() + few); break;
      case Sample::kAll: taken = rows; break;
      case Sample::kEqual:
        for (const Row& row : rows) {
          if (row.at.row % 3 == 0) taken.push_back(row);
        }
        break;
      case Sample::kOnePerBlock:
        for (const Row& row : rows) {
          if (taken.empty() || taken.back().at.block != row.at.block) taken.push_back(row);
        }
        break;
      default: break;
    }
    for (const Row& row : taken) sample_.push_back(row.at);
    std::sort(sample_.begin(), sample_.end(), [](const SampleRow& a, const SampleRow& b) {
      return a.block != b.block ? a.block < b.block : a.row < b.row;
    });
  }

  static void compare(std::span<const Hit> expected, std::span<const Hit> found,
                      std::size_t query) {
    REQUIRE(expected.size() == found.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Hit &a = expected[i], &b = found[i];
      if (std::bit_cast<std::uint64_t>(a.distance) == std::bit_cast<std::uint64_t>(b.distance) &&
          a.rowid == b.rowid && a.block == b.block && a.row == b.row) {
        continue;
      }
      FAIL("query ", query, " hit ", i, " expected ", a.distance, " row ", a.rowid, " found ",
           b.distance, " row ", b.rowid);
    }
  }

  Shape shape_;
  Random random_;
  std::size_t stride_ = 0;
  std::vector<double> base_;
  Bytes copies_;
  std::vector<std::shared_ptr<Bytes>> bytes_;
  std::vector<std::shared_ptr<std::vector<std::uint64_t>>> live_;
  std::vector<HostBlock> host_;
  std::vector<Block> blocks_;
  Bytes queries_;
  Workload work_;
  std::vector<SampleRow> sample_;
  std::vector<std::vector<Hit>> expected_;
};

void check_everywhere(const Shape& shape) {
  std::ostringstream text;
  text << info(shape.distance).name << " type " << static_cast<int>(shape.type) << " dim "
       << shape.dim << " data " << static_cast<int>(shape.data) << " sample "
       << static_cast<int>(shape.sample) << " blocks " << shape.block_rows.size() << " queries "
       << shape.queries << " k " << shape.k << " one in " << shape.one_in << " high " << shape.high
       << " seed " << shape.seed;
  Case current(shape);
  for (const testing::Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, ": ", text.str());
    candidate.prepare();
    current.check(*candidate.device);
  }
}

template <class T>
T turn(std::initializer_list<T> values, std::uint64_t n) {
  return values.begin()[n % values.size()];
}

}  // namespace

TEST_CASE("min-max heap: keeps the least, and knows the greatest and the least of them") {
  Random random(1);
  for (const std::size_t bound : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 31u, 100u, 1000u}) {
    for (const std::size_t count : {std::size_t{0}, bound / 2, bound, bound + 1, 3 * bound + 5}) {
      for (const unsigned values : {2u, 50u, 1u << 30}) {
        MinMaxHeap<unsigned> heap(5);
        heap.reset(bound);
        std::vector<unsigned> all;
        for (std::size_t i = 0; i < count; ++i) {
          all.push_back(static_cast<unsigned>(random() % values));
          heap.push(all.back());
          if (!heap.full() || bound == 0) continue;
          std::vector<unsigned> sorted = all;
          std::nth_element(sorted.begin(), sorted.begin() + static_cast<long>(bound - 1),
                           sorted.end());
          REQUIRE(heap.max() == sorted[bound - 1]);
          REQUIRE(heap.values().front() == *std::min_element(all.begin(), all.end()));
        }
        std::vector<unsigned> kept = heap.values();
        std::sort(kept.begin(), kept.end());
        std::sort(all.begin(), all.end());
        all.resize(std::min(all.size(), bound));
        REQUIRE(kept == all);
      }
    }
  }
}

TEST_CASE("sample: live rows, each once, from everywhere, and none where they are too few") {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::vector<std::uint64_t>> live;
    std::vector<Block> blocks;
    std::size_t rows = 0;
    for (std::size_t b = 0; b < 1 + random() % 20; ++b) {
      Block block;
      block.rows = static_cast<std::uint32_t>(random() % 700);
      live.emplace_back((block.rows + 63) / 64);
      block.live_rows = 0;
      for (std::uint32_t row = 0; row < block.rows; ++row) {
        if (random() % 3 == 0) continue;
        live.back()[row / 64] |= std::uint64_t{1} << (row % 64);
        ++block.live_rows;
      }
      rows += block.live_rows;
      blocks.push_back(block);
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b].live = live[b].data();
    Workload work;
    work.blocks = blocks;
    const std::size_t k = 1 + random() % 200;
    const auto cpu = cpu::make_cpu_device();
    const std::size_t size = compute::sample_size(*cpu, rows, k);
    CHECK(size == (k > rows / 16 ? 0 : std::clamp(rows / 64, 8 * k, 32 * k)));
    const std::vector<SampleRow> sample = compute::choose_sample(work, size);
    REQUIRE(sample.size() == size);
    if (size == 0) continue;
    std::size_t half = 0, before = 0;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const SampleRow& at = sample[i];
      REQUIRE(at.block < blocks.size());
      REQUIRE(at.row < blocks[at.block].rows);
      REQUIRE((live[at.block][at.row / 64] >> (at.row % 64) & 1) == 1);
      if (i == 0) continue;
      const SampleRow& last = sample[i - 1];
      REQUIRE((last.block < at.block || (last.block == at.block && last.row < at.row)));
    }
    for (std::uint32_t b = 0; b < blocks.size() / 2; ++b) before += blocks[b].live_rows;
    for (const SampleRow& at : sample) half += at.block < blocks.size() / 2 ? 1 : 0;
    const double share = static_cast<double>(before) / static_cast<double>(rows);
    CHECK(static_cast<double>(half) / static_cast<double>(sample.size()) ==
          doctest::Approx(share).epsilon(0.1));
  }
}

TEST_CASE("threshold: every sample gives the reference's hits") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    for (int data = 0; data < static_cast<int>(Data::kCount); ++data) {
      for (int sample = 0; sample < static_cast<int>(Sample::kCount); ++sample) {
        ++n;
        Shape shape;
        shape.distance = distance;
        shape.type = type_in_turn(n);
        shape.dim = turn<std::uint32_t>({24, 17, 64, 40, 8}, n);
        shape.data = static_cast<Data>(data);
        shape.sample = static_cast<Sample>(sample);
        shape.block_rows = turn<std::vector<std::uint32_t>>(
            {{700, 300}, {257, 511, 1, 0, 130}, {1000}}, n);
        if (shape.sample == Sample::kOnePerBlock) shape.block_rows.assign(400, 2);
        shape.queries = turn<std::size_t>({7, 40, 1, 33, 100}, n);
        shape.k = turn<std::size_t>({10, 1, 40, 60}, n / 2);
        shape.one_in = turn<unsigned>({1, 2, 1, 1}, n / 3);
        shape.high = n % 5 == 0;
        shape.seed = n;
        check_everywhere(shape);
      }
    }
  }
}

TEST_CASE("threshold: other distances, many blocks of one row, and more asked for than there is") {
  const Restore restore;
  Shape shape;
  shape.block_rows = {600, 500};
  for (const Distance distance : {Distance::kL1, Distance::kL2, Distance::kCosine}) {
    shape.distance = distance;
    for (const std::size_t k : {1u, 500u, 1100u, 5000u}) {
      for (const Sample sample : {Sample::kChosen, Sample::kFarthest, Sample::kAll}) {
        shape.k = k;
        shape.sample = sample;
        ++shape.seed;
        check_everywhere(shape);
      }
    }
  }
  shape.distance = Distance::kL2;
  shape.block_rows.assign(900, 1);
  for (const Sample sample : {Sample::kChosen, Sample::kFarthest, Sample::kOnePerBlock}) {
    shape.k = 30;
    shape.sample = sample;
    check_everywhere(shape);
  }
  shape.one_in = 100000;  // nothing lives
  check_everywhere(shape);
}

TEST_CASE("threshold: large k in tables large enough for several threads") {
  const Restore restore;
  std::uint64_t n = 0;
  for (const Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    for (const Sample sample : {Sample::kChosen, Sample::kFarthest, Sample::kEqual}) {
      Shape shape;
      shape.distance = distance;
      shape.sample = sample;
      shape.data = turn({Data::kRandom, Data::kSomeHuge, Data::kTies, Data::kOffset}, n);
      shape.dim = 48;
      shape.block_rows = {16000, 5000, 2000};
      shape.queries = turn<std::size_t>({30, 12}, n);
      shape.k = turn<std::size_t>({1100, 300, 1400}, n);
      shape.one_in = turn<unsigned>({1, 1, 3}, n / 2);
      shape.seed = 100 + n++;
      check_everywhere(shape);
    }
  }
}

TEST_CASE("threshold: several calls add to one table") {
  const Restore restore;
  for (const testing::Candidate& candidate : conformance_devices()) {
    INFO(candidate.name);
    candidate.prepare();
    constexpr std::uint32_t kRows = 4000, kDim = 32;
    Random random(7);
    auto data = std::make_shared<std::vector<float>>(kRows * kDim);
    for (float& value : *data) value = static_cast<float>(uniform(random));
    const auto* bytes = reinterpret_cast<const std::byte*>(data->data());
    std::shared_ptr<const Buffer> buffer;
    REQUIRE(candidate.device->make_resident({data, bytes, data->size() * 4}, &buffer).ok());
    Block block;
    block.vectors = buffer.get();
    block.rows = block.live_rows = kRows;
    Workload work;
    work.queries = {bytes, 50, kDim, ElementType::kFloat32};
    HitTable plain(50, 64), best(50, 64);
    for (std::uint32_t part = 0; part < 3; ++part) {
      block.id = part;
      block.rowids.first = 5000 * (3 - part);
      work.blocks = {&block, 1};
      work.select = Select::kDefault;
      REQUIRE(compute::nearest_selected(*candidate.device, work, plain).ok());
      work.select = Select::kThreshold;
      REQUIRE(compute::nearest_selected(*candidate.device, work, best).ok());
    }
    for (std::size_t q = 0; q < 50; ++q) {
      const std::span<const Hit> a = plain.sorted(q), &b = best.sorted(q);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].distance == b[i].distance);
        CHECK(a[i].rowid == b[i].rowid);
      }
    }
  }
}
