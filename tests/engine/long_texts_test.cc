// Texts so long that they, and not the number of rows, say what a segment and the tail hold.
#include <algorithm>
#include <string>

#include "tests/support/engine_fixture.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kSegmentTexts = 4000;

TableOptions make_options(bool partition) {
  TableOptions options;
  options.layout.vectors = {{ElementType::kFloat32, 4}};
  options.layout.plains = {PlainType::kText, PlainType::kInteger};
  if (partition) options.layout.partitions = {1};
  options.layout.segment_rows = 1024;
  options.most_texts = kSegmentTexts;
  options.plain_names = {"text", "number"};
  options.vectors = {{"e", Distance::kL2, {}}};
  options.tail_rows = 512;
  return options;
}

// Of which no dictionary makes less.
std::string text_of(RowId rowid, std::size_t bytes) {
  std::string text = std::to_string(rowid);
  while (text.size() < bytes)
    text += static_cast<char>('a' + (rowid * 31 + static_cast<RowId>(text.size())) % 26);
  return text;
}

class Texts : public TableSession {
 public:
  explicit Texts(bool partition) : TableSession(make_options(partition)) {}

  void insert(std::size_t bytes) {
    const RowId rowid = next_++;
    const TestRow row{
        {std::string(16, '\0')}, {text_of(rowid, bytes), std::to_string(rowid % 3)}, {}};
    REQUIRE(insert_row(row, rowid).has_value());
    expected_[rowid] = row;
  }
  void compare() {
    CHECK(contents_of(*table().view()) == expected_);
    CHECK(table().integrity_check().empty());
  }
  std::int64_t longest_block() { return db().integer("SELECT max(length(data)) FROM t_blocks"); }
  std::int64_t segments() { return db().integer("SELECT count(*) FROM t_segments"); }
  std::int64_t newest() { return db().integer("SELECT max(id) FROM t_segments"); }
  std::int64_t tail_texts() { return db().integer("SELECT total(length(c0)) FROM t_tail"); }

 private:
  Contents expected_;
  RowId next_ = 1;
};

constexpr std::int64_t kMostOfBlock =
    static_cast<std::int64_t>(kSegmentTexts) + 1000;  // with its lengths

}  // namespace

TEST_CASE("long texts make segments of fewer rows, whatever writes these") {
  for (const bool partition : {false, true}) {
    Texts texts(partition);
    SUBCASE("one transaction") {
      texts.begin();
      for (int i = 0; i < 300; ++i) texts.insert(150);
      texts.commit();
    }
    SUBCASE("many, of which each leaves its rows in the tail") {
      for (int i = 0; i < 100; ++i) {
        texts.begin();
        for (int row = 0; row < 3; ++row) texts.insert(150);
        texts.commit();
        CHECK(texts.tail_texts() <= static_cast<std::int64_t>(kSegmentTexts));
      }
    }
    texts.compare();
    CHECK(texts.segments() > 5);
    CHECK(texts.longest_block() < kMostOfBlock);
    texts.begin();
    texts.table().optimize();
    texts.commit();
    texts.compare();
    CHECK(texts.longest_block() < kMostOfBlock);
    CHECK(texts.segments() < 300 * 150 / static_cast<std::int64_t>(kSegmentTexts) + 8);
    // What texts have filled is not written anew.
    const std::int64_t newest = texts.newest();
    texts.begin();
    texts.table().optimize();
    texts.commit();
    CHECK(texts.newest() == newest);
    texts.begin();
    texts.table().rebuild();
    texts.commit();
    texts.compare();
    CHECK(texts.longest_block() < kMostOfBlock);
  }
}

TEST_CASE("a text longer than a segment's has one of its own") {
  Texts texts(false);
  texts.begin();
  for (const std::size_t bytes : {100u, 20000u, 100u, 100u, 30000u, 5000u, 100u})
    texts.insert(bytes);
  texts.commit();
  texts.compare();
  texts.begin();
  texts.table().rebuild();
  texts.commit();
  texts.compare();
  CHECK(texts.longest_block() < 31000);
}

}  // namespace warplite::engine
