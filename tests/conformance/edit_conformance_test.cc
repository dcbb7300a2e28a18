#include <algorithm>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "compute/device.h"
#include "core/utf8.h"
#include "index/metric/text_metric.h"
#include "index/tiles/edit_tile.h"
#include "tests/reference/reference.h"
#include "tests/support/conformance_checks.h"
#include "tests/support/conformance_devices.h"
#include "tests/support/conformance_tiles.h"
#include "tests/support/long_run.h"
#include "tests/support/tile_checks.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing;

namespace {

using Random = std::mt19937_64;

// kRandom: characters by chance. kChanged: a few texts, with some characters changed; queries too.
// kEqual: a few texts, many times. kRuns: one character again and again, and a few others.
enum class Data { kRandom, kChanged, kEqual, kRuns, kCount };

// What a case is; everything is derived from it and the seed.
struct Case {
  Data data = Data::kChanged;
  std::uint32_t alphabet = 26;
  std::vector<std::uint32_t> tile_rows = {300};
  std::size_t least = 0, longest = 20;                // code points of texts
  std::vector<std::size_t> query_lengths = {9, 0, 33};  // take turns
  std::size_t queries = 3, k = 10;
  int filter = 0;  // 0: none; n: about one row in n lives; −1: none lives
  int without = 0;  // n: about one row in n has no text
  bool wide = false;  // some texts together have more characters than symbols of two bytes tell
  DistanceRange range = {};
  double threshold = std::numeric_limits<double>::infinity();  // that is there before
  std::uint64_t seed = 1;
};

std::string describe(const Case& c) {
  std::ostringstream text;
  text << "data " << static_cast<int>(c.data) << " alphabet " << c.alphabet << " tiles "
       << c.tile_rows.size() << " of " << c.tile_rows.front() << "… rows, texts of " << c.least
       << " to " << c.longest << ", queries " << c.queries << " of " << c.query_lengths.front()
       << "… filter " << c.filter << " without " << c.without << " k " << c.k << " range "
       << c.range.low << " to " << c.range.high << " threshold " << c.threshold << " wide "
       << c.wide << " seed " << c.seed;
  return text.str();
}

struct TileData {
  std::shared_ptr<index::EditTexts> texts;
  std::shared_ptr<const Buffer> buffer;
  TileRows rows;
};

class World {
 public:
  explicit World(const Case& c) : case_(c), random_(c.seed) {
    for (int i = 0; i < 8; ++i) seeds_.push_back(some_text(length()));
    for (std::size_t t = 0; t < c.tile_rows.size(); ++t) make_tile(t);
    make_queries();
  }

  void expect() {
    HitTable best = empty_table();
    reference_edit_nearest(work_, host_tiles_, best);
    within_.resize(case_.queries);
    reference_edit_within(work_, host_tiles_, within_);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      nearest_.push_back(best.list(q));
      std::sort(within_[q].begin(), within_[q].end());
    }
  }

  void check(const Candidate& candidate) {
    check(*candidate.device, nullptr);
    // Metric indexes change no result; edit_metric_test.cc has long texts.
    if (case_.wide || case_.longest > 400 || case_.tile_rows[0] > 1000) return;
    const std::uint32_t sizes[] = {32, 1, 33, 7, 1000};
    const double alphas[] = {0.5, 0.1, 1, 0.3};
    INFO("cluster size ", sizes[case_.seed % 5], " alpha ", alphas[case_.seed % 4]);
    check(*candidate.device, index::make_text_clusters(sizes[case_.seed % 5]).get());
    check(*candidate.device, index::make_text_pivots(alphas[case_.seed % 4]).get());
  }

