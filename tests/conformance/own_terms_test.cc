// Queries that have ranges, rows and k of their own, on every device that takes them, against the reference.
#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/elements.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Words = std::vector<std::uint64_t>;

class Case {
 public:
  Case(ElementType type, Distance distance, std::size_t queries, std::uint64_t seed)
      : random_(seed), dim_(is_bits(type) ? 64 : turn<std::uint32_t>({8, 40, 72}, seed)) {
    work_.distance = distance;
    vectors_ = make_vectors(type, kRows * kBlocks);
    queries_ = make_vectors(type, queries);
    work_.queries = {queries_.data(), queries, dim_, type};
    for (std::size_t b = 0; b < kBlocks; ++b) {
      HostBlock host;
      host.block.rows = kRows;
      host.block.id = static_cast<std::uint32_t>(3 * b);
      host.block.rowids.first = static_cast<RowId>(10000 * b);
      host.vectors = vectors_.data() + b * kRows * work_.queries.stride();
      blocks_.push_back(host);
    }
    for (std::size_t q = 0; q < queries; ++q) make_query(q);
    unite();
    for (std::size_t q = 0; q < queries; ++q) {
      if (!pointers_[q].empty()) own_[q].live = pointers_[q].data();
    }
    work_.own = own_;
  }

  void expect() {
    HitTable best(ks_);
    reference_nearest(work_, blocks_, best);
    for (std::size_t q = 0; q < ks_.size(); ++q) nearest_.push_back(best.list(q));
    within_.resize(ks_.size());
    reference_within(work_, blocks_, within_);
    for (auto& hits : within_) std::sort(hits.begin(), hits.end());
  }

  void check(Device& device) {
    std::vector<Block> given;
    std::vector<std::shared_ptr<const Buffer>> buffers(kBlocks);
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const HostBytes bytes{nullptr, blocks_[b].vectors, kRows * work_.queries.stride()};
      REQUIRE(device.make_resident(bytes, &buffers[b]).ok());
      given.push_back(blocks_[b].block);
      given.back().vectors = buffers[b].get();
    }
    work_.blocks = given;
    HitTable best(ks_);
    REQUIRE(device.nearest(work_, best).ok());
    HitLists lists(ks_.size());
    REQUIRE(device.within(work_, lists).ok());
    for (std::size_t q = 0; q < ks_.size(); ++q) {
      expect_hits(nearest_[q], best.sorted(q), q);
      std::sort(lists[q].begin(), lists[q].end());
      expect_hits(within_[q], lists[q], q);
    }
  }

 private:
  static constexpr std::uint32_t kRows = 700;
  static constexpr std::size_t kBlocks = 2;

  std::vector<std::byte> make_vectors(ElementType type, std::size_t count) {
    const std::size_t stride = bytes_per_vector(type, dim_);
    std::vector<std::byte> out(count * stride);
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* const to = out.data() + i * stride;
      if (is_bits(type)) {
        const std::uint64_t bits = random_();
        std::memcpy(to, &bits, sizeof bits);
        continue;
      }
      with_numbers(type, [&]<ElementType kType>() {
        for (std::uint32_t e = 0; e < dim_; ++e) {
          const int value = static_cast<int>(random_() % 15) - 7;
          write_element<kType>(static_cast<float>(value), to, e);
        }
      });
    }
    return out;
  }

  // A few of them have no end, some a lower one; the nearest and the farthest are never within.
  void make_query(std::size_t q) {
    OwnTerms own;
    Workload one = work_;
    one.queries.data = work_.queries.row(q);
    one.queries.rows = 1;
    HitTable ranked(1, kRows * kBlocks);
    reference_nearest(one, blocks_, ranked);
    const std::span<const Hit> all = ranked.sorted(0);
    if (random_() % 4 != 0) own.range.high = all[random_() % all.size()].distance;
    if (random_() % 4 == 0) own.range.low = all[random_() % 50].distance;
    own.range.low_open = random_() % 2 == 0;
    own.range.high_open = random_() % 2 == 0;
    own_.push_back(own);
    ks_.push_back(turn<std::size_t>({1, 10, 60, 200, 0}, random_()));
    make_rows(turn<int>({0, 1, 2, 3, 40}, random_()));
  }

  // One row in `one_in`, of one block all of them or none; 0: all of all blocks.
  void make_rows(int one_in) {
    std::vector<const std::uint64_t*> pointers;
    std::uint64_t rows = one_in == 0 ? kRows * kBlocks : 0;
    const std::size_t whole = random_() % 3;
    for (std::size_t b = 0; b < kBlocks && one_in != 0; ++b) {
      if (b == whole) {
        pointers.push_back(nullptr);
        rows += kRows;
        continue;
      }
      words_.push_back(std::make_unique<Words>((kRows + 63) / 64));
      for (std::uint32_t row = 0; row < kRows; ++row) {
        const bool lives = !(whole == 2 && b == 0) && random_() % static_cast<unsigned>(one_in) == 0;
        (*words_.back())[row / 64] |= std::uint64_t{lives} << (row % 64);
        rows += lives;
      }
      pointers.push_back(words_.back()->data());
    }
    pointers_.push_back(std::move(pointers));
    own_.back().live_rows = rows;
  }

  // The blocks' own rows are those of all queries.
  void unite() {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      words_.push_back(std::make_unique<Words>((kRows + 63) / 64));
      Words& all = *words_.back();
      bool every = false;
      for (const auto& pointers : pointers_) {
        every |= pointers.empty() || pointers[b] == nullptr;
        for (std::size_t i = 0; i < all.size() && !every; ++i) all[i] |= pointers[b][i];
      }
      Block& block = blocks_[b].block;
      block.live_rows = kRows;
      if (every) continue;
      block.live = all.data();
      block.live_rows = 0;
      for (std::uint32_t row = 0; row < kRows; ++row) {
        block.live_rows += static_cast<std::uint32_t>(all[row / 64] >> (row % 64) & 1);
      }
    }
  }

  std::mt19937_64 random_;
  const std::uint32_t dim_;
  Workload work_;
  std::vector<std::byte> vectors_, queries_;
  std::vector<HostBlock> blocks_;
  std::vector<OwnTerms> own_;
  std::vector<std::size_t> ks_;
  std::vector<std::vector<const std::uint64_t*>> pointers_;
  std::vector<std::unique_ptr<Words>> words_;
  std::vector<std::vector<Hit>> nearest_;
  HitLists within_;
};

}  // namespace

TEST_CASE("own terms: each query has the rows, the range and the k that it asks for") {
  const Restore restore;
  std::uint64_t seed = 0;
  for (const ElementInfo& element : kElementTypes) {
    for (const DistanceInfo& row : kDistances) {
      if (!applies(row.distance, element.type)) continue;
      for (const std::size_t queries : {2, 5, 17, 40}) {
        Case current(element.type, row.distance, queries, ++seed);
        current.expect();
        const auto check = [&](const Candidate& candidate) { current.check(*candidate.device); };
        on_each_device(&Device::takes_own_terms, check,
                       std::string(row.name) + " seed " + std::to_string(seed));
      }
    }
  }
}
