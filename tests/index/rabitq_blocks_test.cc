// RaBitQ codes of many rows as blocks, runs and models keep them: index/quantization/codes_view.h.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "compute/rabitq.h"
#include "core/bfloat16.h"
#include "index/ivf/model.h"
#include "index/quantization/codes.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

// What a run has of a position.
struct Position {
  std::uint32_t ordinal;
  float bias, f, g;
  std::vector<std::byte> signs, rest;  // rest: F, bias and planes
};

Position position_of(const compute::IvfShape& shape, const index::Run& run, std::uint32_t p) {
  const compute::IvfLayout at = compute::IvfLayout::of(shape, run.positions);
  const compute::RabitqGroup group(shape.m);
  const std::byte* factors = run.bytes.data() + at.codes + std::size_t{p / 32} * group.size;
  const std::size_t size = compute::RabitqRecord::size(shape.dim, shape.planes);
  const std::byte* record = run.bytes.data() + at.records + p * size;
  const auto half = [&](std::uint32_t array) {
    std::uint16_t bits;
    std::memcpy(&bits, factors + array + p % 32 * 2, 2);
    return bfloat16_to_float(bits);
  };
  Position position{0, half(group.bias), half(group.f), half(group.g), {}, {}};
  std::memcpy(&position.ordinal, run.bytes.data() + at.ordinals + std::size_t{p} * 4, 4);
  position.signs.resize(compute::plane_bytes(shape.dim));
  for (std::uint32_t s = 0; s < shape.m; ++s) {
    const unsigned both = std::to_integer<unsigned>(factors[s * 16 + p % 16]);
    const unsigned four = p % 32 < 16 ? both & 15 : both >> 4;
    position.signs[s / 2] |= static_cast<std::byte>(four << (s % 2 * 4));
  }
  if (shape.planes > 1) {
    position.rest.assign(record, record + compute::RabitqRecord::kPlanes +
                                     (shape.planes - 1) * compute::plane_bytes(shape.dim));
  }
  return position;
}

float nearest_bfloat(float x) {
  return bfloat16_to_float(float_to_bfloat16(x));
}

// To 16 bits after the first.
float nearest_float24(float x) {
  int exponent;
  const double part = std::frexp(x, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(part, 16)), exponent - 16));
}

// As codes of version 2 say it.
index::RabitqFactors shortened(const index::RabitqFactors& factors) {
  index::RabitqFactors out;
  out.bias = nearest_float24(factors.bias);
  out.f = nearest_bfloat(factors.f);
  out.fine = nearest_float24(factors.fine);
  const double most = compute::kErrors * std::fabs(static_cast<double>(out.f));
  const double share = most > 0 ? std::ceil(255 * static_cast<double>(factors.g) / most) : 0;
  out.g = static_cast<float>(most * (std::min(share, 255.0) / 255));
  return out;
}

}  // namespace

