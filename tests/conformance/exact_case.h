// Cases of exact search, drawn from a seed, and what the reference answers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "compute/device.h"
#include "compute/reference.h"
#include "core/elements.h"
#include "index/flat.h"
#include "index/metric/list_of_clusters.h"
#include "index/metric/metric_index.h"
#include "index/metric/sss.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/sql_session.h"

namespace warplite::testing::exact {

using namespace warplite::compute;

enum class Data {
  kRandom, kFewValues, kZeros, kHuge, kTiny, kNearTies, kOffset, kMixedScales, kIdentical,
  kLeastSquares, kLeastNormal, kLargest, kAllOrNothing, kBiased, kPeaked, kCount
};

inline const char* name_of(Data data) {
  constexpr const char* kNames[] = {"random",    "few values", "zeros",        "huge",     "tiny",
                                    "near ties", "offset",     "mixed scales", "identical",
                                    "squares that vanish", "the least normal numbers",
                                    "the largest numbers", "all elements or none",
                                    "sums that are biased", "few that are not tiny"};
  return kNames[static_cast<int>(data)];
}

// Rows, times queries, that all cases together searched through a metric index.
inline std::uint64_t indexed = 0;

// Is worth it for any search.
class EagerBuilder : public VectorMetricBuilder {
 public:
  explicit EagerBuilder(const VectorMetricBuilder& builder) : builder_(builder) {}
  MetricSpace space() const override { return builder_.space(); }
  double cost(std::size_t) const override { return 0; }
  std::shared_ptr<const VectorMetric> build(Device& host, MatrixView rows,
                                            Cancellation* cancellation) const override {
    return builder_.build(host, rows, cancellation);
  }

 private:
  const VectorMetricBuilder& builder_;
};

using Random = std::mt19937_64;

inline double uniform(Random& random) { return std::uniform_real_distribution<double>(-1, 1)(random); }

// One row as real numbers; `base` is common to all rows of the case.
inline std::vector<double> make_row(Data data, const std::vector<double>& base, Random& random) {
  std::vector<double> row(base.size());
  const double scale = std::pow(10.0, 15 * uniform(random));
  const bool empty = random() % 3 == 0;
  const bool alike = random() % 8 == 0, half = random() % 2 == 0;
  const double bias = uniform(random);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double noise = uniform(random);
    switch (data) {
      case Data::kFewValues: row[i] = static_cast<double>(random() % 2); break;
      case Data::kZeros: row[i] = empty || random() % 2 == 0 ? 0.0 : noise; break;
      case Data::kHuge: row[i] = noise * (random() % 4 == 0 ? 3.3e38 : 1e18); break;
      case Data::kTiny: row[i] = noise * (random() % 2 == 0 ? 1e-38 : 1e-43); break;
      case Data::kNearTies:
        row[i] = base[i] * (1 + static_cast<double>(random() % 3) * 0x1p-23);
        break;
      case Data::kOffset: row[i] = 1e6 + noise; break;
      case Data::kMixedScales: row[i] = noise * scale; break;
      case Data::kIdentical: row[i] = base[i]; break;
      case Data::kLeastSquares: row[i] = (alike ? 1.0 : noise) * 0x1p-75; break;
      case Data::kLeastNormal: row[i] = (alike ? 1.0 : noise) * 0x1p-126; break;
      case Data::kLargest: row[i] = (alike ? 1.0 : noise) * 3.3e38; break;
      case Data::kAllOrNothing: row[i] = half ? 3.4e-21 : 0; break;
      // Equal terms: what adding them loses grows with their number, and is another for each row.
      case Data::kBiased: row[i] = alike ? 1.1 : bias * 0x1p-43; break;
      // As probabilities are.
      case Data::kPeaked: row[i] = noise * (random() % 8 == 0 ? 1.0 : random() % 2 == 0 ? 1e-20 : 1e-39); break;
      default: row[i] = noise;
    }
  }
  return row;
}

// The finite element nearest to `value`, or one of that spirit.
inline void put(ElementType type, double value, std::size_t i, std::byte* to) {
  if (is_bits(type)) {
    if (value > 0.5) to[i / 8] |= static_cast<std::byte>(1u << (i % 8));
    return;
  }
  with_numbers(type, [&]<ElementType kType>() {
    constexpr double kLargest = static_cast<double>(Element<kType>::kLargest);
    const double scaled = is_real(kType) ? value : value * 127;
    write_element<kType>(static_cast<float>(std::clamp(scaled, -kLargest, kLargest)), to, i);
  });
}

// What a case is; everything is derived from it and the seed.
struct Shape {
  ElementType type;
  Distance distance;
  std::uint32_t dim;
  Data data;
  std::vector<std::uint32_t> block_rows;
  std::size_t queries;
  std::size_t k;
  int filter = 0;      // 0: none; n: about one row in n lives; −1: none lives
  int range = 0;       // 0: none; 1: high; 2: low and high, open; 3: low
  bool after = false;  // one query only
  std::uint32_t huge = 0;  // rows of every block whose squares are beyond float32
  std::uint64_t seed = 1;
};

