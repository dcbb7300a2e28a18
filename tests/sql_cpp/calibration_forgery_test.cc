// Models that say of recall what nobody measured, with lengths and checksums that are right: searches answer, or say
// that the file is damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"
#include "index/recall/calibration.h"
#include "storage/codec/block_codec.h"
#include "tests/support/forgery.h"
#include "tests/support/long_run.h"
#include "tests/support/sql_session.h"

namespace warplite::testing {
namespace {

using index::Calibration;
using Image = std::vector<unsigned char>;

constexpr const char* kIndexes[] = {"ivfrabitq(lists=32, bits=2, recall=0.9)", "ivfpq(lists=32, m=4, recall=0.9)",
                                    "ivfflat(lists=32, recall=0.9)"};
constexpr int kRows = 9000;

Image table_with(const std::string& index) {
  const SqlSession session(":memory:");
  session.must_run("CREATE VIRTUAL TABLE t USING warp(e FLOAT[8] index=" + index + ", n INTEGER);"
                   "WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < " +
                   std::to_string(kRows) +
                   ") INSERT INTO t(e, n) SELECT printf('[%d,%d,%d,%d,%d,%d,%d,%d]', i*7919%251, i*6007%241, i*4099%239, "
                   "i*7001%233, i%17*9, i%13*9, i%11*9, i%7*9), i % 100 FROM i; INSERT INTO t(t) VALUES ('train')");
  return session.image();
}

// The model's block, and in it the bytes of a calibration, its last.
class Model {
 public:
  explicit Model(const SqlSession& session) : forgery_(session.db(), "t"), block_(forgery_.block(0)) {
    std::uint64_t size = 0;
    std::memcpy(&size, block_.data() + kSizeAt, sizeof size);
    REQUIRE(size < block_.size());
    calibration_ = block_.substr(block_.size() - size);
    block_.resize(block_.size() - size);
  }
  std::string& calibration() { return calibration_; }
  void put() {
    const std::uint64_t size = calibration_.size();
    std::memcpy(block_.data() + kSizeAt, &size, sizeof size);
    forgery_.put_block(0, block_ + calibration_);
  }

 private:
  static constexpr std::size_t kSizeAt = storage::kBlockHeader + 48;

