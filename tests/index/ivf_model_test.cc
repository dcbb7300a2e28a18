// What ivfflat and ivfpq take as parameters, when they learn, and their models as bytes.
#include <doctest/doctest.h>

#include "index/clustering/model_space.h"
#include "index/ivf/options.h"
#include "index/recall/calibration.h"
#include "tests/support/ivf_fixture.h"

using namespace warplite;
using namespace warplite::testing;

namespace {

using index::ColumnShape;

constexpr ColumnShape kColumn{ElementType::kFloat32, 24, Distance::kL2};

std::string refusal(const index::Spec& spec, const ColumnShape& column = kColumn) {
  try {
    make(spec, column);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalid);
    return error.what();
  }
  return "";
}

ErrorKind opening(const index::Trained& trained, std::span<const std::byte> bytes) {
  try {
    trained.open(bytes);
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kOk;
}

}  // namespace

TEST_CASE("ivf: refusals name the parameter, what was expected and what came") {
  CHECK(refusal(spec("ivfpq", "m=5")) ==
        "index=ivfpq expects m=a divisor of 24, but \"5\" was given");
  CHECK(refusal(spec("ivfpq", "m=0")) ==
        "index=ivfpq expects m=a divisor of 24, but \"0\" was given");
  CHECK(refusal(spec("ivfpq", "bits=6")) ==
        "index=ivfpq expects bits=8 or 4, but \"6\" was given");
  CHECK(refusal(spec("ivfpq", "opq=yes")) ==
        "index=ivfpq expects opq=0 to 1, but \"yes\" was given");
  CHECK(refusal(spec("ivfpq", "refine=-1")) ==
        "index=ivfpq expects refine=0 to 10000, but \"-1\" was given");
  CHECK(refusal(spec("ivfflat", "lists=0")) ==
        "index=ivfflat expects lists=1 to 1048576, but \"0\" was given");
  CHECK(refusal(spec("ivfflat", "lists=16.5")) ==
        "index=ivfflat expects lists=1 to 1048576, but \"16.5\" was given");
  CHECK(refusal(spec("ivfflat", "lists=99999999999")) ==
        "index=ivfflat expects lists=1 to 1048576, but \"99999999999\" was given");
  CHECK(refusal(spec("ivfflat", "lists=16 nprobe=17")) ==
        "index=ivfflat expects nprobe=1 to 16, but \"17\" was given");
  CHECK(refusal(spec("ivfflat", "m=4")) ==
        "index=ivfflat takes the parameters lists, nprobe, recall, but \"m\" was given");
  CHECK(refusal(spec("ivfpq", "list=4")) ==
        "index=ivfpq takes the parameters lists, nprobe, recall, bits, m, opq, refine, but \"list\" was "
        "given; did you mean lists?");
  CHECK(refusal(spec("ivfpq"), {ElementType::kFloat32, 8, Distance::kL1}) ==
        "index=ivfpq needs distance=l2, cosine or ip, but distance=l1 was given");
  CHECK(refusal(spec("ivfflat"), {ElementType::kBit, 8, Distance::kHamming}) ==
        "index=ivfflat needs FLOAT, FLOAT16, BFLOAT16 or INT8 vectors, but the column holds BIT");
  CHECK(refusal(spec("ivfpq", "lists=16 m=24 bits=4 opq=1 nprobe=16 refine=0")).empty());
  CHECK(refusal(spec("ivfflat", "nprobe=64")).empty());
}

TEST_CASE("ivf: sub-spaces have four elements up to 256, then eight, or as near as divides") {
  const auto m = [](std::uint32_t dim, const std::string& text = "") {
    return index::parse_ivfpq(spec("ivfpq", text), {ElementType::kInt8, dim, Distance::kCosine}).m;
  };
  CHECK(m(128) == 32);
  CHECK(m(128, "bits=4") == 64);
  CHECK(m(256) == 64);
  CHECK(m(768) == 96);
  CHECK(m(768, "bits=4") == 192);
  CHECK(m(100) == 25);
  CHECK(m(7) == 1);  // of 1 and 7, 7 elements are nearer to 4
  CHECK(m(13, "bits=4") == 13);
  CHECK(m(1) == 1);
  CHECK(m(128, "m=8") == 8);
}

TEST_CASE("ivf: lists follow the table where they are not given") {
  const index::IvfOptions unasked, given{.lists = 1000, .recall = {}};
  CHECK(lists_for(unasked, 0) == 1);
  CHECK(lists_for(unasked, 100) == 3);  // a 32nd
  CHECK(lists_for(unasked, 10000) == 312);
  CHECK(lists_for(unasked, 1000000) == 4000);
  CHECK(lists_for(unasked, 100000000) == 40000);
  const index::IvfOptions coded{.recall = {}, .planes = 4};
  CHECK(lists_for(coded, 10000) == 250);
  CHECK(lists_for(coded, 1000000) == 2500);
  CHECK(lists_for(given, 10) == 1000);
  CHECK(lists_for(given, 100000000) == 1000);

  const auto sample = [](const std::string& kind, const std::string& text, std::uint64_t rows) {
    return make(spec(kind, text), kColumn)->trained()->sample_rows(rows);
  };
  CHECK(sample("ivfflat", "lists=10", 1000000) == 2560);
  CHECK(sample("ivfpq", "lists=10", 1000000) == 65536);  // for the codebooks
  CHECK(sample("ivfpq", "lists=10", 1000) == 1000);
  CHECK(sample("ivfflat", "", 1000000) == 1000000);
  CHECK(sample("ivfflat", "", 100000000) == 1 << 20);
}

