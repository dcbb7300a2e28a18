// Codes of blocks and the runs made of them, against what compute/ivf.h says of each row.
#include <doctest/doctest.h>

#include "index/quantization/codes.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;
using compute::IvfLayout;
using compute::IvfShape;

namespace {

// What a block says of its rows, read by the layout that ivf_codes.h describes.
struct Coded {
  std::uint32_t list = 0;
  float bias = 0;
  std::vector<std::uint8_t> codes;

  friend bool operator==(const Coded&, const Coded&) = default;
};

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::vector<Coded> read_block(const IvfShape& shape, std::span<const std::byte> block) {
  const auto rows = load<std::uint32_t>(block.data() + 8);
  const std::size_t bias_at = (16 + std::size_t{rows} * 2 + 3) / 4 * 4;
  const std::size_t codes_at = bias_at + (shape.m == 0 ? 0 : std::size_t{rows} * 4);
  const std::size_t size = shape.bits == 8 ? shape.m : (shape.m + 1) / 2;
  std::vector<Coded> out(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    out[row].list = load<std::uint16_t>(block.data() + 16 + row * 2);
    if (shape.m == 0) continue;
    out[row].bias = load<float>(block.data() + bias_at + row * 4);
    for (std::uint32_t s = 0; s < shape.m; ++s) {
      const std::byte* from = block.data() + codes_at + row * size;
      const auto byte = std::to_integer<unsigned>(from[shape.bits == 8 ? s : s / 2]);
      const unsigned code = shape.bits == 8 ? byte : s % 2 == 0 ? byte & 15 : byte >> 4;
      out[row].codes.push_back(static_cast<std::uint8_t>(code));
    }
  }
  return out;
}

// The arithmetic of compute/ivf.h, row by row.
Coded expected_code(const index::InvertedModel& model, Distance distance, const float* x) {
  const IvfShape& shape = model.shape();
  const auto bytes = [](const float* v) { return reinterpret_cast<const std::byte*>(v); };
  Coded coded;
  double nearest = std::numeric_limits<double>::infinity();
  for (std::uint32_t list = 0; list < shape.lists; ++list) {
    const double d = compute::canonical_distance(Distance::kL2, ElementType::kFloat32, shape.dim,
                                                 bytes(x),
                                                 bytes(model.centroids() + list * shape.dim));
    if (d >= nearest) continue;
    nearest = d;
    coded.list = list;
  }
  if (!shape.has_codebooks()) return coded;
  const float* centroid = model.centroids() + coded.list * shape.dim;
  std::vector<float> residual(shape.dim);
  for (std::uint32_t d = 0; d < shape.dim; ++d) residual[d] = x[d] - centroid[d];
  coded.codes.resize(shape.m);
  compute::reference_pq_assign({residual.data(), 1, shape.dim, shape.m, shape.codewords(),
                                model.codebooks(), coded.codes.data(), nullptr});
  double square = 0, product = 0;
  for (std::uint32_t d = 0; d < shape.dim; ++d) {
    const std::uint32_t s = d / shape.sub_dim();
    const double r = model.codebooks()[(s * shape.codewords() + coded.codes[s]) * shape.sub_dim() +
                                       d % shape.sub_dim()];
    square += r * r;
    product += (static_cast<double>(centroid[d]) - static_cast<double>(model.mean()[d])) * r;
  }
  if (distance != Distance::kInnerProduct) coded.bias = static_cast<float>(square + 2 * product);
  return coded;
}

struct Setting {
  const char* kind;
  const char* text;
  Distance distance;
};

constexpr Setting kSettings[] = {
    {"ivfflat", "lists=13", Distance::kL2},
    {"ivfpq", "lists=13 m=6", Distance::kL2},
    {"ivfpq", "lists=13 m=3 bits=4", Distance::kCosine},
    {"ivfpq", "lists=13 m=12 bits=4 opq=1", Distance::kInnerProduct},
    {"ivfpq", "lists=1 m=1", Distance::kInnerProduct},
};

Bitmap some_of(std::size_t rows) {
  Bitmap present(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    if (i % 3 != 1) present.set(i);
  }
  return present;
}

ErrorKind checking(const index::InvertedModel& model, std::span<const std::byte> codes,
                   std::uint32_t rows) {
  try {
    model.check_codes(codes, rows);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kOk;
}

// What a run says of one position.
Coded read_position(const IvfShape& shape, const index::Run& run, std::uint32_t position) {
  const IvfLayout at = IvfLayout::of(shape, run.positions);
  Coded coded;
  if (shape.m == 0) return coded;
  coded.bias = load<float>(run.bytes.data() + at.bias + position * 4);
  for (std::uint32_t s = 0; s < shape.m; ++s) {
    if (shape.bits == 8) {
      const std::size_t stride = shape.code_stride();
      const std::byte* from = run.bytes.data() + at.codes + position * stride;
      coded.codes.push_back(static_cast<std::uint8_t>(from[s]));
      continue;
    }
    const std::size_t group = position / 32, i = position % 32;
    const auto both = std::to_integer<unsigned>(
        run.bytes.data()[at.codes + (group * shape.m + s) * 16 + i % 16]);
    coded.codes.push_back(static_cast<std::uint8_t>(i < 16 ? both & 15 : both >> 4));
  }
  return coded;
}

// Every row once, in its list, in order, the lists one behind the other; PQ codes of 4 bits begin
// at groups.
void check_run(const IvfShape& shape, const index::Run& run, const std::vector<Coded>& rows) {
  const IvfLayout at = IvfLayout::of(shape, run.positions);
  REQUIRE(run.bytes.size() == at.size);
  const std::uint32_t unit = shape.m != 0 && shape.bits == 4 ? 32 : 1;
  std::vector<bool> seen(rows.size());
  std::uint32_t longest = 0, position = 0;
  const auto ordinal_at = [&](std::uint32_t p) {
    return load<std::uint32_t>(run.bytes.data() + at.ordinals + p * 4);
  };
  for (std::uint32_t list = 0; list < shape.lists; ++list) {
    REQUIRE(load<std::uint32_t>(run.bytes.data() + at.begins + list * 4) == position);
    const auto end = load<std::uint32_t>(run.bytes.data() + at.ends + list * 4);
    const auto next = load<std::uint32_t>(run.bytes.data() + at.begins + (list + 1) * 4);
    REQUIRE(end >= position);
    REQUIRE(next >= end);
    REQUIRE(next % unit == 0);
    CHECK(next - end < unit);
    longest = std::max(longest, end - position);
    std::int64_t before = -1;
    for (; position < end; ++position) {
      const std::uint32_t ordinal = ordinal_at(position);
      Coded found = read_position(shape, run, position);
      REQUIRE(ordinal < rows.size());
      CHECK(std::int64_t{ordinal} > before);
      before = ordinal;
      CHECK_FALSE(seen[ordinal]);
      seen[ordinal] = true;
      found.list = list;
      CHECK(found == rows[ordinal]);
    }
    for (; position < next; ++position) {
      CHECK(ordinal_at(position) == compute::kNoOrdinal);
      CHECK(read_position(shape, run, position) == Coded{0, 0, std::vector<std::uint8_t>(shape.m)});
    }
  }
  CHECK(position == run.positions);
  CHECK(longest == run.longest);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(seen[i] == (rows[i].list != 0xffff));
}

}  // namespace

TEST_CASE("ivf codes: list, code and bias of every row") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(1500, 12, 10, 1, 2);
  for (const Setting& setting : kSettings) {
    CAPTURE(setting.text);
    const Learnt learnt =
        learn(*device, spec(setting.kind, setting.text), setting.distance, rows.view());
    const index::InvertedModel& model = *learnt.model;
    const Bitmap present = some_of(rows.rows());
    const Bytes all = model.encode(*device, rows.view(), nullptr, nullptr);
    const Bytes some = model.encode(*device, rows.view(), &present, nullptr);
    CHECK(checking(model, span_of(all), 1500) == ErrorKind::kOk);
    CHECK(checking(model, span_of(some), 1500) == ErrorKind::kOk);
    std::vector<float> x(rows.values.size());
    model.to_model_space(rows.view(), x.data());
    const std::vector<Coded> read_all = read_block(model.shape(), span_of(all));
    const std::vector<Coded> read_some = read_block(model.shape(), span_of(some));
    REQUIRE(read_all.size() == 1500);
    REQUIRE(read_some.size() == 1500);
    const Coded absent{0xffff, 0, std::vector<std::uint8_t>(model.shape().m)};
    for (std::size_t i = 0; i < 1500; ++i) {
      const Coded expected = expected_code(model, setting.distance, x.data() + i * 12);
      CHECK(read_all[i] == expected);
      CHECK(read_some[i] == (present.test(i) ? expected : absent));
    }
  }
}

