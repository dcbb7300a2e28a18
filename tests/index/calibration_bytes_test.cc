// The bytes in which models keep what was measured of recall: they are read as they are written, as older
// versions wrote them too, and damage is found; and what is between the numbers that they hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "index/recall/calibration.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::index;
using namespace warplite::testing;

namespace {

ErrorKind opening(const Learnt& learnt, std::span<const std::byte> bytes) {
  try {
    learnt.trained().open(bytes);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kOk;
}

constexpr std::size_t kNoContrasts = 4;  // bytes of a calibration that does not tell queries apart, its last
// Where the bytes of a calibration say when it was measured.
constexpr std::size_t kDate = 40, kDateEnd = 56;

Calibration small() {
  Calibration calibration;
  calibration.lists = {{0.01f, 0.1f}, {1, 2, 4}, {{0.5f, 0.1f}, {0.75f, 0.1f}, {1, 0},
                                                  {0.25f, 0.2f}, {0.5f, 0.2f}, {1, 0}}};
  calibration.codes = {{0.01f}, {1}, {{0.5f, 0.125f}}};
  calibration.trained = {0.9f, 0.01f};
  calibration.present = {0.8f, 0.01f};
  calibration.usual_nprobe = 2;
  calibration.table = {std::uint64_t{5} << 33, 77};
  return calibration;
}

}  // namespace

TEST_CASE("ivf calibration: between what was measured, and beyond") {
  const Calibration::Table lists = small().lists;
  const auto part = [&](double share, double look) {
    return static_cast<double>(lists.at(share, look).part);
  };
  CHECK(part(0.01, 1) == 0.5);
  CHECK(part(0.001, 1) == 0.5);
  CHECK(part(0.01, 3) == 0.875);
  CHECK(part(std::sqrt(0.01 * 0.1), 2) == doctest::Approx(0.625));
  CHECK(part(0.0999999, 2) == doctest::Approx(0.5).epsilon(0.001));
  CHECK(part(0.01, 400) == 1);
  CHECK(part(0.2, 4) == 0);
  CHECK(part(0.01, 0.5) == 0);
  CHECK(static_cast<double>(lists.at(0.01, 1).error) == doctest::Approx(0.1));
}

TEST_CASE("ivf calibration: what is written is read, damage is found") {
  const Bytes bytes = small().bytes();
  const std::vector<std::byte> good(bytes.data(), bytes.data() + bytes.size());
  const Calibration again = Calibration::read(good);
  CHECK(std::ranges::equal(span_of(again.bytes()), good));
  CHECK(again.table.rows == std::uint64_t{5} << 33);
  CHECK(again.table.next_segment == 77);
  const auto refused = [](const std::vector<std::byte>& bad) {
    return is_refused([&] { Calibration::read(bad); });
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}));
  }
  std::vector<std::byte> longer = good;
  longer.resize(good.size() + 4);
  CHECK(refused(longer));
  for (std::size_t at = 0; at < good.size(); at += 4) {
    if (at >= kDate && at < kDateEnd) continue;  // a table may have any number of rows and segments
    for (const std::uint32_t value : {0xffffffffu, 0x7f800000u, 0x7fc00000u, 0xbf000000u, 0x40000000u}) {
      std::vector<std::byte> bad = good;
      std::memcpy(bad.data() + at, &value, sizeof value);
      CAPTURE(at);
      CAPTURE(value);
      CHECK(refused(bad));
    }
  }
}

