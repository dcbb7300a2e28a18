// Signatures as segments keep them: packed and unpacked, as postings, as bits, and damaged.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "index/lsh/codes.h"
#include "tests/support/lsh_fixture.h"
#include "tests/support/tile_checks.h"

using namespace warplite;
using namespace warplite::index;
using namespace warplite::testing;

namespace {

constexpr std::uint32_t kDim = 6;
// Two words of presence, the second one not full.
constexpr std::uint32_t kRows = 101;

struct Shape {
  LshFamily family;
  std::uint32_t m, buckets;
};
constexpr Shape kShapes[] = {{LshFamily::kE2lsh, 7, 8192},  {LshFamily::kE2lsh, 1, 65536},
                             {LshFamily::kRbh, 20, 65537},  {LshFamily::kSimhash, 1, 2},
                             {LshFamily::kSimhash, 237, 2}, {LshFamily::kSimhash, 64, 2}};

// A model and rows, of which the third and each tenth have no vector.
struct Coded {
  Floats rows = clustered(kRows, kDim, 5, 1, 2);
  std::shared_ptr<const LshModel> model;
  Bitmap present{kRows, true};
  Bytes codes;

  explicit Coded(const Shape& shape) {
    use_worker_threads();
    LshOptions options = lsh_options(shape.family, shape.m);
    options.buckets = shape.buckets;
    model = train_lsh(options, lsh_column(shape.family, kDim), rows.view(), kRows);
    present.reset(2);
    for (std::uint32_t row = 9; row < kRows; row += 10) present.reset(row);
    codes = encode(&present);
  }

  Bytes encode(const Bitmap* which) const {
    const auto device = cpu::make_cpu_device();
    return static_cast<const Model&>(*model).encode(*device, rows.view(), which, nullptr);
  }
  std::vector<std::uint32_t> signatures() const {
    std::vector<std::uint32_t> out(std::size_t{kRows} * model->m());
    model->signature(rows.view(), &present, out.data());
    return out;
  }
  ErrorKind checking(std::span<const std::byte> bytes, std::uint32_t count = kRows) const {
    try {
      static_cast<const Model&>(*model).check_codes(bytes, count);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kOk;
  }
};

std::vector<std::byte> copy_of(const Bytes& bytes) {
  return {bytes.data(), bytes.data() + bytes.size()};
}

// The keywords of each row, from the bytes of its tile.
std::vector<std::set<compute::Keyword>> keywords_of(const Postings& tile) {
  const auto at = compute::TileLayout::of(tile.keywords, tile.postings);
  const std::byte* const bytes = tile.bytes.data();
  const auto* keys = reinterpret_cast<const compute::Keyword*>(bytes + at.keys);
  const auto* begins = reinterpret_cast<const std::uint32_t*>(bytes + at.begins);
  const auto* rows = reinterpret_cast<const std::uint16_t*>(bytes + at.rows);
  std::vector<std::set<compute::Keyword>> out(tile.rows);
  for (std::uint32_t i = 0; i < tile.keywords; ++i) {
    for (std::uint32_t p = begins[i]; p < begins[i + 1]; ++p) out[rows[p]].insert(keys[i]);
  }
  return out;
}

}  // namespace

TEST_CASE("lsh codes: what was packed is unpacked, rows without a vector are told apart") {
  for (const Shape& shape : kShapes) {
    const Coded coded(shape);
    CHECK(coded.checking(span_of(coded.codes)) == ErrorKind::kOk);
    const SignatureLayout at(*coded.model, kRows);
    CHECK(coded.codes.size() == at.size());
    const std::size_t each = shape.family == LshFamily::kSimhash ? (shape.m + 63) / 64 * 8
                             : shape.buckets <= 65536            ? 2 * shape.m
                                                                 : 4 * shape.m;
    CHECK(at.size() == 16 + 2 * 8 + kRows * each);
    const std::vector<std::uint32_t> expected = coded.signatures();
    std::vector<std::uint32_t> read(shape.m);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      at.unpack(coded.codes.data() + at.buckets_at() + row * at.stride(), read.data());
      const std::uint32_t* const first = expected.data() + row * shape.m;
      const std::vector<std::uint32_t> zeros(shape.m);
      const bool there = coded.present.test(row);
      CHECK(read == (there ? std::vector<std::uint32_t>(first, first + shape.m) : zeros));
    }
    const Bitmap present = coded_rows(*coded.model, {span_of(coded.codes), kRows});
    CHECK(present.count() == coded.present.count());
    const Bytes all = coded.encode(nullptr);
    CHECK(coded_rows(*coded.model, {span_of(all), kRows}).all());
  }
}

TEST_CASE("lsh codes: postings have a row's keywords, as any builder makes them") {
  for (const Shape& shape : kShapes) {
    const Coded coded(shape);
    const CodedBlock block{span_of(coded.codes), kRows};
    if (shape.family == LshFamily::kSimhash) continue;
    int polls = 0;
    const Postings tile = signature_postings(*coded.model, block, [&] { ++polls; });
    CHECK(polls > 0);
    CHECK(tile.rows == kRows);
    CHECK(tile.postings == coded.present.count() * shape.m);
    PostingsBuilder builder;
    check_tile(span_of(tile.bytes), tile.keywords, tile.postings, kRows);
    const std::vector<std::set<compute::Keyword>> found = keywords_of(tile);
    const std::vector<std::uint32_t> expected = coded.signatures();
    for (std::uint32_t row = 0; row < kRows; ++row) {
      std::vector<compute::Keyword> keywords;
      coded.model->append_keywords(expected.data() + row * shape.m, keywords);
      CHECK(found[row] == std::set<compute::Keyword>(keywords.begin(), keywords.end()));
      builder.add_row(keywords);
    }
    CHECK(copy_of(builder.finish().bytes) == copy_of(tile.bytes));
  }
}