TEST_CASE("ivf codes: none, and one") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(300, 12, 10, 1, 2);
  const Learnt learnt = learn(*device, spec("ivfpq", "lists=5"), Distance::kL2, rows.view());
  const Bytes none = learnt.model->encode(*device, {nullptr, 0, 12, ElementType::kFloat32}, nullptr,
                                          nullptr);
  CHECK(checking(*learnt.model, span_of(none), 0) == ErrorKind::kOk);
  const Bitmap absent(300);
  const Bytes all_absent = learnt.model->encode(*device, rows.view(), &absent, nullptr);
  const index::CodedBlock blocks[] = {{span_of(none), 0}, {span_of(all_absent), 300}};
  const index::Run run = learnt.model->make_run(blocks);
  CHECK(run.positions == 0);
  CHECK(run.longest == 0);
  check_run(learnt.model->shape(), run, read_block(learnt.model->shape(), span_of(all_absent)));
  check_run(learnt.model->shape(), learnt.model->make_run({}), {});
}

TEST_CASE("ivf codes: damage is found") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(200, 12, 10, 1, 2);
  const Learnt learnt =
      learn(*device, spec("ivfpq", "lists=5 m=3 bits=4"), Distance::kL2, rows.view());
  const index::InvertedModel& model = *learnt.model;
  const Bytes coded = model.encode(*device, rows.view(), nullptr, nullptr);
  const std::vector<std::byte> good(coded.data(), coded.data() + coded.size());
  const auto with = [&](std::size_t at, const auto& value) {
    std::vector<std::byte> bad = good;
    std::memcpy(bad.data() + at, &value, sizeof value);
    return checking(model, bad, 200);
  };
  CHECK(checking(model, good, 200) == ErrorKind::kOk);
  CHECK(checking(model, good, 199) == ErrorKind::kCorrupt);
  CHECK(checking(model, good, 201) == ErrorKind::kCorrupt);
  for (std::size_t size = 0; size < good.size(); size += 7) {
    CHECK(checking(model, std::span(good).first(size), 200) == ErrorKind::kCorrupt);
  }
  for (std::size_t at = 0; at < 16; ++at) {
    CHECK(with(at, static_cast<std::uint8_t>(std::to_integer<unsigned>(good[at]) ^ 16)) ==
          ErrorKind::kCorrupt);
  }
  for (std::size_t row = 0; row < 200; ++row) {
    CHECK(with(16 + row * 2, std::uint16_t{5}) == ErrorKind::kCorrupt);
    CHECK(with(16 + row * 2, std::uint16_t{0xfffe}) == ErrorKind::kCorrupt);
    CHECK(with(16 + row * 2, std::uint16_t{4}) == ErrorKind::kOk);
    CHECK(with(16 + 400 + row * 4, std::numeric_limits<float>::infinity()) == ErrorKind::kCorrupt);
    // Three codes are a byte and a half.
    CHECK(with(16 + 400 + 800 + row * 2 + 1, std::uint8_t{0x10}) == ErrorKind::kCorrupt);
    CHECK(with(16 + 400 + 800 + row * 2, std::uint8_t{0xff}) == ErrorKind::kOk);
  }
}