struct BlockData {
  std::shared_ptr<std::vector<std::byte>> bytes;
  std::vector<RowId> rowids;
  std::vector<std::uint64_t> live;
  std::uint32_t live_rows;
  std::size_t offset;  // of the first vector: rows need no alignment
};

class Case {
 public:
  explicit Case(const Shape& shape) : shape_(shape), random_(shape.seed) {
    base_.resize(shape.dim);
    for (double& value : base_) value = uniform(random_);
    for (std::uint32_t rows : shape.block_rows) make_block(rows);
    make_queries();
    make_range();
  }

  // Runs `nearest` and `within` on a device and compares.
  void check(const Candidate& candidate, bool metric = true) {
    candidate.prepare();
    make_resident(*candidate.device);
    REQUIRE(candidate.device->supports(shape_.type, shape_.distance));
    index_ = index::flat_kind().make({}, {shape_.type, shape_.dim, shape_.distance});
    check_nearest(*candidate.device);
    check_within(*candidate.device);
    // A quarter of all combinations of cases and CPUs' settings, which takes as long as the rest.
    static int turns = 0;
    if (!metric) return;
    if (candidate.asks == 0 || ++turns % 4 == 0) check_metric(*candidate.device);
  }

  // Both results by the reference, once for all devices.
  void expect() {
    compute::HitTable best(shape_.queries, shape_.k);
    reference_nearest(work_, host_, best);
    for (std::size_t q = 0; q < shape_.queries; ++q) nearest_.push_back(best.list(q));
    within_.resize(shape_.queries);
    reference_within(work_, host_, within_);
    for (auto& hits : within_) std::sort(hits.begin(), hits.end());
  }