  void check(Device& device, const TextMetricBuilder* metric) {
    HitTable best = empty_table();
    work_on(device);
    work_.metric = metric;
    Status status = device.edit_nearest(work_, best);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < case_.queries; ++q) expect_hits(nearest_[q], best.sorted(q), q);
    HitLists lists(case_.queries);
    status = device.edit_within(work_, lists);
    REQUIRE_MESSAGE(status.ok(), status.message);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      std::sort(lists[q].begin(), lists[q].end());
      expect_hits(within_[q], lists[q], q);
    }
  }

  // The work with everything resident. Valid until the next one.
  const EditWork& work_on(Device& device) {
    work_.metric = nullptr;
    for (std::size_t t = 0; t < data_.size(); ++t) {
      const std::shared_ptr<index::EditTexts>& texts = data_[t].texts;
      const Status status = device.make_resident({texts, texts->bytes.data(), texts->bytes.size()},
                                                 &data_[t].buffer);
      REQUIRE_MESSAGE(status.ok(), status.message);
      tiles_[t].bytes = data_[t].buffer.get();
      tiles_[t].host = texts->bytes.data();
    }
    return work_;
  }

  const std::vector<Hit>& nearest(std::size_t query) const { return nearest_[query]; }

 private:
  std::size_t length() { return case_.least + random_() % (case_.longest - case_.least + 1); }

  // Characters far from each other, of all planes when there are many.
  std::uint32_t character() {
    const auto number = static_cast<std::uint32_t>(
        case_.data == Data::kRuns && random_() % 8 != 0 ? 0 : random_() % case_.alphabet);
    return case_.alphabet <= 26 ? 'a' + number : number * 15 + 1;
  }
  CodePoints some_text(std::size_t size) {
    CodePoints text(size);
    for (std::uint32_t& point : text) point = character();
    return text;
  }
  // Inserts, removes, replaces.
  void change(CodePoints& text, std::size_t changes) {
    for (; changes > 0; --changes) {
      const auto at = text.begin() + static_cast<std::ptrdiff_t>(random_() % (text.size() + 1));
      const auto kind = random_() % 3;
      if (kind == 0 || at == text.end()) {
        text.insert(at, character());
      } else if (kind == 1) {
        text.erase(at);
      } else {
        *at = character();
      }
    }
  }

  CodePoints text_of_row(std::uint32_t row) {
    if (case_.wide && row < kWideRows) {
      CodePoints text(kLongestEditText);
      for (std::uint32_t i = 0; i < kLongestEditText; ++i) {
        text[i] = (row * kLongestEditText + i) * 15 + 1;
      }
      return text;
    }
    if (case_.data == Data::kRandom || case_.data == Data::kRuns) return some_text(length());
    CodePoints text = seeds_[random_() % seeds_.size()];
    if (case_.data == Data::kChanged) change(text, random_() % (2 + text.size() / 4));
    text.resize(std::min<std::size_t>(text.size(), kLongestEditText));
    return text;
  }

  CodePoints query(std::size_t i) {
    const std::size_t size = case_.query_lengths[i % case_.query_lengths.size()];
    CodePoints text = some_text(size);
    if (case_.data == Data::kRandom || case_.data == Data::kRuns) return text;
    // Like one of the texts, as long as it goes.
    const CodePoints& seed = seeds_[random_() % seeds_.size()];
    std::copy_n(seed.begin(), std::min(seed.size(), size), text.begin());
    if (size != 0 && i % 3 != 0) text[random_() % size] = i % 2 == 0 ? character() : 0x2603;
    return text;
  }

  void make_tile(std::size_t t) {
    const std::uint32_t rows = case_.tile_rows[t];
    TileData& data = data_.emplace_back(TileData{
        nullptr, nullptr, TileRows(rows, t, case_.tile_rows.size(), case_.filter, random_)});
    index::EditTileBuilder builder;
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (case_.without != 0 && random_() % case_.without == 0) {
        builder.skip_row();
      } else {
        builder.add_row(text_of_row(row));
      }
    }
    data.texts = std::make_shared<index::EditTexts>(builder.finish());
    EditTile tile;
    data.rows.describe(tile);
    tile.alphabet = data.texts->alphabet;
    tile.texts = data.texts->texts;
    tile.positions = data.texts->positions;
    tile.width = data.texts->width;
    if (case_.wide) REQUIRE(tile.width == 4);
    check_edit_tile({data.texts->bytes.data(), data.texts->bytes.size()}, tile);
    tiles_.push_back(tile);
    host_tiles_.push_back(data.texts->bytes.data());
  }

  void make_queries() {
    begins_.push_back(0);
    for (std::size_t q = 0; q < case_.queries; ++q) {
      const CodePoints points = query(q);
      points_.insert(points_.end(), points.begin(), points.end());
      begins_.push_back(static_cast<std::uint32_t>(points_.size()));
    }
    work_.tiles = tiles_;
    work_.begins = begins_;
    work_.points = points_;
    work_.range = case_.range;
  }

  HitTable empty_table() const {
    HitTable table(case_.queries, case_.k);
    for (std::size_t q = 0; q < case_.queries; ++q) table.row(q).tighten(case_.threshold);
    return table;
  }

  static constexpr std::uint32_t kWideRows = 17;

  const Case case_;
  Random random_;
  std::vector<CodePoints> seeds_;
  std::vector<TileData> data_;
  std::vector<EditTile> tiles_;
  std::vector<const std::byte*> host_tiles_;
  std::vector<std::uint32_t> begins_, points_;
  EditWork work_;
  std::vector<std::vector<Hit>> nearest_;
  HitLists within_;
};