TEST_CASE("RaBitQ: a run has every row once, in its list, as it was coded; and lists in groups") {
  const auto device = cpu::make_cpu_device();
  for (const std::string text : {"lists=13 bits=1", "lists=13 bits=4", "lists=600 bits=7"}) {
    CAPTURE(text);
    const Floats rows = clustered(2000, 20, 40, 1, 2);
    const Learnt learnt = learn(*device, spec("ivfrabitq", text), Distance::kL2, rows.view());
    const index::InvertedModel& model = *learnt.model;
    const compute::IvfShape& shape = model.shape();
    const Bytes codes = model.encode(*device, rows.view(), nullptr, nullptr);
    const index::CodedBlock block{span_of(codes), 2000};
    const index::CodesView at(shape, block);
    std::vector<float> space(rows.values.size());
    model.to_model_space(rows.view(), space.data());
    const index::Run run = model.make_run({&block, 1});
    const compute::IvfLayout layout = compute::IvfLayout::of(shape, run.positions);
    REQUIRE(run.bytes.size() == layout.size);
    REQUIRE(run.positions % 32 == 0);
    const auto begins = reinterpret_cast<const std::uint32_t*>(run.bytes.data() + layout.begins);
    const auto ends = reinterpret_cast<const std::uint32_t*>(run.bytes.data() + layout.ends);
    CHECK(begins[shape.lists] == run.positions);
    std::vector<int> seen(2000);
    std::vector<bool> taken(run.positions);
    for (std::uint32_t list = 0; list < shape.lists; ++list) {
      for (std::uint32_t p = begins[list]; p < ends[list]; ++p) {
        const Position found = position_of(shape, run, p);
        REQUIRE(found.ordinal < 2000);
        ++seen[found.ordinal];
        taken[p] = true;
        CHECK(at.list(codes.data(), found.ordinal) == list);
        std::vector<std::uint8_t> planes(shape.planes * compute::plane_bytes(20));
        index::RabitqFactors factors =
            index::encode_rabitq(Distance::kL2, 20, model.centroids() + list * 20,
                                 space.data() + found.ordinal * 20, shape.planes,
                                 index::RabitqTries::kTwice, planes.data());
        factors = shortened(factors);
        CHECK(found.bias == nearest_bfloat(factors.bias));
        CHECK(found.f == factors.f);
        CHECK(found.g == nearest_bfloat(factors.g));
        CHECK(std::memcmp(found.signs.data(), planes.data(), found.signs.size()) == 0);
        if (shape.planes == 1) continue;
        CHECK(std::memcmp(found.rest.data(), &factors.fine, 4) == 0);
        CHECK(std::memcmp(found.rest.data() + 4, &factors.bias, 4) == 0);
        CHECK(std::memcmp(found.rest.data() + 8, planes.data() + found.signs.size(),
                          planes.size() - found.signs.size()) == 0);
      }
    }
    for (const int times : seen) CHECK(times == 1);
    for (std::uint32_t p = 0; p < run.positions; ++p) {
      if (taken[p]) continue;
      const Position none = position_of(shape, run, p);
      CHECK(none.ordinal == compute::kNoOrdinal);
      CHECK(std::isinf(none.bias));
    }

    if (shape.groups == 0) {
      CHECK(model.coarse() == nullptr);
      continue;
    }
    std::vector<int> lists(shape.lists);
    for (std::uint32_t p = 0; p < model.coarse()->positions; ++p) {
      const Position found = position_of(shape.coarse(), *model.coarse(), p);
      if (found.ordinal != compute::kNoOrdinal) ++lists.at(found.ordinal);
    }
    for (const int times : lists) CHECK(times == 1);
  }
}

TEST_CASE("RaBitQ: damage to codes is found") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(100, 12, 10, 1, 2);
  const Learnt learnt =
      learn(*device, spec("ivfrabitq", "lists=5 bits=3"), Distance::kL2, rows.view());
  const index::InvertedModel& model = *learnt.model;
  const Bytes coded = model.encode(*device, rows.view(), nullptr, nullptr);
  const std::vector<std::byte> good(coded.data(), coded.data() + coded.size());
  const auto refused = [&](std::span<const std::byte> bytes, std::uint32_t count) {
    return is_refused([&] { model.check_codes(bytes, count); });
  };
  CHECK_FALSE(refused(good, 100));
  CHECK(refused(good, 99));
  for (std::size_t size = 0; size < good.size(); size += 5) {
    CHECK(refused(std::span(good).first(size), 100));
  }
  const index::CodesView at(model.shape(), {good, 100});
  CHECK(good.size() == 16 + 100 * 3 / 8 + 1 + 100 * (3 + 2 + 2 + 1 + 3 + 2 * 2));
  for (std::uint32_t row = 0; row < 100; ++row) {
    std::vector<std::byte> bad = good;
    at.put_bias(bad.data(), row, std::numeric_limits<float>::infinity());
    CHECK(refused(bad, 100));
    for (const std::size_t field : {0, 4}) {  // bytes of f and F
      bad = good;
      std::fill_n(at.rest(bad.data(), row) + field, 2, std::byte{0xff});
      CHECK(refused(bad, 100));
    }
    // Twelve bits are a byte and a half.
    const std::byte* const begin = good.data();
    for (const std::byte* last : {at.code(begin, row) + 1, at.rest(begin, row) + at.planes_at() + 1}) {
      bad = good;
      bad[static_cast<std::size_t>(last - begin)] |= std::byte{0x10};
      CHECK(refused(bad, 100));
    }
  }
  std::vector<std::byte> older = good;
  older[4] = std::byte{1};
  CHECK(refused(older, 100));
}

