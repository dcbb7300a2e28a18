// Passes of k-means over resident rows, on every device that makes them: the same bits as the
// obvious way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "compute/device.h"
#include "core/bitmap.h"
#include "core/elements.h"
#include "index/clustering/tally.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Random = std::mt19937_64;

enum class Data { kAny, kFewIntegers, kSame, kZeros, kSizes, kCount };

struct Case {
  ElementType type = ElementType::kFloat32;
  bool normalised = false;
  std::uint32_t dim = 8, lists = 20;
  std::vector<std::uint32_t> blocks = {100};  // rows
  int live = 1;                               // one row in so many lives, about
  Data data = Data::kAny;
  std::uint64_t seed = 1;
};

float number(const Case& c, Random& random) {
  const double any = std::uniform_real_distribution<double>(-3, 3)(random);
  switch (c.data) {
    case Data::kFewIntegers:
      return static_cast<float>(std::round(any));
    case Data::kSame:
      return 0.5f;
    case Data::kZeros:
      return 0;
    default:
      return static_cast<float>(any);
  }
}

// Blocks of rows, and centroids of which some are rows.
class World {
 public:
  explicit World(const Case& c) : case_(c) {
    Random random(c.seed);
    const std::size_t stride = bytes_per_vector(c.type, c.dim);
    for (const std::uint32_t rows : c.blocks) {
      auto& bytes = bytes_.emplace_back(std::make_shared<std::vector<std::byte>>(rows * stride));
      Bitmap& live = live_.emplace_back(rows, true);
      for (std::uint32_t row = 0; row < rows; ++row) {
        const int exponent = c.data == Data::kSizes ? static_cast<int>(random() % 20) - 10 : 0;
        const float size = std::ldexp(1.0f, exponent);
        with_numbers(c.type, [&]<ElementType kType>() {
          for (std::uint32_t d = 0; d < c.dim; ++d) {
            const float value = std::clamp(number(c, random) * size, -100.0f, 100.0f);
            write_element<kType>(value, bytes->data() + row * stride, d);
          }
        });
        if (c.live != 1 && random() % static_cast<unsigned>(c.live) != 0) live.reset(row);
      }
      Block block;
      block.host = bytes->data();
      block.rows = rows;
      block.id = static_cast<std::uint32_t>(7 + 3 * live_.size());
      blocks_.push_back(block);
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i].live_rows = static_cast<std::uint32_t>(live_[i].count());
      if (c.live != 1) blocks_[i].live = live_[i].words();
    }
    for (std::uint32_t i = 0; i < c.lists * c.dim; ++i) centroids_.push_back(number(c, random));
  }

  TallyWork work() const {
    TallyWork work;
    work.blocks = blocks_;
    work.type = case_.type;
    work.normalised = case_.normalised;
    work.dim = case_.dim;
    work.lists = case_.lists;
    return work;
  }

  // From something on, as a pass goes on from other blocks.
  ListTallies begun() const {
    ListTallies tallies(case_.lists, case_.dim);
    if (case_.seed % 2 == 0) return tallies;
    for (std::size_t i = 0; i < tallies.sums.size(); ++i) tallies.sums[i] = 1.0 / (1.0 + i);
    tallies.squares.assign(case_.lists, 0.1);
    tallies.counts.assign(case_.lists, 2);
    tallies.farthest.assign(case_.lists, {1.5, 3, 1});
    return tallies;
  }
  ListTallies expected() const {
    ListTallies tallies = begun();
    reference_tally(work(), centroids_.data(), tallies);
    return tallies;
  }

  // By whatever way the device has; `offered`: whether it adds up rows itself. `turn`: of those
  // that add to `tallies`; null: nobody else does.
  ListTallies found(Device& device, bool& offered) const {
    ListTallies tallies = begun();
    find(device, nullptr, tallies, offered);
    return tallies;
  }
  void find(Device& device, TallyTurn* turn, ListTallies& tallies, bool& offered) const {
    std::vector<std::shared_ptr<const Buffer>> buffers;
    std::vector<Block> blocks = blocks_;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      device
          .make_resident({bytes_[i], bytes_[i]->data(), bytes_[i]->size()}, &buffers.emplace_back())
          .raise();
      blocks[i].vectors = buffers.back().get();
    }
    std::shared_ptr<const Buffer> centroids;
    device
        .make_resident({nullptr, reinterpret_cast<const std::byte*>(centroids_.data()),
                        centroids_.size() * sizeof(float)},
                       &centroids)
        .raise();
    TallyWork resident = work();
    resident.blocks = blocks;
    resident.centroids = centroids.get();
    resident.turn = turn;
    const Status status = device.tally(resident, tallies);
    offered = status.kind != ErrorKind::kUnsupported;
    if (offered) {
      REQUIRE_MESSAGE(status.ok(), status.message);
      return;
    }
    const index::Progress silent;
    const index::TrainingTask task(device, nullptr, silent);
    TallyWork read = work();
    read.turn = turn;
    index::TallyPass(task, centroids_.data(), case_.lists, case_.dim).add(read, false, tallies);
  }

 private:
  const Case case_;
  std::vector<std::shared_ptr<std::vector<std::byte>>> bytes_;
  std::vector<Bitmap> live_;
  std::vector<Block> blocks_;
  std::vector<float> centroids_;
};