void check_everywhere(const Case& c) {
  World world(c);
  world.expect();
  on_each_device(&Device::supports_edit, [&](const Candidate& candidate) { world.check(candidate); },
                 describe(c));
}

DistanceRange make_range(std::uint64_t n) {
  DistanceRange range;
  switch (n % 7) {
    case 0: range.high = static_cast<double>(n % 5); break;
    case 1: range.low = 3; break;
    case 2: range = {2, 7.5, false, false}; break;
    case 3: range = {2, 7, true, true}; break;
    case 4: range.high = -1; break;
    default: break;
  }
  return range;
}

Case make_case(std::uint64_t n) {
  Case c;
  c.data = static_cast<Data>(n % static_cast<std::uint64_t>(Data::kCount));
  c.alphabet = turn<std::uint32_t>({26, 2, 4, 300, 26, 70000}, n / 2);
  c.tile_rows = turn<std::vector<std::uint32_t>>(
      {{300}, {1}, {31, 32, 33}, {0, 64, 0, 65}, {200, 1}, {63}, {70, 70, 70, 70, 70}}, n);
  std::tie(c.least, c.longest) = turn<std::pair<std::size_t, std::size_t>>(
      {{0, 12}, {4, 16}, {0, 40}, {60, 70}, {0, 2}, {90, 150}, {30, 34}, {17, 17}}, n / 3);
  c.query_lengths = turn<std::vector<std::size_t>>(
      {{9, 0, 33}, {1, 8, 15}, {16, 17, 12}, {31, 32}, {63, 64, 65}, {200}, {127, 128, 129}},
      n / 2);
  c.queries = turn<std::size_t>({3, 1, 2, 5, 1, 40}, n);
  c.k = turn<std::size_t>({10, 1, 3, 1000, 32}, n / 4);
  c.filter = turn<int>({0, 0, 2, 5, 0, 40, 1, -1}, n);
  c.without = turn<int>({0, 5, 0, 2, 0, 1}, n / 5);
  c.range = make_range(n / 2);
  if (n % 6 == 5) c.threshold = static_cast<double>(n % 11);
  c.seed = n + 1;
  return c;
}

}  // namespace

TEST_CASE("edit: every kind of texts and queries gives the reference's hits") {
  const Restore restore;
  for (std::uint64_t n = 0; n < 336; ++n) {
    if (due(n, 3)) check_everywhere(make_case(n));
  }
}

TEST_CASE("edit: many texts, lengths of words and of titles") {
  const Restore restore;
  std::uint64_t n = 1000;
  for (const std::uint32_t alphabet : {2, 30, 1000, 70000}) {
    Case c = make_case(n++);
    c.data = turn<Data>({Data::kChanged, Data::kRandom}, n);
    c.alphabet = alphabet;
    c.tile_rows = {2500, 777};
    c.least = n % 2 == 0 ? 2 : 10;
    c.longest = n % 2 == 0 ? 18 : 100;
    c.query_lengths = {10, 70};
    c.queries = 2;
    c.filter = n % 2 == 0 ? 3 : 0;
    c.without = 0;
    c.threshold = std::numeric_limits<double>::infinity();
    for (const std::size_t k : {1, 10, 1000, 10000}) {
      c.k = k;
      c.range = k == 10 ? DistanceRange{.high = 6} : DistanceRange{};
      check_everywhere(c);
    }
  }
}

TEST_CASE("edit: the longest texts, and queries beyond them") {
  const Restore restore;
  std::uint64_t n = 2000;
  for (const std::size_t length : {1, 200, 700, 5000}) {
    for (const std::uint32_t alphabet : {4, 70000}) {
      Case c = make_case(n++);
      c.data = turn<Data>({Data::kChanged, Data::kRandom, Data::kRuns}, n);
      c.alphabet = alphabet;
      c.tile_rows = {2};
      c.longest = length == 5000 ? 400 : kLongestEditText;
      c.least = c.longest - 96;
      c.query_lengths = {length};
      c.queries = 1;
      c.filter = c.without = 0;
      c.threshold = std::numeric_limits<double>::infinity();
      c.range = n % 2 == 0 ? DistanceRange{.high = 3000} : DistanceRange{};
      check_everywhere(c);
    }
  }
}

