// Searches of drawn inverted files by a device, and the reference's hits of them.
#pragma once

#include <algorithm>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

#include "compute/device.h"
#include "tests/conformance/ivf_drawing.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"

namespace warplite::testing::ivf {

class World : Drawing {
 public:
  explicit World(const Case& c) : Drawing(c) {
    expected_ = expect(case_.refine);
    std::size_t rows = 1;
    for (const RunData& run : runs_) rows += run.positions;
    if (case_.refine != 0) expected_of_all_ = expect(rows);
  }

  // Searches that come again may find what the device made of the rows that live.
  void check(const Candidate& candidate) {
    IvfWork work = work_on(*candidate.device);
    check(*candidate.device, work);
    static std::uint64_t numbers = 0;
    work.filter = ++numbers;
    for (int times = 0; times < 3; ++times) check(*candidate.device, work);
    check_told(*candidate.device, work);
    if (case_.rotated && candidate.device->rotates_queries(case_.shape, case_.queries)) {
      work.model_queries = nullptr;
      check(*candidate.device, work);
    }
    // Scores that overflow do not tell which a device did.
    if (case_.refine == 0 || case_.data == Data::kHuge) return;
    work.may_compare_all = true;
    check(*candidate.device, work);
  }

  void check(Device& device, IvfWork work) {
    HitTable best(case_.queries, case_.k);
    std::vector<ProbedList> probed(expected_.probed.size());
    std::vector<float> left(case_.queries, std::numeric_limits<float>::infinity());
    work.probed = probed.data();
    work.left = left.data();
    const Status status = device.ivf_nearest(work, best);
    // A device may leave so many nominees to the CPU.
    const bool many = case_.k * std::max<std::size_t>(case_.refine, 1) > 1024;
    if (status.kind == ErrorKind::kUnsupported && many) return;
    REQUIRE_MESSAGE(status.ok(), status.message);
    // None was dropped.
    const bool all = work.may_compare_all && !device.own_memory() && left == expected_of_all_.left;
    const Expected& expected = all ? expected_of_all_ : expected_;
    for (std::size_t q = 0; q < case_.queries; ++q) {
      expect_hits(expected.hits[q], best.sorted(q), q);
    }
    const auto same = [](const ProbedList& a, const ProbedList& b) {
      return a.rows == b.rows && a.live == b.live;
    };
    if (!device.counts_lists(case_.shape)) return;
    CHECK(std::ranges::equal(probed, expected.probed, same));
    if (work.steps().known()) check_eighths(probed);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      CAPTURE(q);
      if (device.own_memory() && just_enough(q)) continue;
      CHECK(left[q] == expected.left[q]);
    }
    if (device.own_memory()) return;
    if (work.may_compare_all && case_.shape.planes != 0 && case_.filter == 40) CHECK(all);
  }

  // It is told where the list lies that tells how many are probed, be it one of them or not.
  void check_eighths(const std::vector<ProbedList>& probed) const {
    for (std::size_t q = 0; q < case_.queries; ++q) {
      const ProbedList* const lists = probed.data() + q * case_.nprobe;
      CAPTURE(q);
      const ProbedList& eighth = lists[ContrastSteps::kPlace];
      if (!(lists[0].a < std::numeric_limits<float>::infinity())) continue;
      CHECK(eighth.list < case_.shape.lists);
      // Lists in groups are in the order of their codes.
      if (case_.shape.groups == 0) CHECK(eighth.a >= lists[0].a);
      CHECK((eighth.list != 0 || eighth.a != 0 || lists[0].a <= 0));
    }
  }

  // Of fewer lists it tells the same.
  void check_told(Device& device, IvfWork work) {
    if (!device.counts_lists(case_.shape)) return;
    HitTable best(case_.queries, case_.k);
    work.most_told = case_.nprobe / 2 + 1;
    std::vector<ProbedList> told(case_.queries * work.told());
    work.probed = told.data();
    if (device.ivf_nearest(work, best).kind == ErrorKind::kUnsupported) return;
    for (std::size_t i = 0; i < told.size(); ++i) {
      const ProbedList& expected =
          expected_.probed[i / work.told() * case_.nprobe + i % work.told()];
      CAPTURE(i);
      CHECK(told[i].rows == expected.rows);
      CHECK(told[i].live == expected.live);
    }
  }

  // The work with everything resident. Valid until the next one.
  const IvfWork& work_on(Device& device) {
    centroids_.load(device);
    work_.model.centroids = centroids_.buffer.get();
    if (case_.shape.has_codebooks()) codebooks_.load(device);
    work_.model.codebooks = codebooks_.buffer.get();
    if (case_.shape.groups != 0) coarse_.bytes.load(device);
    work_.model.coarse = coarse_.bytes.buffer.get();
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      RunData& data = runs_[r];
      load_run(device, data);
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
  void load_run(Device& device, RunData& run) const {
    if (case_.held == Held::kAll) return run.bytes.load(device);
    const bool some = case_.held == Held::kBeforeRecords;
    run.bytes.map(device, some ? IvfLayout::of(case_.shape, run.positions).records : 0);
  }

  // Says whether a query's lists hold as many rows as are candidates, and no more.
  bool just_enough(std::size_t query) const {
    std::size_t live = 0;
    for (std::size_t i = 0; i < case_.nprobe; ++i) {
      live += expected_.probed[query * case_.nprobe + i].live;
    }
    return live == case_.k * std::max<std::size_t>(case_.refine, 1);
  }

  struct Expected {
    std::vector<std::vector<Hit>> hits;
    std::vector<ProbedList> probed;
    std::vector<float> left;
  };

  Expected expect(std::size_t refine) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      given_[r].positions = runs_[r].positions;
      given_[r].blocks = runs_[r].blocks;
      host_runs_[r].vectors = runs_[r].host_vectors;
    }
    HitTable best(case_.queries, case_.k);
    Expected expected;
    IvfWork work = work_;
    work.refine = refine;
    expected.probed.resize(case_.queries * case_.nprobe);
    expected.left.assign(case_.queries, std::numeric_limits<float>::infinity());
    work.probed = expected.probed.data();
    work.left = expected.left.data();
    IvfHostModel model{reinterpret_cast<const float*>(centroids_.bytes->data())};
    if (case_.shape.has_codebooks()) {
      model.codebooks = reinterpret_cast<const float*>(codebooks_.bytes->data());
    }
    if (case_.shape.groups != 0) model.coarse = coarse_.bytes.bytes->data();
    reference_ivf_nearest(work, model, host_runs_, best);
    for (std::size_t q = 0; q < case_.queries; ++q) expected.hits.push_back(best.list(q));
    return expected;
  }

  Expected expected_, expected_of_all_;  // by candidates; of all rows of the lists
};

// What a device of inverted files of a shape answers on_each_device().
inline auto ivf_of(const IvfShape& shape) {
  return [shape](const Device& device) { return device.supports_ivf(shape); };
}

inline void check_everywhere(const Case& c) {
  World world(c);
  on_each_device(
      ivf_of(c.shape), [&](const Candidate& candidate) { world.check(candidate); }, describe(c));
}

}  // namespace warplite::testing::ivf