TEST_CASE("ivf: tables learn by themselves once that is worth it") {
  const auto device = cpu::make_cpu_device();
  const auto wants = [](const std::string& text, std::uint64_t rows, const index::Model* model) {
    return make(spec("ivfflat", text), kColumn)->trained()->wants_training(rows, model);
  };
  CHECK_FALSE(wants("", 39999, nullptr));
  CHECK(wants("", 40000, nullptr));
  CHECK(wants("", 50000 - 8192, nullptr));  // of 50,000, whichever of them are not sealed
  CHECK_FALSE(wants("lists=4", 1023, nullptr));
  CHECK(wants("lists=4", 1024, nullptr));
  CHECK_FALSE(wants("lists=100", 6399, nullptr));
  CHECK(wants("lists=100", 6400, nullptr));

  const Floats rows = clustered(500, 24, 5, 1, 2);
  const Learnt learnt = learn(*device, spec("ivfflat"), Distance::kL2, rows.view());
  CHECK(learnt.model->table_rows() == 500);
  CHECK_FALSE(wants("", 7999, learnt.model.get()));
  CHECK(wants("", 8000, learnt.model.get()));
  CHECK_FALSE(wants("lists=15", 1000000, learnt.model.get()));
}

TEST_CASE("ivf: what a query gets that does not say") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(4000, 24, 5, 1, 2);
  const auto nprobe = [&](const std::string& text) {
    const Learnt learnt = learn(*device, spec("ivfflat", text), Distance::kL2, rows.view());
    return learnt.trained().default_nprobe(*learnt.model);
  };
  CHECK(nprobe("lists=100") == 12);
  CHECK(nprobe("lists=30") == 8);
  CHECK(nprobe("lists=5") == 5);
  CHECK(nprobe("lists=100 nprobe=3") == 3);
  CHECK(nprobe("nprobe=1000") == 125);  // as many lists as there are
  CHECK(make(spec("ivfpq"), kColumn)->trained()->default_refine() == 8);
  CHECK(make(spec("ivfpq", "refine=0"), kColumn)->trained()->default_refine() == 0);
}

TEST_CASE("ivf: too few rows are refused, and said") {
  const auto device = cpu::make_cpu_device();
  use_worker_threads();
  const Floats rows = clustered(20, 24, 2, 1, 2);
  const auto refuse = [&](const std::string& text, std::size_t count) -> std::string {
    MatrixView view = rows.view();
    view.rows = count;
    try {
      make(spec("ivfpq", text), kColumn)->trained()->train(*device, view, count, nullptr, {});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kInvalid);
      return error.what();
    }
    return "";
  };
  CHECK(refuse("lists=21", 20) ==
        "training lists=21 needs at least as many rows with a vector, but there are 20");
  CHECK(refuse("", 0) ==
        "training lists=1 needs at least as many rows with a vector, but there are 0");
  CHECK(refuse("lists=20", 20).empty());
  CHECK(refuse("", 1).empty());
}

TEST_CASE("ivf: a model read back is the one that was written") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(600, 24, 5, 1, 2);
  for (const auto& [kind, text] : {std::pair{"ivfflat", "lists=7"}, {"ivfpq", "lists=7 m=6"},
                                   {"ivfpq", "lists=7 bits=4 opq=1"}}) {
    CAPTURE(text);
    const Learnt learnt = learn(*device, spec(kind, text), Distance::kCosine, rows.view());
    const auto again = index::inverted(learnt.trained().open(learnt.model->bytes()));
    CHECK(std::ranges::equal(again->bytes(), learnt.model->bytes()));
    CHECK(again->shape().lists == 7);
    CHECK(again->shape().m == learnt.model->shape().m);
    CHECK(again->shape().bits == learnt.model->shape().bits);
    CHECK(again->trained_on() == 600);
    CHECK(again->table_rows() == 600);
    CHECK((again->codebooks() == nullptr) == (std::string(kind) == "ivfflat"));
    CHECK((again->mean() == nullptr) == (std::string(kind) == "ivfflat"));
    const Bytes before = learnt.model->encode(*device, rows.view(), nullptr, nullptr);
    const Bytes after = again->encode(*device, rows.view(), nullptr, nullptr);
    CHECK(std::ranges::equal(span_of(before), span_of(after)));
  }
}