TEST_CASE("RaBitQ: short codes round to nearest, g upwards, and stay finite") {
  const compute::IvfShape shape = {.dim = 12, .lists = 5, .m = 3, .bits = 4, .planes = 3};
  const index::CodesView at(shape, 1, index::CodesVersion::kShort);
  std::vector<std::byte> block(at.size());
  const auto kept = [&](const index::RabitqFactors& factors) {
    at.put_factors(block.data(), 0, factors);
    return at.factors(block.data(), 0);
  };
  Normal normal(3);
  for (int i = 0; i < 10000; ++i) {
    const float size = std::ldexp(1.0f, i % 200 - 100);
    index::RabitqFactors factors{normal() * size, normal() * size, 0, normal() * size};
    factors.g = std::fabs(factors.f) * static_cast<float>(compute::kErrors) * static_cast<float>(i) / 10000;
    const index::RabitqFactors found = kept(factors), expected = shortened(factors);
    CHECK(found.bias == expected.bias);
    CHECK(found.f == expected.f);
    CHECK(found.g == expected.g);
    CHECK(found.fine == expected.fine);
    CHECK(found.g >= factors.g * (1 - 0x1p-8f));
    CHECK(found.g <= factors.g + 0.0045f * std::fabs(found.f) * static_cast<float>(compute::kErrors) * 1.01f);
  }
  constexpr float kMost = std::numeric_limits<float>::max();
  const index::RabitqFactors most = kept({kMost, -kMost, kMost, -kMost});
  for (const float factor : {most.bias, most.f, most.g, most.fine}) CHECK(std::isfinite(factor));
  CHECK(most.bias > 0.99f * kMost);
  CHECK(most.f < -0.99f * kMost);
  const index::RabitqFactors none = kept({});
  CHECK(none.bias == 0);
  CHECK(none.g == 0);
}

// Their models have version 1 or 2, in files of earlier builds.
TEST_CASE("RaBitQ: long codes are read, made and gathered where the model has them") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(600, 20, 40, 1, 2);
  for (const std::string text : {"lists=13 bits=1", "lists=13 bits=4"}) {
    const Learnt learnt = learn(*device, spec("ivfrabitq", text), Distance::kL2, rows.view());
    std::vector<std::byte> bytes(learnt.model->bytes().begin(), learnt.model->bytes().end());
    bytes[8] = std::byte{2};
    const auto older = index::inverted(learnt.index->trained()->open(bytes));
    const Bytes codes = older->encode(*device, rows.view(), nullptr, nullptr);
    const std::uint32_t planes = older->shape().planes;
    CHECK(codes.size() == 16 + 600 * (2 + 4 + 3 + 8 + (planes > 1 ? 4 : 0) + (planes - 1) * 3));
    older->check_codes(span_of(codes), 600);
    CHECK_THROWS_AS(learnt.model->check_codes(span_of(codes), 600), Error);
    const index::CodedBlock block{span_of(codes), 600};
    std::vector<index::CodedRow> all;
    for (std::uint32_t row = 0; row < 600; ++row) all.push_back({&block, row});
    CHECK(std::ranges::equal(span_of(older->gather(all)), span_of(codes)));
    // What searches read is the same but for the rounding.
    const Bytes shorter = learnt.model->encode(*device, rows.view(), nullptr, nullptr);
    const index::CodedBlock short_block{span_of(shorter), 600};
    const index::Run run = older->make_run({&block, 1}), short_run = learnt.model->make_run({&short_block, 1});
    REQUIRE(run.positions == short_run.positions);
    for (std::uint32_t p = 0; p < run.positions; ++p) {
      const Position a = position_of(older->shape(), run, p), b = position_of(older->shape(), short_run, p);
      CHECK(a.ordinal == b.ordinal);
      CHECK(a.f == b.f);
      CHECK(a.signs == b.signs);
      if (a.ordinal != compute::kNoOrdinal) CHECK(std::fabs(a.bias - b.bias) <= 0x1p-7f * std::fabs(a.bias));
    }
    // Measured again, it keeps its codes.
    const auto measured = index::with_calibration(*older, {});
    CHECK(measured->bytes()[8] == std::byte{2});
    CHECK(index::with_calibration(*learnt.model, {})->bytes()[8] == std::byte{6});
  }
}