  Forgery forgery_;
  std::string block_, calibration_;
};

// Answers hold as many rows as there are, each at its distance and within the filter.
void check_answers(const SqlSession& session) {
  const std::string query = "'[100,20,30,200,50,60,20,30]'";
  for (const auto& [filter, passing] : {std::pair{"1", kRows}, {"n < 50", kRows / 2}, {"n = 7", kRows / 100}}) {
    for (const int k : {1, 100}) {
      for (const char* recall : {"0.5", "0.99"}) {
        const std::string sql = std::string("SELECT count(*), total(abs(distance - vec_distance_l2(e, ") + query +
                                ")) > 0.001), total(NOT (" + filter + ")) FROM t WHERE e MATCH " + query +
                                " AND recall = " + recall + " AND k = " + std::to_string(k) + " AND " + filter;
        const SqlResult result = session.run(sql);
        INFO(sql);
        INFO(result.message);
        if (!result.ok()) {
          CHECK(result.code == SQLITE_CORRUPT_VTAB);
          CHECK_FALSE(contains(result.message, "internal check"));
          return;
        }
        CHECK(result.rows.at(0) == std::to_string(std::min(k, passing)) + "|0.0|0.0");
      }
    }
  }
  // Rows that are unlike the others have recall measured again.
  const SqlResult changed = session.run(
      "INSERT INTO t(e, n) SELECT printf('[%d,0,0,9000,0,0,0,%d]', rowid, rowid % 7), 7 FROM t WHERE rowid <= 900;"
      "INSERT INTO t(t) VALUES ('optimize'); INSERT INTO t(t) VALUES ('integrity-check')");
  INFO(changed.message);
  CHECK((changed.ok() || changed.code == SQLITE_CORRUPT_VTAB));
}

void check_forged(const Image& image, const std::function<void(std::string&)>& change) {
  const SqlSession session(image);
  Model model(session);
  change(model.calibration());
  model.put();
  check_answers(session);
}

// A value that is telling, or one near the old one or between 0 and 1.
std::uint32_t forged(std::uint32_t old, std::mt19937& random) {
  static constexpr std::uint32_t kTelling[] = {0,          1,          0xffffffffu, 0x7f800000u, 0x7fc00000u, 0x3f800000u,
                                               0x7f7fffffu, 0x80000000u, 0x00100000u};
  const unsigned how = random() % 16;
  if (how < std::size(kTelling)) return kTelling[how];
  if (how < 12) return old + static_cast<std::uint32_t>(random() % 5) - 2;
  const float part = static_cast<float>(random() % 1025) / 1024;
  std::memcpy(&old, &part, sizeof old);
  return old;
}

void change_words(std::string& bytes, std::mt19937& random) {
  for (unsigned n = 1 + random() % 3; n > 0; --n) {
    constexpr std::size_t kFront = 24;  // the numbers of what follows
    const std::size_t words = bytes.size() / 4;
    const std::size_t at = 4 * (random() % (random() % 4 == 0 ? std::min(words, kFront) : words));
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    word = forged(word, random);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  const unsigned end = random() % 16;
  if (end == 0) bytes.resize(random() % (bytes.size() + 1));
  if (end == 1) bytes.append(4 * (1 + random() % 9), '\0');
}

void fill(std::vector<Calibration::Table>& tables, const index::Found& found) {
  for (Calibration::Table& table : tables) std::ranges::fill(table.found, found);
}

// What no search may trust, though each number can be.
const std::vector<std::function<void(Calibration&)>> kUnlikely = {
    [](Calibration& c) { c.lists = {}; },
    [](Calibration& c) { c.lists.shares.clear(), c.lists.found.clear(); },
    [](Calibration& c) { c.lists.looks.clear(), c.lists.found.clear(); },
    [](Calibration& c) { c.lists = {}, c.contrasts.lists.assign(c.contrasts.lists.size(), {}); },
    [](Calibration& c) { c.codes = {}, c.contrasts.codes.assign(c.contrasts.codes.size(), {}); },
    [](Calibration& c) {
      c.codes.looks.clear(), c.codes.found.clear();
      c.contrasts.codes.assign(c.contrasts.codes.size(), {});
    },
    [](Calibration& c) {
      if (!c.codes.looks.empty()) c.codes.looks.back() = 1u << 20;
    },
    [](Calibration& c) { std::ranges::fill(c.lists.found, index::Found{0, 0}); },
    [](Calibration& c) { std::ranges::fill(c.lists.found, index::Found{1, 0}); },
    [](Calibration& c) { std::ranges::fill(c.codes.found, index::Found{0, 0}); },
    [](Calibration& c) { fill(c.contrasts.lists, {0, 0}); },
    [](Calibration& c) { fill(c.contrasts.lists, {1, 1}); },
    [](Calibration& c) { fill(c.contrasts.codes, {0, 0}); },
    [](Calibration& c) { std::ranges::fill(c.contrasts.limits, 0.0f); },
    [](Calibration& c) { std::ranges::fill(c.contrasts.limits, 3e38f); },
    [](Calibration& c) { std::ranges::fill(c.spread.radii, 0.0f); },
    [](Calibration& c) { std::ranges::fill(c.spread.radii, 3e38f); },
    [](Calibration& c) { std::ranges::fill(c.spread.parts, 0.0f); },
    [](Calibration& c) { std::ranges::fill(c.spread.parts, 1.0f); },
    [](Calibration& c) { c.spread = {}; },
    [](Calibration& c) { c.contrasts = {}; },
    [](Calibration& c) { c.usual_nprobe = 1u << 20; },
    [](Calibration& c) { c.usual_nprobe = 0, c.present = {0, 0}, c.trained = {1, 0}; },
    [](Calibration& c) { c.table = {~std::uint64_t{0}, INT64_MAX}; },
};

}  // namespace

TEST_CASE("models that say of recall what nobody measured are searched, or are damage") {
  std::vector<Image> images;
  for (const char* index : kIndexes) images.push_back(table_with(index));
  for (std::size_t at = 0; at < images.size(); ++at) {
    CAPTURE(kIndexes[at]);
    check_forged(images[at], [](std::string& bytes) {
      const Calibration measured = Calibration::read(std::as_bytes(std::span(bytes)));
      CHECK(measured.spread.known());
      CHECK(measured.contrasts.known());
    });
    for (std::size_t i = 0; i < kUnlikely.size(); ++i) {
      if (!due(i + kUnlikely.size() * at, images.size())) continue;
      CAPTURE(i);
      check_forged(images[at], [&](std::string& bytes) {
        Calibration calibration = Calibration::read(std::as_bytes(std::span(bytes)));
        kUnlikely[i](calibration);
        const Bytes written = calibration.bytes();
        bytes.assign(reinterpret_cast<const char*>(written.data()), written.size());
      });
    }
  }
  // Those of RaBitQ codes are read for most.
  const unsigned changes = long_run() ? 6000 : 30;
  for (unsigned seed = 0; seed < changes; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    check_forged(images.front(), [&](std::string& bytes) { change_words(bytes, random); });
  }
}

}  // namespace warplite::testing