TEST_CASE("ivf: damage to a model is found") {
  const auto device = cpu::make_cpu_device();
  const Floats rows = clustered(300, 4, 3, 1, 2);
  const Learnt learnt =
      learn(*device, spec("ivfpq", "lists=3 m=2 bits=4 opq=1"), Distance::kL2, rows.view());
  const std::vector<std::byte> good(learnt.model->bytes().begin(), learnt.model->bytes().end());
  CHECK(opening(learnt.trained(), good) == ErrorKind::kOk);
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(opening(learnt.trained(), std::span(good).first(size)) == ErrorKind::kCorrupt);
  }
  std::vector<std::byte> longer = good;
  longer.push_back({});
  CHECK(opening(learnt.trained(), longer) == ErrorKind::kCorrupt);
  // Of the header, only counts of rows may be anything, and tables may be of each list.
  for (std::size_t at = 0; at < 64; ++at) {
    for (const int bit : {0, 3, 7}) {
      std::vector<std::byte> bad = good;
      bad[at] ^= static_cast<std::byte>(1 << bit);
      const bool counts = (at >= 32 && at < 48) || (at == 60 && bit == 0);
      CAPTURE(at);
      CHECK(opening(learnt.trained(), bad) == (counts ? ErrorKind::kOk : ErrorKind::kCorrupt));
    }
  }
  // Nor when recall was measured, at the end.
  const std::size_t measured = good.size() - learnt.model->calibration()->bytes().size();
  for (std::size_t at = 64; at < good.size(); at += sizeof(float)) {
    if (at >= measured + 40 && at < measured + 56) continue;
    for (const float value : {std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<std::byte> bad = good;
      std::memcpy(bad.data() + at, &value, sizeof value);
      CHECK(opening(learnt.trained(), bad) == ErrorKind::kCorrupt);
    }
  }
  for (const char* text : {"lists=3 m=2 bits=4", "lists=3 m=4 bits=4 opq=1", "lists=3 m=2 opq=1",
                           "lists=2 m=2 bits=4 opq=1"}) {
    const auto other = make(spec("ivfpq", text), {ElementType::kFloat32, 4, Distance::kL2});
    CHECK(opening(*other->trained(), good) == ErrorKind::kCorrupt);
  }
  const auto flat = make(spec("ivfflat"), {ElementType::kFloat32, 4, Distance::kL2});
  CHECK(opening(*flat->trained(), good) == ErrorKind::kCorrupt);
  const auto cosine = make(spec("ivfpq", "lists=3 m=2 bits=4 opq=1"),
                           {ElementType::kFloat32, 4, Distance::kCosine});
  CHECK(opening(*cosine->trained(), good) == ErrorKind::kCorrupt);
}

TEST_CASE("ivf: model space, and back") {
  use_worker_threads();
  const std::vector<float> quarter_turn = {0, 1, -1, 0};
  const std::vector<float> rows = {3, 4, 0, 0, -6, 8};
  const auto bytes = [](const std::vector<float>& v) {
    return reinterpret_cast<const std::byte*>(v.data());
  };
  std::vector<float> model(6), back(6);
  index::to_model_space({bytes(rows), 3, 2, ElementType::kFloat32}, Distance::kCosine,
                        {quarter_turn.data()}, model.data());
  CHECK(model == std::vector<float>{-0.8f, 0.6f, 0, 0, -0.8f, -0.6f});
  index::from_model_space(model.data(), 3, 2, ElementType::kFloat32, Distance::kCosine,
                          {quarter_turn.data()}, reinterpret_cast<std::byte*>(back.data()));
  CHECK(back == std::vector<float>{0.6f, 0.8f, 0, 0, -0.6f, 0.8f});

  // What float32 cannot hold is as large as it can be.
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> eighth_turn = {0.8f, 0.6f, -0.6f, 0.8f};
  const std::vector<float> huge = {3.3e38f, 3.3e38f, -3.3e38f, -3.3e38f, 3.3e38f, -3.3e38f};
  index::to_model_space({bytes(huge), 3, 2, ElementType::kFloat32}, Distance::kL2,
                        {eighth_turn.data()}, model.data());
  CHECK(model[1] == kLargest);
  CHECK(model[3] == -kLargest);
  for (const float x : model) CHECK(std::isfinite(x));

  std::int8_t small[6] = {3, 4, 0, 0, -6, 8};
  index::to_model_space({reinterpret_cast<std::byte*>(small), 3, 2, ElementType::kInt8},
                        Distance::kL2, {}, model.data());
  CHECK(model == rows);
  index::from_model_space(model.data(), 3, 2, ElementType::kInt8, Distance::kCosine, {},
                          reinterpret_cast<std::byte*>(small));
  CHECK(std::vector<int>(small, small + 6) == std::vector<int>{95, 127, 0, 0, -95, 127});
  const std::vector<float> wide = {200.4f, -1e9f};
  index::from_model_space(wide.data(), 1, 2, ElementType::kInt8, Distance::kL2, {},
                          reinterpret_cast<std::byte*>(small));
  CHECK(static_cast<int>(small[0]) == 127);
  CHECK(static_cast<int>(small[1]) == -128);
  std::uint16_t halves[2];
  index::from_model_space(wide.data(), 1, 2, ElementType::kFloat16, Distance::kL2, {},
                          reinterpret_cast<std::byte*>(halves));
  CHECK(half_to_float(halves[0]) == 200.375f);
  CHECK(half_to_float(halves[1]) == -65504);
}