// Of versions 4 and 5, too; their codes differ in how lists are written.
TEST_CASE("RaBitQ: lists of codes take as many bits as they need, two or three bytes where the model is older") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(601, 20, 40, 1, 2);
  Bitmap present(601);
  for (std::size_t i = 0; i < 601; ++i) {
    if (i % 5 != 1) present.set(i);
  }
  for (const std::uint32_t lists : {1u, 15u, 16u, 130u}) {
    const Learnt learnt = learn(*device, spec("ivfrabitq", "bits=2 lists=" + std::to_string(lists)),
                                Distance::kL2, rows.view());
    std::vector<std::byte> bytes(learnt.model->bytes().begin(), learnt.model->bytes().end());
    const auto of_version = [&](int version) {
      bytes[8] = static_cast<std::byte>(version);
      return index::inverted(learnt.index->trained()->open(bytes));
    };
    const auto packed = of_version(5), older = of_version(4);
    const index::InvertedModel& model = *packed;
    const Bytes codes = model.encode(*device, rows.view(), &present, nullptr);
    const Bytes old_codes = older->encode(*device, rows.view(), &present, nullptr);
    const std::size_t factors = 3 + 3 + 3, planes = 2 * 3;
    CHECK(old_codes.size() == 16 + 601 * (2 + factors + planes));
    CHECK(codes.size() == 16 + (601 * std::bit_width(lists) + 7) / 8 + 601 * (factors + planes));
    model.check_codes(span_of(codes), 601);
    older->check_codes(span_of(old_codes), 601);
    CHECK_THROWS_AS(older->check_codes(span_of(codes), 601), Error);
    const index::CodedBlock block{span_of(codes), 601}, old_block{span_of(old_codes), 601};
    const index::CodesView at(model.shape(), block), old_at(model.shape(), old_block);
    for (std::uint32_t row = 0; row < 601; ++row) {
      CHECK(at.list(codes.data(), row) == old_at.list(old_codes.data(), row));
      CHECK((at.list(codes.data(), row) == index::CodesView::kNoList) == !present.test(row));
    }
    // All else is the same bytes.
    const std::size_t behind = at.size() - at.bias_at();
    CHECK(std::ranges::equal(span_of(codes).last(behind), span_of(old_codes).last(behind)));
    const index::Run run = model.make_run({&block, 1}), old_run = older->make_run({&old_block, 1});
    CHECK(std::ranges::equal(span_of(run.bytes), span_of(old_run.bytes)));
    // A row gathered of nothing is one without a vector.
    std::vector<index::CodedRow> all;
    for (std::uint32_t row = 0; row < 601; ++row) {
      all.push_back({present.test(row) ? &block : nullptr, row});
    }
    CHECK(std::ranges::equal(span_of(model.gather(all)), span_of(codes)));
  }
}