TEST_CASE("ivf codes: decoding comes nearer with every byte") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(3000, 16, 20, 1, 2);
  const auto loss = [&](const std::string& text, Distance distance) {
    const Learnt learnt = learn(*device, spec("ivfpq", text), distance, rows.view());
    const Bitmap present = some_of(rows.rows());
    const Bytes codes = learnt.model->encode(*device, rows.view(), &present, nullptr);
    std::vector<float> decoded(rows.values.size(), 99), wanted = rows.values;
    Bitmap found;
    learnt.model->decode({span_of(codes), 3000}, {0, 3000},
                         reinterpret_cast<std::byte*>(decoded.data()), &found);
    CHECK(std::equal(found.words(), found.words() + found.word_count(), present.words()));
    double sum = 0, zeros = 0;
    for (std::size_t i = 0; i < 3000; ++i) {
      const float* row = decoded.data() + i * 16;
      if (!present.test(i)) {
        for (std::size_t d = 0; d < 16; ++d) zeros += std::fabs(static_cast<double>(row[d]));
        continue;
      }
      double scale = 1;
      if (distance == Distance::kCosine) {
        const std::vector<float> origin(16);
        scale = 1 / std::sqrt(square_distance(rows.row(i), origin.data(), 16));
      }
      for (std::size_t d = 0; d < 16; ++d) {
        wanted[i * 16 + d] = static_cast<float>(scale * static_cast<double>(rows.row(i)[d]));
      }
      sum += square_distance(wanted.data() + i * 16, row, 16);
    }
    CHECK(zeros == 0);
    return sum;
  };
  for (const Distance distance : {Distance::kL2, Distance::kCosine}) {
    const double coarse = loss("lists=16 m=1 bits=4", distance);
    const double fine = loss("lists=16 m=4 bits=4", distance);
    const double finer = loss("lists=16 m=4 bits=8", distance);
    const double finest = loss("lists=16 m=16 bits=8 opq=1", distance);
    CHECK(fine < 0.7 * coarse);
    CHECK(finer < 0.6 * fine);
    CHECK(finest < 0.1 * finer);
  }
}

