// What metric indexes of texts are made of: their groups, clusters and pivots.
#include <algorithm>
#include <doctest/doctest.h>
#include <vector>

#include "compute/device.h"
#include "cpu/cpu_device.h"
#include "index/metric/text_metric.h"
#include "tests/conformance/edit_tile.h"
#include "tests/support/conformance_devices.h"

using namespace warplite;
using namespace warplite::compute;
using namespace warplite::testing::edit;
using warplite::testing::Candidate;
using warplite::testing::conformance_devices;
using warplite::testing::Restore;

namespace {

std::size_t distance_of(const CodePoints& a, const CodePoints& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// The text at a place of an index, by characters.
CodePoints text_at(const Tile& tile, const MetricTexts& texts, std::size_t place) {
  const auto* alphabet = reinterpret_cast<const std::uint32_t*>(tile.made->bytes.data());
  const std::uint32_t width = tile.tile.width;
  const std::byte* const group = texts.group(place / kEditGroup, width);
  CodePoints out;
  for (std::size_t i = 0; i < texts.lengths[place]; ++i) {
    const std::size_t at = i * kEditGroup + place % kEditGroup;
    if (width == 1) out.push_back(alphabet[reinterpret_cast<const std::uint8_t*>(group)[at]]);
    if (width == 2) out.push_back(alphabet[reinterpret_cast<const std::uint16_t*>(group)[at]]);
    if (width == 4) out.push_back(reinterpret_cast<const std::uint32_t*>(group)[at]);
  }
  return out;
}

// Distances between rows of a tile, each computed once for all indexes of it.
class RowDistances {
 public:
  explicit RowDistances(const Tile& tile)
      : texts_(tile.texts), known_(texts_.size() * texts_.size(), kUnknown) {}

  std::size_t operator()(std::size_t a, std::size_t b) {
    std::size_t& known = known_[std::min(a, b) * texts_.size() + std::max(a, b)];
    if (known == kUnknown) known = distance_of(texts_[a], texts_[b]);
    return known;
  }
  // A row that has this text.
  std::size_t row_of(const CodePoints& text) const {
    const auto found = std::find(texts_.begin(), texts_.end(), text);
    REQUIRE(found != texts_.end());
    return static_cast<std::size_t>(found - texts_.begin());
  }

 private:
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);
  const Texts& texts_;
  std::vector<std::size_t> known_;
};

void check_clusters(const Tile& tile, RowDistances& distances, std::uint32_t size) {
  const auto cpu = cpu::make_cpu_device();
  const auto metric =
      index::make_text_clusters(size)->build(*cpu, tile.tile, tile.tile.host, nullptr);
  REQUIRE(metric->clusters != nullptr);
  REQUIRE(metric->pivots == nullptr);
  const TextClusters& clusters = *metric->clusters;
  const std::size_t count = tile.texts.size();
  REQUIRE(clusters.count == (count + size - 1) / size);
  REQUIRE(clusters.begins.size() == clusters.count + 1);
  REQUIRE(clusters.inner.size() == clusters.count);
  std::vector<std::size_t> sums(count);
  std::vector<char> seen(count);
  std::size_t left = count;
  for (std::uint32_t c = 0; c < clusters.count; ++c) {
    const CodePoints centre = text_at(tile, clusters.centres, c);
    const std::size_t first = std::size_t{clusters.begins[c]} * kEditGroup;
    std::size_t farthest_sum = 0, members = 0, nearest_left = MetricTexts::kNoText;
    for (std::size_t row = 0; row < count; ++row) {
      if (!seen[row]) farthest_sum = std::max(farthest_sum, sums[row]);
    }
    if (c == 0) CHECK(clusters.rows[first] == 0);
    const std::size_t centre_row = clusters.rows[first];
    CHECK(sums[centre_row] == farthest_sum);
    REQUIRE(centre == tile.texts[centre_row]);
    CHECK(text_at(tile, clusters.members, first) == centre);
    std::uint16_t before = 0;
    for (std::size_t at = first; at < clusters.begins[c + 1] * kEditGroup; ++at) {
      if (clusters.members.lengths[at] == MetricTexts::kNoText) continue;
      ++members;
      const std::uint16_t row = clusters.rows[at];
      REQUIRE_FALSE(seen[row]);
      seen[row] = 1;
      REQUIRE(text_at(tile, clusters.members, at) == tile.texts[row]);
      CHECK(clusters.rings[at] == distances(centre_row, row));
      CHECK(clusters.rings[at] >= before);
      before = clusters.rings[at];
    }
    CHECK(members == std::min<std::size_t>(size, left));
    left -= members;
    CHECK(clusters.cover[c] == before);
    for (std::size_t row = 0; row < count; ++row) {
      if (seen[row]) continue;
      const std::size_t distance = distances(centre_row, row);
      sums[row] += distance;
      nearest_left = std::min(nearest_left, distance);
    }
    CHECK(clusters.inner[c] == nearest_left);
    CHECK(clusters.inner[c] >= clusters.cover[c]);
  }
  CHECK(left == 0);
}

void check_pivots(const Tile& tile, RowDistances& distances, double alpha) {
  const auto cpu = cpu::make_cpu_device();
  const auto metric =
      index::make_text_pivots(alpha)->build(*cpu, tile.tile, tile.tile.host, nullptr);
  REQUIRE(metric->pivots != nullptr);
  REQUIRE(metric->clusters == nullptr);
  const TextPivots& pivots = *metric->pivots;
  const std::size_t places = pivots.rows.size();
  REQUIRE(places == pivots.members.lengths.size());
  REQUIRE(pivots.table.size() == pivots.count * places);
  std::vector<std::size_t> rows;  // of the pivots
  for (std::uint32_t p = 0; p < pivots.count; ++p) {
    rows.push_back(distances.row_of(text_at(tile, pivots.pivots, p)));
  }
  std::vector<char> seen(tile.texts.size());
  for (std::size_t at = 0; at < places; ++at) {
    if (pivots.members.lengths[at] == MetricTexts::kNoText) continue;
    const CodePoints text = text_at(tile, pivots.members, at);
    REQUIRE_FALSE(seen[pivots.rows[at]]);
    seen[pivots.rows[at]] = 1;
    REQUIRE(text == tile.texts[pivots.rows[at]]);
    for (std::uint32_t p = 0; p < pivots.count; ++p) {
      const std::size_t distance = distances(rows[p], pivots.rows[at]);
      CHECK(pivots.table[p * places + at] ==
            std::min<std::size_t>(distance, TextPivots::kFarthest));
    }
  }
  CHECK(std::count(seen.begin(), seen.end(), 0) == 0);
  if (tile.texts.empty()) return;
  CHECK(text_at(tile, pivots.pivots, 0) == tile.texts[0]);
  CHECK(pivots.count <= 64);
  // The largest distance is at least that from the first row, and twice that at most.
  std::size_t reach = 0;
  for (std::size_t row = 0; row < tile.texts.size(); ++row) {
    reach = std::max(reach, distances(0, row));
  }
  const double least = std::max(1.0, alpha * static_cast<double>(reach));
  for (std::uint32_t p = 0; p < pivots.count; ++p) {
    for (std::uint32_t other = 0; other < p; ++other) {
      CHECK(static_cast<double>(distances(rows[p], rows[other])) >= least);
    }
  }
  if (pivots.count == 64) return;
  for (std::size_t row = 0; row < tile.texts.size(); ++row) {
    std::size_t nearest = 100000;
    for (const std::size_t pivot : rows) nearest = std::min(nearest, distances(pivot, row));
    CHECK(static_cast<double>(nearest) < std::max(1.0, alpha * 2 * static_cast<double>(reach)));
  }
}

}  // namespace