TEST_CASE("RaBitQ: packed lists of a model with the most there can be") {
  index::IvfCoder coder;
  coder.shape = {.dim = 4, .lists = 1u << 20, .m = 1, .bits = 4, .planes = 1};
  coder.version = index::CodesVersion::kPacked;
  for (const std::uint32_t rows : {1u, 2u, 3u, 9u}) {
    const index::CodesView at(coder.shape, rows, coder.version);
    CHECK(at.size() == 16 + (rows * 21 + 7) / 8 + rows * (3 + 1 + 3));
    Bytes block(at.size());
    std::memset(block.data(), 0, block.size());
    const std::uint32_t header[] = {0x43465649u, 3, rows, 0};
    std::memcpy(block.data(), header, sizeof header);
    const auto list_of = [](std::uint32_t row) {
      return row % 3 == 2 ? index::CodesView::kNoList : (1u << 20) - 1 - row;
    };
    for (std::uint32_t row = 0; row < rows; ++row) at.put_bias(block.data(), row, 1 + static_cast<float>(row));
    // In any order, and over what was there.
    for (std::uint32_t row = rows; row-- > 0;) at.put_list(block.data(), row, 0x55555);
    for (std::uint32_t row = 0; row < rows; ++row) at.put_list(block.data(), row, list_of(row));
    for (std::uint32_t row = 0; row < rows; ++row) {
      CHECK(at.list(block.data(), row) == list_of(row));
      CHECK(at.bias(block.data(), row) == 1 + static_cast<float>(row));
    }
    index::check_block(coder, span_of(block), rows);
    at.put_list(block.data(), 0, 1u << 20);
    CHECK_THROWS_AS(index::check_block(coder, span_of(block), rows), Error);
  }
}

TEST_CASE("RaBitQ: decoding comes nearer with every plane, with and without rotation") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(500, 24, 20, 1, 2);
  for (const Distance distance : {Distance::kL2, Distance::kCosine, Distance::kInnerProduct}) {
    for (const std::string rotate : {"0", "1"}) {
      double before = std::numeric_limits<double>::infinity();
      for (const std::string bits : {"1", "2", "4", "8"}) {
        const Learnt learnt =
            learn(*device, spec("ivfrabitq", "lists=8 rotate=" + rotate + " bits=" + bits),
                  distance, rows.view());
        const Bytes codes = learnt.model->encode(*device, rows.view(), nullptr, nullptr);
        std::vector<float> decoded(rows.values.size());
        learnt.model->decode({span_of(codes), 500}, {0, 500},
                             reinterpret_cast<std::byte*>(decoded.data()), nullptr);
        double loss = 0;
        for (std::size_t i = 0; i < 500; ++i) {
          double norm = 1;
          if (distance == Distance::kCosine) {
            const std::vector<float> origin(24);
            norm = std::sqrt(square_distance(rows.row(i), origin.data(), 24));
          }
          for (std::size_t d = 0; d < 24; ++d) {
            const double off = static_cast<double>(rows.row(i)[d]) / norm -
                               static_cast<double>(decoded[i * 24 + d]);
            loss += off * off;
          }
        }
        CAPTURE(info(distance).name);
        CAPTURE(rotate);
        CAPTURE(bits);
        CHECK(loss < 0.5 * before);
        before = loss;
      }
    }
  }
}

TEST_CASE("RaBitQ: a model read back is the one that was written, and damage to it is found") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(3000, 8, 40, 1, 2);
  const Learnt learnt =
      learn(*device, spec("ivfrabitq", "lists=700 bits=2"), Distance::kL2, rows.view());
  const auto written = learnt.model->bytes();
  const auto reopened = index::inverted(learnt.index->trained()->open(written));
  CHECK(reopened->shape().groups == learnt.model->shape().groups);
  CHECK(reopened->shape().groups > 1);
  CHECK(reopened->shape().planes == 2);
  const std::span<const std::byte> coarse = span_of(reopened->coarse()->bytes);
  CHECK(std::ranges::equal(coarse, span_of(learnt.model->coarse()->bytes)));

  const std::size_t groups = learnt.model->shape().groups, lists = learnt.model->shape().lists;
  const std::size_t begins = 64 + (lists + groups) * 8 * 4;
  const auto refused = [&](std::size_t at, std::uint32_t value) {
    return is_refused([&] { learnt.index->trained()->open(with_number(written, at, value)); });
  };
  for (std::size_t i = 0; i <= groups; ++i) {
    CHECK(refused(begins + i * 4, 0xffffffffu));
    CHECK(refused(begins + i * 4, static_cast<std::uint32_t>(lists + 1)));
    if (i > 0) CHECK(refused(begins + i * 4, 0));
  }
  for (std::size_t at = 0; at < 28; at += 4) CHECK(refused(at, 0x12345678u));
  CHECK(refused(64 + lists * 8 * 4, 0x7fc00000u));  // a centroid of a group that is no number
}
