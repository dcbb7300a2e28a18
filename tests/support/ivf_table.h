// What tests of tables whose indexes learn share: a small table with an ivfflat, an ivfpq and a
// flat column, and questions that are answered through the index and exactly.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/search.h"
#include "tests/support/engine_fixture.h"

namespace warplite::engine {

inline constexpr std::uint32_t kDim = 8;
inline constexpr std::size_t kAllOf = 100000;  // candidates a hit: all rows of these tables

inline TableOptions ivf_options(std::uint32_t segment_rows = 16) {
  TableOptions options;
  options.layout.vectors = {{ElementType::kFloat32, kDim},
                            {ElementType::kFloat32, kDim},
                            {ElementType::kFloat32, kDim}};
  options.layout.plains = {PlainType::kInteger};
  options.plain_names = {"number"};
  options.vectors = {{"flat", Distance::kL2, {"ivfflat", {{"lists", "4"}}}},
                     {"pq", Distance::kCosine, {"ivfpq", {{"lists", "3"}, {"m", "4"}}}},
                     {"plain", Distance::kL2, {}}};
  options.rowid_name = "id";
  options.layout.segment_rows = segment_rows;
  options.tail_rows = 8;
  options.flush_bytes = 2000;
  return options;
}

// One table on one connection, with the calls that SQLite makes.
class IvfSession {
 public:
  IvfSession(const std::string& path, const TableOptions& options, bool create)
      : options_(options), db_(path) {
    if (!create) {
      reopen();
      return;
    }
    db_.run("BEGIN");
    table_ = Collection::create(db_.get(), "main", "t", options_);
    table_->begin();
    commit();
  }
  ~IvfSession() { rollback(); }

  Database& db() { return db_; }
  Collection& table() { return *table_; }
  bool in_transaction() { return sqlite3_get_autocommit(db_.get()) == 0; }

  void begin() {
    if (in_transaction()) return;
    db_.run("BEGIN IMMEDIATE");
    table_->begin();
  }
  void commit() {
    if (!in_transaction()) return;
    table_->sync();
    db_.run("COMMIT");
    table_->commit();
  }
  void rollback() {
    if (!in_transaction()) return;
    db_.run("ROLLBACK");
    table_->rollback();
  }
  void reopen() { table_ = Collection::open(db_.get(), "main", "t", options_); }

  std::optional<RowId> insert(std::mt19937& random, std::optional<RowId> rowid = std::nullopt) {
    const TestRow row = random_row(random);
    const BorrowedRow borrowed(options_.layout, row, rowid);
    return table_->insert(borrowed.get(), OnConflict::kReplace);
  }
  void insert_many(std::mt19937& random, int count) {
    for (int i = 0; i < count; ++i) insert(random);
  }
  void update(std::mt19937& random, RowId rowid) {
    const TestRow row = random_row(random);
    const BorrowedRow borrowed(options_.layout, row, rowid);
    table_->update(rowid, borrowed.get(), OnConflict::kReplace);
  }
  void train() { table_->train(nullptr, {}); }

  static std::string random_vector(std::mt19937& random) {
    std::string bytes(kDim * sizeof(float), '\0');
    const float center = static_cast<float>(random() % 3) * 20;
    for (std::size_t i = 0; i < kDim; ++i) {
      const float value = center + static_cast<float>(random() % 64) / 8;
      std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
    }
    return bytes;
  }
  TestRow random_row(std::mt19937& random) const {
    TestRow row;
    for (std::size_t i = 0; i < options_.layout.vectors.size(); ++i) {
      row.vectors.push_back(random() % 9 == 0 ? std::nullopt
                                              : std::optional(random_vector(random)));
    }
    row.plains.push_back(std::to_string(random() % 50));
    return row;
  }