 private:
  void make_resident(Device& device) {
    buffers_.resize(blocks_.size());
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const BlockData& data = blocks_[b];
      HostBytes bytes{data.bytes, data.bytes->data() + data.offset,
                      data.bytes->size() - data.offset};
      REQUIRE(device.make_resident(bytes, &buffers_[b]).ok());
      host_[b].block.vectors = buffers_[b].get();
    }
  }

  void make_block(std::uint32_t rows) {
    const std::size_t stride = bytes_per_vector(shape_.type, shape_.dim);
    BlockData data;
    data.offset = shape_.seed % 4;
    data.bytes = std::make_shared<std::vector<std::byte>>(rows * stride + data.offset);
    for (std::uint32_t row = 0; row < rows; ++row) {
      const std::vector<double> values = make_row(shape_.data, base_, random_);
      std::byte* to = data.bytes->data() + data.offset + row * stride;
      const double scale = row % 7 == 3 && row / 7 < shape_.huge ? 1e30 : 1;
      for (std::size_t i = 0; i < values.size(); ++i) put(shape_.type, values[i] * scale, i, to);
      data.rowids.push_back(static_cast<RowId>(1000000 * blocks_.size() + row * 3));
    }
    if (blocks_.size() % 2 == 1) std::shuffle(data.rowids.begin(), data.rowids.end(), random_);
    data.live.assign((rows + 63) / 64, 0);
    data.live_rows = 0;
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (shape_.filter < 0 || (shape_.filter > 0 && random_() % shape_.filter != 0)) continue;
      data.live[row / 64] |= std::uint64_t{1} << (row % 64);
      ++data.live_rows;
    }
    blocks_.push_back(std::move(data));
    add_host_block(rows);
  }

  void add_host_block(std::uint32_t rows) {
    BlockData& data = blocks_.back();
    HostBlock host;
    host.block.rows = rows;
    host.block.id = static_cast<std::uint32_t>(7 + blocks_.size());
    host.block.rowids.list = data.rowids.data();
    if (blocks_.size() % 2 == 0) {
      host.block.rowids = {-1000000 * static_cast<RowId>(blocks_.size()), nullptr};
    }
    host.block.live = shape_.filter == 0 ? nullptr : data.live.data();
    host.block.live_rows = shape_.filter == 0 ? rows : data.live_rows;
    host.vectors = data.bytes->data() + data.offset;
    host_.push_back(host);
  }

  void make_queries() {
    const std::size_t stride = bytes_per_vector(shape_.type, shape_.dim);
    queries_.resize(shape_.queries * stride);
    for (std::size_t q = 0; q < shape_.queries; ++q) {
      std::byte* to = queries_.data() + q * stride;
      if (q % 5 == 1 && host_[0].block.rows > 0) {
        std::memcpy(to, host_[0].vectors + random_() % host_[0].block.rows * stride, stride);
        continue;
      }
      const std::vector<double> values = make_row(shape_.data, base_, random_);
      for (std::size_t i = 0; i < values.size(); ++i) put(shape_.type, values[i], i, to);
    }
    // Searches of the same rows may find what a device kept of them.
    static std::uint64_t numbers = 0;
    if (shape_.filter != 0) work_.filter = ++numbers;
    work_.distance = shape_.distance;
    work_.queries = {queries_.data(), shape_.queries, shape_.dim, shape_.type};
    if (shape_.seed % 3 == 0) work_.budget = &NoRoom::instance();
  }

  // Bounds that are distances of rows, so that being open or closed matters.
  void make_range() {
    if (shape_.range == 0 && !shape_.after) return;
    std::vector<Hit> all;
    for (const HostBlock& host : host_) {
      for (std::uint32_t row = 0; row < host.block.rows; ++row) {
        all.push_back({canonical_distance(shape_.distance, shape_.type, shape_.dim,
                                          queries_.data(),
                                          host.vectors + row * work_.queries.stride()),
                       host.block.rowids[row], 0, row});
      }
    }
    if (all.empty()) return;
    std::sort(all.begin(), all.end());
    if (shape_.range == 1 || shape_.range == 2) work_.range.high = all[all.size() / 3].distance;
    if (shape_.range >= 2) work_.range.low = all[all.size() / 10].distance;
    work_.range.low_open = work_.range.high_open = shape_.range == 2;
    if (!shape_.after) return;
    work_.has_after = true;
    work_.after_distance = all[all.size() / 4].distance;
    work_.after_rowid = all[all.size() / 4].rowid;
  }

  void set_blocks(std::size_t begin, std::size_t end) {
    given_.clear();
    for (std::size_t b = begin; b < end; ++b) given_.push_back(host_[b].block);
    work_.blocks = given_;
  }

  // The same through metric indexes, which know no more than the blocks' bytes.
  void check_metric(Device& device) {
    if (!info(shape_.distance).space) return;
    static const SqlSession session(":memory:");  // registers the device that builders ask
    constexpr std::uint32_t kMostRows = 2048;  // small clusters of more take long to make
    for (HostBlock& host : host_) {
      if (host.block.rows > kMostRows) return;
      host.block.host = host.vectors;
    }
    const std::string size = std::to_string(1 + shape_.seed * 5 % 37);
    const std::string alpha = shape_.seed % 2 == 0 ? "0.2" : "0.5";
    const std::pair<index::Kind, index::Spec> indexes[] = {
        {index::list_of_clusters_kind(), {"list_of_clusters", {{"size", size}}}},
        {index::sss_kind(), {"sss", {{"alpha", alpha}}}}};
    for (const auto& [kind, spec] : indexes) {
      INFO(spec.kind);
      make_resident(device);  // which forgets the index before
      const auto made = kind.make(spec, {shape_.type, shape_.dim, shape_.distance});
      const EagerBuilder builder(static_cast<const index::MetricIndex&>(*made).builder());
      SearchCounters counters;
      work_.counters = &counters;
      work_.metric = &builder;
      check_nearest(device);
      check_within(device);
      indexed += counters.indexed;
    }
    work_.counters = nullptr;
    work_.metric = nullptr;
  }

  // The blocks in two calls, as one table: thresholds carry over.
  void check_nearest(Device& device) {
    compute::HitTable best(shape_.queries, shape_.k);
    const std::size_t half = blocks_.size() / 2;
    for (auto [begin, end] : {std::pair(std::size_t{0}, half), std::pair(half, blocks_.size())}) {
      set_blocks(begin, end);
      const Status status = index_->nearest(device, work_, best);
      REQUIRE_MESSAGE(status.ok(), status.message);
    }
    for (std::size_t q = 0; q < shape_.queries; ++q) expect_hits(nearest_[q], best.sorted(q), q);
  }

  void check_within(Device& device) {
    HitLists lists(shape_.queries);
    set_blocks(0, blocks_.size());
    const Status status = index_->within(device, work_, lists);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < shape_.queries; ++q) {
      std::sort(lists[q].begin(), lists[q].end());
      expect_hits(within_[q], lists[q], q);
    }
  }

  Shape shape_;
  Random random_;
  std::vector<double> base_;
  std::vector<BlockData> blocks_;
  std::vector<HostBlock> host_;
  std::vector<std::byte> queries_;
  Workload work_;
  std::vector<Block> given_;
  std::vector<std::vector<Hit>> nearest_;
  HitLists within_;
  std::vector<std::shared_ptr<const Buffer>> buffers_;
  std::unique_ptr<index::Index> index_;
};

inline std::string describe(const Shape& shape) {
  std::ostringstream text;
  text << info(shape.distance).name << " type " << static_cast<int>(shape.type) << " dim "
       << shape.dim << " data " << name_of(shape.data) << " rows";
  for (std::uint32_t rows : shape.block_rows) text << " " << rows;
  text << " queries " << shape.queries << " k " << shape.k << " filter " << shape.filter
       << " range " << shape.range << (shape.after ? " after" : "") << " seed " << shape.seed;
  return text.str();
}

inline void check_everywhere(const Shape& shape) {
  const std::string description = describe(shape);
  Case current(shape);
  current.expect();
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, ": ", description);
    current.check(candidate);
  }
}

struct Pair {
  ElementType type;
  Distance distance;
};

inline std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const ElementInfo& element : kElementTypes) {
    for (const DistanceInfo& row : kDistances) {
      if (applies(row.distance, element.type)) pairs.push_back({element.type, row.distance});
    }
  }
  return pairs;
}

}  // namespace warplite::testing::exact