TEST_CASE("ivf calibration: how rows spread is read as it is written, damage is found") {
  Calibration calibration = small();
  calibration.spread.radii = {1, 2};
  for (std::size_t i = 0; i < Spread::kSteps; ++i) {
    calibration.spread.parts.push_back(static_cast<float>(i) / Spread::kSteps);
  }
  const Bytes bytes = calibration.bytes();
  const std::vector<std::byte> good(bytes.data(), bytes.data() + bytes.size());
  const Calibration again = Calibration::read(good);
  CHECK(again.spread.radii == calibration.spread.radii);
  CHECK(again.spread.parts == calibration.spread.parts);
  const auto refused = [&](std::size_t from_end, std::uint32_t value) {
    std::vector<std::byte> bad = good;
    std::memcpy(bad.data() + bad.size() - kNoContrasts - from_end, &value, sizeof value);
    return is_refused([&] { Calibration::read(bad); });
  };
  constexpr std::size_t kParts = 4 * Spread::kSteps;
  for (const std::uint32_t value : {0x7fc00000u, 0x7f800000u, 0xbf800000u}) {
    CHECK(refused(kParts + 4, value));  // a radius
    CHECK(refused(4, value));           // a part
  }
  CHECK(refused(4, 0));  // less than the one before
  CHECK(refused(4, 0x40000000u));
  CHECK(refused(kParts + 12, 3));  // lists
  for (std::size_t size = good.size() - kNoContrasts - kParts - 12; size < good.size(); ++size) {
    const std::vector<std::byte> shorter(good.begin(),
                                         good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(is_refused([&] { Calibration::read(shorter); }));
  }
}

TEST_CASE("ivf calibration: what queries of each contrast find is read as it is written, damage is found") {
  Calibration calibration = small();
  const std::size_t before = calibration.bytes().size() - kNoContrasts;
  calibration.contrasts.limits = {4, 3, 2, 0};
  calibration.contrasts.parts = {0.5f, 0.25f, 0.125f, 0.0625f, 0.0625f};
  calibration.contrasts.lists.assign(5, calibration.lists);
  calibration.contrasts.codes.assign(5, calibration.codes);
  calibration.contrasts.lists[4].found[1].part = 0.25f;
  const Bytes bytes = calibration.bytes();
  const std::vector<std::byte> good(bytes.data(), bytes.data() + bytes.size());
  const Calibration again = Calibration::read(good);
  CHECK(std::ranges::equal(span_of(again.bytes()), good));
  CHECK(again.contrasts.lists[4].found[1].part == 0.25f);
  for (std::size_t size = before; size < good.size(); ++size) {
    const std::vector<std::byte> shorter(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(is_refused([&] { Calibration::read(shorter); }));
  }
  for (std::size_t at = before; at < good.size(); at += 4) {
    for (const std::uint32_t value : {0xffffffffu, 0x7f800000u, 0x7fc00000u, 0xbf000000u}) {
      std::vector<std::byte> bad = good;
      std::memcpy(bad.data() + at, &value, sizeof value);
      CAPTURE(at);
      CHECK(is_refused([&] { Calibration::read(bad); }));
    }
  }
}

TEST_CASE("ivf calibration: models that say nothing of recall are read") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(3000, 8, 10, 1, 2);
  const Learnt learnt = learn(*device, spec("ivfpq", "lists=5 m=4 bits=4"), Distance::kL2, rows.view());
  const std::vector<std::byte> good(learnt.model->bytes().begin(), learnt.model->bytes().end());
  const std::size_t measured = learnt.model->calibration()->bytes().size();
  CHECK(opening(learnt, good) == ErrorKind::kOk);
  // The model as version 1 had it: shorter, and the bytes after the counts of rows zero.
  std::vector<std::byte> older(good.begin(), good.end() - static_cast<std::ptrdiff_t>(measured));
  older[8] = std::byte{1};
  std::fill(older.begin() + 48, older.begin() + 64, std::byte{0});
  REQUIRE(opening(learnt, older) == ErrorKind::kOk);
  CHECK(index::inverted(learnt.trained().open(older))->calibration() == nullptr);
  std::vector<std::byte> neither = older;
  neither[8] = std::byte{2};
  CHECK(opening(learnt, neither) == ErrorKind::kCorrupt);
  for (std::size_t at = good.size() - measured; at < good.size(); at += 4) {
    const std::size_t of_it = at - (good.size() - measured);
    if (of_it >= kDate && of_it < kDateEnd) continue;
    std::vector<std::byte> bad = good;
    std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0xff});
    CHECK(opening(learnt, bad) == ErrorKind::kCorrupt);
  }
  // No search looks into more lists than there are.
  Calibration more = *learnt.model->calibration();
  more.lists.looks.back() += 1;
  const Bytes said = more.bytes();
  std::vector<std::byte> bad = good;
  REQUIRE(said.size() == measured);
  std::ranges::copy(span_of(said), bad.end() - static_cast<std::ptrdiff_t>(measured));
  CHECK(opening(learnt, bad) == ErrorKind::kCorrupt);
}

TEST_CASE("ivf calibration: one that does not say when it was measured is read") {
  const Bytes bytes = small().bytes();
  std::vector<std::byte> older(bytes.data(), bytes.data() + bytes.size());
  older.resize(older.size() - kNoContrasts);
  older[0] = std::byte{3};
  CHECK_FALSE(Calibration::read(older).contrasts.known());
  older.resize(older.size() - 4);  // nor how rows spread
  older[0] = std::byte{1};
  const Calibration dated = [&] {
    std::vector<std::byte> spreadless = older;
    spreadless[0] = std::byte{2};
    return Calibration::read(spreadless);
  }();
  CHECK(dated.table.next_segment == 77);
  CHECK_FALSE(dated.spread.known());
  older.erase(older.begin() + 20, older.begin() + kDateEnd);
  const Calibration read = Calibration::read(older);
  CHECK(read.lists.found.size() == small().lists.found.size());
  CHECK(read.table.next_segment == 0);
  CHECK_FALSE(read.fell());
}

TEST_CASE("ivf calibration: recall has fallen when more is missing than chance explains") {
  Calibration one = small();
  CHECK(one.fell());
  one.present = {0.89f, 0.001f};
  CHECK_FALSE(one.fell());  // too little
  one.present = {0.85f, 0.03f};
  CHECK_FALSE(one.fell());  // it may be chance
  one.present = {0.95f, 0.01f};
  CHECK_FALSE(one.fell());
  one.present = {0, 1};
  CHECK_FALSE(one.fell());  // it was not measured
}