TEST_CASE("ivf codes: some rows are decoded, and gathered, as in their block") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(700, 12, 10, 1, 2);
  for (const std::string text : {"lists=8 m=3 bits=4", "lists=8 m=6 bits=8 opq=1"}) {
    const Learnt learnt = learn(*device, spec("ivfpq", text), Distance::kL2, rows.view());
    const Bitmap present = some_of(rows.rows());
    const Bytes one = learnt.model->encode(*device, rows.view(), &present, nullptr);
    const Bytes two = learnt.model->encode(*device, rows.view(), nullptr, nullptr);
    const index::CodedBlock blocks[] = {{span_of(one), 700}, {span_of(two), 700}};
    std::vector<float> all(700 * 12), some(5 * 12);
    learnt.model->decode(blocks[0], {0, 700}, reinterpret_cast<std::byte*>(all.data()), nullptr);
    Bitmap found;
    learnt.model->decode(blocks[0], {417, 5}, reinterpret_cast<std::byte*>(some.data()), &found);
    CHECK(std::equal(some.begin(), some.end(), all.begin() + 417 * 12));
    for (std::size_t i = 0; i < 5; ++i) CHECK(found.test(i) == present.test(417 + i));

    std::vector<index::CodedRow> picked;
    for (std::uint32_t i = 0; i < 700; ++i) {
      picked.push_back({i % 7 == 3 ? nullptr : &blocks[i % 2], (i * 31) % 700});
    }
    const Bytes gathered = learnt.model->gather(picked);
    learnt.model->check_codes(span_of(gathered), 700);
    std::vector<float> from(12), to(12);
    for (std::uint32_t i = 0; i < 700; ++i) {
      learnt.model->decode({span_of(gathered), 700}, {i, 1},
                           reinterpret_cast<std::byte*>(to.data()), &found);
      if (picked[i].block == nullptr) {
        CHECK_FALSE(found.test(0));
        continue;
      }
      CHECK(found.test(0) == (picked[i].block == &blocks[1] || present.test(picked[i].row)));
      learnt.model->decode(*picked[i].block, {picked[i].row, 1},
                           reinterpret_cast<std::byte*>(from.data()), nullptr);
      CHECK(from == to);
    }
  }
}