TEST_CASE("edit: symbols of four bytes") {
  const Restore restore;
  std::uint64_t n = 2500;
  for (const std::uint32_t alphabet : {26, 300, 70000}) {
    Case c = make_case(n++);
    c.data = turn<Data>({Data::kChanged, Data::kRandom}, n);
    c.alphabet = alphabet;
    c.wide = true;
    c.tile_rows = {150, 40};
    c.least = 0;
    c.longest = 40;
    c.query_lengths = {9, 33};
    c.queries = 4;
    c.without = 0;
    c.filter = n % 2 == 0 ? 2 : 0;
    c.threshold = std::numeric_limits<double>::infinity();
    c.range = n % 3 == 0 ? DistanceRange{.high = 30} : DistanceRange{};
    check_everywhere(c);
  }
}

TEST_CASE("edit: thresholds and ranges at the distances there are") {
  const Restore restore;
  std::uint64_t n = 3000;
  for (const std::size_t k : {1, 2, 7, 64, 500}) {
    for (const Data data : {Data::kEqual, Data::kChanged, Data::kRuns}) {
      for (const double threshold : {0.0, 1.0, 2.5, 4.0, 1e9}) {
        Case c = make_case(n++);
        c.data = data;
        c.k = k;
        c.threshold = threshold;
        c.range = n % 3 == 0 ? DistanceRange{.high = 2} : DistanceRange{};
        c.alphabet = 3;
        c.least = 3;
        c.longest = 9;
        c.query_lengths = {6, 3, 9};
        c.queries = 3;
        c.without = 0;
        c.tile_rows = {100, 100, 100};
        check_everywhere(c);
      }
    }
  }
}

TEST_CASE("edit: a search adds to what the table and the lists hold") {
  const Restore restore;
  Case c;
  c.queries = 2;
  c.k = 2;
  c.query_lengths = {5};
  c.least = 4;
  World world(c);
  world.expect();
  REQUIRE(world.nearest(0).size() == 2);
  on_each_device(&Device::supports_edit, [&](const Candidate& candidate) {
    const EditWork& work = world.work_on(*candidate.device);
    expect_added(c.queries, world.nearest(0)[0].rowid, [&](HitTable& best) {
      const Status status = candidate.device->edit_nearest(work, best);
      CHECK(best.sorted(1).size() == 2);
      return status;
    });
    const Hit near{-1, 4200, 7, 3};
    HitLists lists(c.queries);
    lists[1].push_back(near);
    REQUIRE(candidate.device->edit_within(work, lists).ok());
    CHECK(lists[0].size() == c.tile_rows[0]);
    REQUIRE(lists[1].size() == c.tile_rows[0] + 1);
    CHECK(lists[1][0].rowid == near.rowid);
  });
}

TEST_CASE("edit: nothing to search") {
  const Restore restore;
  on_each_device(&Device::supports_edit, [&](const Candidate& candidate) {
    const std::vector<std::uint32_t> begins{0};
    EditWork work;
    work.begins = begins;
    HitTable none(0, 5);
    HitLists no_lists;
    CHECK(candidate.device->edit_nearest(work, none).ok());
    CHECK(candidate.device->edit_within(work, no_lists).ok());
    const std::vector<std::uint32_t> two{0, 1, 1};
    const std::uint32_t point = 'a';
    work.begins = two;
    work.points = {&point, 1};
    HitTable best(2, 5), no_hits(2, 0);
    HitLists lists(2);
    CHECK(candidate.device->edit_nearest(work, best).ok());
    CHECK(best.sorted(0).empty());
    CHECK(candidate.device->edit_nearest(work, no_hits).ok());
    CHECK(candidate.device->edit_within(work, lists).ok());
    CHECK(lists[0].empty());
  });
}

TEST_CASE("edit: a cancelled search ends soon and says so") {
  const Restore restore;
  for (const bool many : {true, false}) {
    // Once many short queries, once a long one; each for many seconds.
    Case c;
    c.alphabet = 4;
    c.tile_rows = {many ? 20000u : 3000u};
    c.least = many ? 60 : 4000;
    c.longest = many ? 70 : kLongestEditText;
    c.query_lengths = {many ? std::size_t{64} : std::size_t{100000}};
    c.queries = many ? 20000 : 1;
    c.data = Data::kRandom;
    World world(c);
    on_each_device(&Device::supports_edit, [&](const Candidate& candidate) {
      CountingCancellation cancellation(candidate.asks);
      EditWork work = world.work_on(*candidate.device);
      work.cancellation = &cancellation;
      HitTable best(work.queries(), 10);
      expect_interrupted([&] { return candidate.device->edit_nearest(work, best); });
      HitLists lists(work.queries());
      CHECK(candidate.device->edit_within(work, lists).kind == ErrorKind::kInterrupted);
    });
  }
}