void check_equal(const ListTallies& found, const ListTallies& expected) {
  const auto same_bits = [](const std::vector<double>& a, const std::vector<double>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
  };
  CHECK(found.counts == expected.counts);
  CHECK(same_bits(found.sums, expected.sums));
  CHECK(same_bits(found.squares, expected.squares));
  std::size_t differ = 0;
  for (std::size_t i = 0; i < expected.farthest.size(); ++i) {
    const ListTallies::Row &a = found.farthest[i], &b = expected.farthest[i];
    differ += a.distance != b.distance || a.block != b.block || a.row != b.row ? 1 : 0;
  }
  CHECK(differ == 0);
}

// A turn whose lists get what comes before only when it is asked for, and are taken away when it is
// passed on.
class StrictTurn : public TallyTurn {
 public:
  StrictTurn(const ListTallies& before, ListTallies& shared)
      : before_(before), shared_(shared), taken(before) {}

  bool await(std::uint32_t end) override {
    if (end < asked_) return false;
    move_lists(before_, shared_, asked_, end);
    asked_ = end;
    return true;
  }
  void pass_on(std::uint32_t end) override {
    in_order &= end >= passed && end <= asked_;
    move_lists(shared_, taken, passed, end);
    const double nothing = std::nan("");
    for (std::uint32_t list = passed; list < end; ++list) shared_.squares[list] = nothing;
    passed = end;
  }

  static void move_lists(const ListTallies& from, ListTallies& to, std::uint32_t first,
                         std::uint32_t end) {
    const std::size_t dim = from.sums.size() / from.counts.size();
    for (std::size_t list = first; list < end; ++list) {
      to.counts[list] = from.counts[list];
      to.squares[list] = from.squares[list];
      to.farthest[list] = from.farthest[list];
      std::copy_n(&from.sums[list * dim], dim, &to.sums[list * dim]);
    }
  }

 private:
  const ListTallies before_;
  ListTallies& shared_;
  std::uint32_t asked_ = 0;

 public:
  ListTallies taken;
  std::uint32_t passed = 0;
  bool in_order = true;
};

void check_in_turn(const Case& c) {
  const World world(c);
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, " lists ", c.lists, " seed ", c.seed);
    candidate.prepare();
    ListTallies shared(c.lists, c.dim);
    StrictTurn turn(world.begun(), shared);
    bool offered = false;
    world.find(*candidate.device, &turn, shared, offered);
    if (!offered) turn.pass_on(c.lists);  // whoever has the host add them up does so
    CHECK(turn.in_order);
    CHECK(turn.passed == c.lists);
    check_equal(turn.taken, world.expected());
  }
}

void check(const Case& c) {
  const World world(c);
  const ListTallies expected = world.expected();
  for (const Candidate& candidate : conformance_devices()) {
    INFO(candidate.name, " type ", static_cast<int>(c.type), " normalised ", c.normalised, " dim ",
         c.dim, " lists ", c.lists, " blocks ", c.blocks.size(), " live ", c.live, " data ",
         static_cast<int>(c.data), " seed ", c.seed);
    candidate.prepare();
    bool offered = false;
    check_equal(world.found(*candidate.device, offered), expected);
    // One that has memory of its own adds up what lies there.
    CHECK(offered == candidate.device->own_memory());
  }
}

}  // namespace

TEST_CASE("tally: every type, dimension and filter, whatever the vectors") {
  const Restore restore;
  const std::uint32_t dims[] = {1, 3, 8, 100, 127, 128, 129, 300};
  const std::uint32_t lists[] = {1, 2, 20, 300, 1100};
  const std::vector<std::uint32_t> blocks[] = {{1}, {64, 1, 200}, {500}, {33, 700, 5}};
  const int live[] = {1, 2, 9};
  std::uint64_t seed = 0;
  for (const ElementInfo& row : kElementTypes) {
    if (is_bits(row.type)) continue;
    for (int data = 0; data < static_cast<int>(Data::kCount); ++data) {
      for (int i = 0; i < 4; ++i, ++seed) {
        check({row.type, seed % 3 == 0, dims[seed % 8], lists[seed % 5], blocks[seed % 4],
               live[seed % 3], static_cast<Data>(data), seed});
      }
    }
  }
}

TEST_CASE("tally: many rows, few and many lists") {
  const Restore restore;
  check({ElementType::kFloat32, false, 16, 3, {9000, 9000}, 1, Data::kAny, 3});
  check({ElementType::kFloat16, true, 33, 700, {4000, 5000}, 3, Data::kAny, 4});
  check({ElementType::kFloat32, true, 8, 64, {20000}, 1, Data::kSizes, 5});
}

TEST_CASE("tally: rows none of which lives") {
  const Restore restore;
  check({ElementType::kFloat32, false, 4, 5, {100, 20}, 1000000, Data::kAny, 6});
}

TEST_CASE("tally: lists are added to in turn, and left alone then") {
  const Restore restore;
  for (const std::uint32_t lists : {1, 7, 8, 9, 300}) {
    check_in_turn({ElementType::kFloat32, false, 16, lists, {900, 33}, 1, Data::kSizes, 7});
    check_in_turn({ElementType::kFloat16, true, 129, lists, {500}, 2, Data::kAny, 9});
  }
}