TEST_CASE("ivf codes: columns of smaller elements are coded and decoded") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(1000, 8, 10, 1, 2);
  std::vector<std::int8_t> bytes;
  std::vector<std::uint16_t> halves;
  for (const float x : rows.values) {
    bytes.push_back(static_cast<std::int8_t>(std::clamp(std::lround(x * 4), -128l, 127l)));
    halves.push_back(float_to_half(x));
  }
  const auto check = [&](const void* data, ElementType type, double unit) {
    const MatrixView view{static_cast<const std::byte*>(data), 1000, 8, type};
    const Learnt learnt = learn(*device, spec("ivfpq", "lists=8 m=8"), Distance::kL2, view);
    const Bytes codes = learnt.model->encode(*device, view, nullptr, nullptr);
    std::vector<std::byte> decoded(1000 * view.stride());
    learnt.model->decode({span_of(codes), 1000}, {0, 1000}, decoded.data(), nullptr);
    double sum = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      const double d = compute::canonical_distance(Distance::kL2, type, 8, view.row(i),
                                                   decoded.data() + i * view.stride());
      sum += d * d / (unit * unit);
    }
    CHECK(sum / 1000 < 0.2);  // rounding to INT8 alone adds 8 · 2/12 · 1/16 = 0.083
  };
  check(bytes.data(), ElementType::kInt8, 4);
  check(halves.data(), ElementType::kFloat16, 1);
}

TEST_CASE("ivf runs: every row once, in its list, in order") {
  const RestoreThreads restore;
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(900, 12, 10, 1, 2);
  for (const Setting& setting : kSettings) {
    CAPTURE(setting.text);
    const Learnt learnt =
        learn(*device, spec(setting.kind, setting.text), setting.distance, rows.view());
    const index::InvertedModel& model = *learnt.model;
    const Bitmap present = some_of(rows.rows());
    std::vector<Bytes> kept;
    std::vector<Coded> expected;
    std::vector<index::CodedBlock> blocks;
    for (const std::uint32_t count : {900u, 0u, 1u, 333u, 900u}) {
      MatrixView view = rows.view();
      view.rows = count;
      kept.push_back(model.encode(*device, view, count == 333 ? &present : nullptr, nullptr));
      blocks.push_back({span_of(kept.back()), count});
      const auto coded = read_block(model.shape(), span_of(kept.back()));
      expected.insert(expected.end(), coded.begin(), coded.end());
    }
    check_run(model.shape(), model.make_run(blocks), expected);
  }
}