TEST_CASE("lsh codes: bits are those of signatures, of rows and of queries") {
  for (const Shape& shape : kShapes) {
    if (shape.family != LshFamily::kSimhash) continue;
    const Coded coded(shape);
    const CodedBlock block{span_of(coded.codes), kRows};
    const auto stored = bit_vectors(*coded.model, block);
    const std::vector<std::byte> asked = bit_vectors(*coded.model, coded.rows.view());
    const std::size_t stride = signature_bits(*coded.model) / 8;
    REQUIRE(stored.size() == kRows * stride);
    REQUIRE(asked.size() == kRows * stride);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      if (!coded.present.test(row)) continue;
      CHECK(std::memcmp(stored.data() + row * stride, asked.data() + row * stride, stride) == 0);
    }
  }
}

TEST_CASE("lsh codes: damage is found") {
  for (const Shape& shape : kShapes) {
    const Coded coded(shape);
    const std::vector<std::byte> good = copy_of(coded.codes);
    const SignatureLayout at(*coded.model, kRows);
    const auto damaged = [&](std::size_t place, unsigned value) {
      std::vector<std::byte> bytes = good;
      bytes[place] = static_cast<std::byte>(value);
      return coded.checking(bytes);
    };
    for (std::size_t i = 0; i < 16; ++i) {
      CHECK(damaged(i, std::to_integer<unsigned>(good[i]) ^ 1) == ErrorKind::kCorrupt);
    }
    CHECK(coded.checking(std::span(good).first(good.size() - 1)) == ErrorKind::kCorrupt);
    CHECK(coded.checking({}) == ErrorKind::kCorrupt);
    CHECK(coded.checking(good, kRows - 1) == ErrorKind::kCorrupt);
    // A bit behind the last row, and a bucket of a row that is not there.
    CHECK(damaged(at.present_at() + 15, 0x80) == ErrorKind::kCorrupt);
    CHECK(damaged(at.buckets_at() + 2 * at.stride(), 1) == ErrorKind::kCorrupt);
    // A bucket that there is not, and one that there is.
    const std::size_t last = at.buckets_at() + at.stride() - 1;  // the highest byte of row 0
    const bool full = shape.family == LshFamily::kSimhash ? shape.m % 64 == 0
                                                          : shape.buckets == 65536;
    CHECK(damaged(last, 0xff) == (full ? ErrorKind::kOk : ErrorKind::kCorrupt));
    CHECK(damaged(at.buckets_at(), std::to_integer<unsigned>(good[at.buckets_at()]) ^ 1) ==
          ErrorKind::kOk);
  }
}

TEST_CASE("lsh codes: hashing is interrupted") {
  struct Stop : compute::Cancellation {
    bool requested() override { return true; }
  } stop;
  const Coded coded(kShapes[0]);
  const auto device = cpu::make_cpu_device();
  const Model& model = *coded.model;
  CHECK_THROWS_WITH_AS(model.encode(*device, coded.rows.view(), nullptr, &stop), "interrupted",
                       Error);
}

TEST_CASE("lsh: as a kind of index that learns") {
  const ColumnShape l2{ElementType::kFloat32, kDim, Distance::kL2};
  const ColumnShape cosine{ElementType::kFloat32, kDim, Distance::kCosine};
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(1200, kDim, 5, 1, 2);
  const auto index = [&](const std::string& text, const ColumnShape& column) {
    auto made = lsh_kind().make(spec("lsh", text), column);
    CHECK(made->trained() != nullptr);
    CHECK(made->trained()->inverted() == nullptr);
    return made;
  };
  const auto chosen = index("", l2), given = index("width=3", l2), signs = index("", cosine);
  const auto of = [](const auto& made) -> const Trained& { return *made->trained(); };
  CHECK(of(chosen).sample_rows(20) == 20);
  CHECK(of(chosen).sample_rows(1000000) == 1000);
  CHECK(of(given).sample_rows(1000000) == 0);
  CHECK(of(signs).sample_rows(1000000) == 0);
  CHECK(of(chosen).default_refine() == 8);
  CHECK(of(index("refine=3", l2)).default_refine() == 3);
  const auto train = [&](const auto& made, std::size_t count) {
    const MatrixView sample{rows.view().data, count, kDim, ElementType::kFloat32};
    return of(made).train(*device, sample, count, nullptr, {});
  };
  CHECK_THROWS_AS(train(chosen, 1), Error);
  for (const auto* one : {&chosen, &given, &signs}) {
    CHECK_FALSE(of(*one).wants_training(999, nullptr));
    CHECK(of(*one).wants_training(1000, nullptr));
    const auto model = train(*one, 1000);
    CHECK(model->inverted() == nullptr);
    CHECK(hashed(*model).m() == 237);
    CHECK(inverted(model) == nullptr);
    CHECK_FALSE(of(*one).wants_training(1000000, model.get()));
    const auto again = of(*one).open(model->bytes());
    CHECK(hashed(*again).m() == 237);
    CHECK(again->trained_on() == 1000);
    CHECK(again->coding_bytes() == 0);
  }
  // A width from few rows is chosen again once there are many.
  const auto few = train(chosen, 20);
  CHECK_FALSE(of(chosen).wants_training(319, few.get()));
  CHECK(of(chosen).wants_training(320, few.get()));
  CHECK_FALSE(of(given).wants_training(1000000, train(given, 0).get()));
}