 private:
  TableOptions options_;
  Database db_;
  std::shared_ptr<Collection> table_;
};

// What `body` throws.
template <typename Body>
std::string thrown(ErrorKind kind, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

// What to ask.
struct Question {
  std::size_t column = 0;
  std::size_t k = 5;
  std::size_t queries = 2;
  unsigned seed = 1;
  std::optional<std::int64_t> below = std::nullopt;  // number < this
  std::uint32_t nprobe = 0;
  std::optional<std::size_t> refine = std::nullopt;
  bool exact = false;
  std::string device = {};
  std::optional<double> recall = std::nullopt;
};

using Hits = std::vector<std::vector<std::pair<double, RowId>>>;

inline Hits ask(const View& view, const Collection& table, const Question& question) {
  std::mt19937 random(question.seed);
  std::string vectors;
  for (std::size_t i = 0; i < question.queries; ++i) vectors += IvfSession::random_vector(random);
  SearchRequest request;
  request.column = question.column;
  request.distance = table.options().vectors[question.column].distance;
  request.queries = {reinterpret_cast<const std::byte*>(vectors.data()), question.queries, kDim,
                     ElementType::kFloat32};
  request.nprobe = question.nprobe;
  request.refine = question.refine;
  request.exact = question.exact;
  request.device = question.device;
  request.recall = question.recall;
  Filter filter;
  if (question.below) {
    filter.push_back({0, Comparison::kLess, {Value(Cell::of(*question.below))}});
  }
  compute::HitTable found = nearest(view, Selection(view, filter), table.index(question.column),
                                    request, question.k);
  Hits hits;
  for (std::size_t i = 0; i < question.queries; ++i) {
    auto& row = hits.emplace_back();
    for (const Hit& hit : found.sorted(i)) {
      row.emplace_back(hit.distance, hit.rowid);
      REQUIRE(view.rowid({hit.block, hit.row}) == hit.rowid);
    }
  }
  return hits;
}

inline Question exactly(Question question) {
  question.exact = true;
  return question;
}

// Everything probed and refined.
inline Question fully(Question question) {
  question.nprobe = 4;
  question.refine = kAllOf;
  return question;
}

inline void compare(const View& view, const Collection& table, const Question& question) {
  CAPTURE(question.column);
  CAPTURE(question.k);
  CHECK(ask(view, table, fully(question)) == ask(view, table, exactly(question)));
}

// Whether any row is coded.
inline bool has_codes(const View& view, std::size_t column) {
  const Stamp model = view.model(column);
  if (model.is_null()) return false;
  for (std::size_t i = 0; i < view.parts(); ++i) {
    if (!view.part(i).codes(column, model).is_null()) return true;
  }
  return false;
}

// Says that it is to end from the n-th question on.
class EndsAfter : public compute::Cancellation {
 public:
  explicit EndsAfter(int questions) : left_(questions) {}
  bool requested() override { return --left_ < 0; }
  bool has_ended() const { return left_ < 0; }
  int left() const { return left_; }

 private:
  int left_;
};

class EndsWhenTold : public compute::Cancellation {
 public:
  bool requested() override { return ended_; }
  void end() { ended_ = true; }
  bool has_ended() const { return ended_; }

 private:
  bool ended_ = false;
};

// Rows of segments that have no codes.
inline std::uint32_t uncoded_rows(IvfSession& session, std::size_t column) {
  const auto view = session.table().view();
  const Stamp model = view->model(column);
  std::uint32_t rows = 0;
  for (std::size_t i = 0; i < view->parts(); ++i) {
    const Part& part = view->part(i);
    const bool coded = !model.is_null() && !part.codes(column, model).is_null();
    if (part.segment() != 0 && !coded) rows += part.live_rows();
  }
  return rows;
}

inline std::vector<std::string> faults_of(IvfSession& session) {
  return session.table().integrity_check();
}

inline void check_integrity(IvfSession& session) {
  for (const std::string& fault : faults_of(session)) FAIL_CHECK(fault);
}

// A trained table of 8,000 rows with codes of both kinds; RaBitQ codes of so many bits.
struct LargeTable {
  explicit LargeTable(bool codes_only, const std::string& bits = "4")
      : session(file.path(), options_of(codes_only, bits), true) {
    std::mt19937 random(31);
    session.begin();
    session.insert_many(random, 8000);
    session.train();
    session.commit();
  }
  static TableOptions options_of(bool codes_only, const std::string& bits) {
    TableOptions options = ivf_options(16);
    options.layout.codes_only = codes_only;
    options.vectors[0].index = {"ivfrabitq", {{"lists", "16"}, {"bits", bits}}};
    if (codes_only) options.vectors[2].index = options.vectors[0].index;
    return options;
  }
  Hits found(const Question& question) {
    return ask(*session.table().view(), session.table(), question);
  }

  TemporaryFile file;
  IvfSession session;
};

}  // namespace warplite::engine