TEST_CASE("edit metric: distances of a text to groups are those of the scalar device") {
  const Restore restore;
  for (Texts& texts : kinds_of_texts()) {
    if (texts.empty()) continue;
    const Tile tile(std::move(texts));
    const auto cpu = cpu::make_cpu_device();
    const auto metric =
        index::make_text_clusters(20)->build(*cpu, tile.tile, tile.tile.host, nullptr);
    const MetricTexts& members = metric->clusters->members;
    for (const std::size_t row : {std::size_t{0}, tile.texts.size() / 2}) {
      std::vector<std::uint32_t> text = tile.texts[row];
      const auto* alphabet = reinterpret_cast<const std::uint32_t*>(tile.made->bytes.data());
      for (std::uint32_t& point : text) {
        if (metric->width == 4) continue;
        point = static_cast<std::uint32_t>(
            std::lower_bound(alphabet, alphabet + tile.tile.alphabet, point) - alphabet);
      }
      std::vector<std::uint16_t> expected(members.lengths.size());
      cpu->Device::text_distances(text, members, metric->width, expected.data());
      for (const Candidate& candidate : conformance_devices()) {
        candidate.prepare();
        std::vector<std::uint16_t> found(members.lengths.size());
        candidate.device->text_distances(text, members, metric->width, found.data());
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (members.lengths[i] != MetricTexts::kNoText) REQUIRE(found[i] == expected[i]);
        }
      }
    }
  }
}

TEST_CASE("edit metric: clusters and pivots are what they say") {
  const Restore restore;
  for (Texts& texts : kinds_of_texts()) {
    const Tile tile(std::move(texts));
    RowDistances distances(tile);
    const bool slow = tile.made->positions > 1000;
    for (const std::uint32_t size : {1u, 31u, 32u, 33u, 100u, 70000u}) {
      if (!slow || size == 31) check_clusters(tile, distances, size);
    }
    for (const double alpha : {0.1, 0.4, 1.0}) {
      if (!slow || alpha == 0.4) check_pivots(tile, distances, alpha);
    }
  }
}