TEST_CASE("ivf runs: the same bytes whatever the threads") {
  const RestoreThreads restore;
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(20000, 8, 10, 1, 2);
  for (const char* text : {"lists=50 m=2", "lists=50 m=8", "lists=50 m=8 bits=4"}) {
    const Learnt learnt = learn(*device, spec("ivfpq", text), Distance::kL2, rows.view());
    const Bytes codes = learnt.model->encode(*device, rows.view(), nullptr, nullptr);
    const std::vector<index::CodedBlock> blocks(4, {span_of(codes), 20000});
    std::vector<std::byte> first;
    for (const unsigned threads : {1u, 2u, 5u}) {
      compute::set_thread_count(threads);
      const index::Run run = learnt.model->make_run(blocks);
      const auto bytes = span_of(run.bytes);
      if (first.empty()) {
        first.assign(bytes.begin(), bytes.end());
        const auto one = read_block(learnt.model->shape(), span_of(codes));
        std::vector<Coded> expected;
        for (int i = 0; i < 4; ++i) expected.insert(expected.end(), one.begin(), one.end());
        check_run(learnt.model->shape(), run, expected);
      }
      CHECK(std::ranges::equal(bytes, first));
    }
  }
}

TEST_CASE("ivf codes: more lists than two bytes count") {
  const IvfShape shape{2, 70000, 2, 8};
  index::IvfCoder coder;
  coder.shape = shape;
  const index::CodesView at(shape, 3, index::CodesVersion::kLong);
  CHECK(at.bias_at() == 16 + 3 * 4);
  Bytes block(at.size());
  std::memset(block.data(), 0, block.size());
  const std::uint32_t header[] = {0x43465649u, 1, 3, 0};
  std::memcpy(block.data(), header, sizeof header);
  at.put_list(block.data(), 0, 69999);
  at.put_list(block.data(), 1, index::CodesView::kNoList);
  at.put_list(block.data(), 2, 65535);
  CHECK(at.list(block.data(), 0) == 69999);
  CHECK(at.list(block.data(), 1) == index::CodesView::kNoList);
  CHECK(at.list(block.data(), 2) == 65535);
  index::check_block(coder, span_of(block), 3);
  at.put_list(block.data(), 2, 70000);
  CHECK_THROWS_AS(index::check_block(coder, span_of(block), 3), Error);
}

TEST_CASE("codes of the largest centroids are decoded as numbers") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(400, 12, 10, 1, 2);
  const float large = std::numeric_limits<float>::max();
  for (const index::Spec& kind :
       {spec("ivfrabitq", "lists=5 bits=7"), spec("ivfpq", "lists=5 m=3 opq=1")}) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kInt8}) {
      CAPTURE(kind.kind);
      const auto index = make(kind, {type, 12, Distance::kCosine});
      std::vector<std::byte> elements(400 * bytes_per_vector(type, 12));
      for (std::size_t i = 0; i < rows.values.size(); ++i) {
        if (type == ElementType::kInt8) {
          elements[i] = static_cast<std::byte>(static_cast<int>(rows.values[i]) & 63);
        } else {
          std::memcpy(elements.data() + i * sizeof(float), &rows.values[i], sizeof(float));
        }
      }
      const MatrixView view{elements.data(), 400, 12, type};
      use_worker_threads();
      const auto learnt = index->trained()->train(*device, view, 400, nullptr, {});
      std::vector<std::byte> bytes(learnt->bytes().begin(), learnt->bytes().end());
      for (std::size_t i = 0; i < 5 * 12; ++i) {
        const float centroid = i % 3 == 0 ? -large : large;
        std::memcpy(bytes.data() + 64 + i * sizeof centroid, &centroid, sizeof centroid);
      }
      const auto forged = index->trained()->open(bytes);
      const Bytes codes = learnt->encode(*device, view, nullptr, nullptr);
      forged->check_codes(span_of(codes), 400);
      std::vector<std::byte> decoded(elements.size());
      forged->decode({span_of(codes), 400}, {0, 400}, decoded.data(), nullptr);
      if (type != ElementType::kFloat32) continue;
      for (std::size_t i = 0; i < rows.values.size(); ++i) {
        float element;
        std::memcpy(&element, decoded.data() + i * sizeof element, sizeof element);
        REQUIRE(std::isfinite(element));
      }
    }
  }
}
