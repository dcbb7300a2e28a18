// Tables that keep codes only: what is shown of a row is what was written or what its code says,
// and no rewriting, rollback or reader in between changes that.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "tests/support/ivf_table.h"

namespace warplite::engine {
namespace {

constexpr std::size_t kColumns = 4;

TableOptions codes_options(std::uint32_t segment_rows = 32) {
  TableOptions options = ivf_options(segment_rows);
  options.layout.codes_only = true;
  options.vectors = {{"a", Distance::kL2, {"ivfpq", {{"lists", "4"}, {"m", "4"}}}},
                     {"b", Distance::kCosine,
                      {"ivfpq", {{"lists", "3"}, {"m", "8"}, {"bits", "4"}}}},
                     {"c", Distance::kInnerProduct, {"ivfpq", {{"lists", "2"}, {"m", "2"}}}},
                     {"d", Distance::kL2, {"ivfrabitq", {{"lists", "4"}, {"bits", "7"}}}}};
  options.layout.vectors.resize(kColumns, options.layout.vectors[0]);
  options.flush_bytes = 6000;
  return options;
}

std::vector<float> floats(const Value& value) {
  std::vector<float> out(kDim);
  std::memcpy(out.data(), value.cell().bytes.data(), kDim * sizeof(float));
  return out;
}

double square_distance(const Value& a, const Value& b) {
  const std::vector<float> x = floats(a), y = floats(b);
  double sum = 0;
  for (std::size_t i = 0; i < kDim; ++i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    sum += difference * difference;
  }
  return sum;
}

bool same(const Value& a, const Value& b) {
  return a.is_null() == b.is_null() && a.cell().bytes == b.cell().bytes;
}

void check_no_faults(IvfSession& session) {
  session.begin();
  for (const std::string& fault : session.table().integrity_check()) FAIL_CHECK(fault);
  session.commit();
}

// Distances and rows of a search that compares everything that is shown.
Hits everything(const View& view, const Collection& table, std::size_t column, unsigned seed) {
  std::mt19937 random(seed);
  const std::string query = IvfSession::random_vector(random);
  SearchRequest request;
  request.column = column;
  request.distance = table.options().vectors[column].distance;
  request.queries = {reinterpret_cast<const std::byte*>(query.data()), 1, kDim,
                     ElementType::kFloat32};
  compute::HitLists lists = within(view, Selection(view, {}), table.index(column), request);
  Hits hits(1);
  std::sort(lists[0].begin(), lists[0].end());
  for (const Hit& hit : lists[0]) hits[0].emplace_back(hit.distance, hit.rowid);
  return hits;
}

// Random statements, and what they should have left.
class Machine {
 public:
  explicit Machine(unsigned seed) : random_(seed), session_(file_.path(), codes_options(), true) {
    if (seed % 2 == 0) session_.db().run("PRAGMA journal_mode = WAL");
  }
  ~Machine() { held_ = nullptr; }

  void step() {
    act(pick(100));
    const auto view = session_.table().view();
    check_rows(*view);
    check_search(*view);
    if (held_ != nullptr) {
      CHECK(everything(*held_, session_.table(), 0, held_seed_) == held_hits_);
    }
  }
  void finish() {
    session_.commit();
    check_no_faults(session_);
    CHECK(decoded_ > 100);
  }

 private:
  struct Row {
    std::vector<Value> written;
    std::vector<Value> coded;  // as first shown, once it was; else NULL
    std::int64_t number;
  };
  using Rows = std::map<RowId, Row>;

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  RowId any() {
    if (rows_.empty()) return 1;
    return std::next(rows_.begin(), pick(static_cast<int>(rows_.size())))->first;
  }

  void act(int action) {
    if (action < 90) session_.begin();
    if (action < 35) {
      for (int n = pick(3) == 0 ? pick(90) : 1; n > 0; --n) insert(next_rowid_++);
    } else if (action < 45) {
      insert(any());
    } else if (action < 55) {
      for (int n = pick(4) == 0 ? pick(60) : 1; n > 0; --n) erase(any());
    } else if (action < 62) {
      train();
    } else if (action < 72) {
      session_.table().optimize();
    } else if (action < 75) {
      const std::string refusal = thrown(ErrorKind::kInvalid, [&] { session_.table().rebuild(); });
      CHECK(refusal.find("t: rebuild") == 0);
    } else if (action < 90) {
      pick(4) == 0 ? roll_back() : commit();
    } else {
      rare(action);
    }
  }
  void rare(int action) {
    if (action < 93) {
      Residency::instance().clear();
    } else if (session_.in_transaction()) {
      return;  // what a transaction that is taken back wrote is not readable after that
    } else if (action < 95) {
      held_ = nullptr;
      session_.reopen();
    } else {
      held_ = session_.table().view();
      held_seed_ = static_cast<unsigned>(random_());
      held_hits_ = everything(*held_, session_.table(), 0, held_seed_);
    }
  }

  void insert(RowId rowid) {
    const TestRow made = session_.random_row(random_);
    const BorrowedRow borrowed(codes_options().layout, made, rowid);
    session_.table().insert(borrowed.get(), OnConflict::kReplace);
    Row row{{}, std::vector<Value>(kColumns), std::stoll(*made.plains[0])};
    for (const auto& vector : made.vectors) {
      row.written.push_back(vector ? Value(Cell::blob(*vector)) : Value());
    }
    rows_[rowid] = row;
  }
  void erase(RowId rowid) {
    CHECK(session_.table().erase(rowid) == (rows_.erase(rowid) == 1));
  }
  void train() {
    if (rows_.size() < 60) return;
    session_.train();
  }
  void commit() {
    session_.commit();
    check_rows(*session_.table().view());  // sealing codes rows
    committed_ = rows_;
  }
  void roll_back() {
    session_.rollback();
    rows_ = committed_;
  }

  void check_rows(const View& view) {
    REQUIRE(view.live_rows() == rows_.size());
    for (auto& [rowid, row] : rows_) {
      const auto at = view.find(rowid);
      REQUIRE(at.has_value());
      CHECK(view.plain(*at, 0).cell().integer == row.number);
      for (std::size_t i = 0; i < kColumns; ++i) check_vector(view.vector(*at, i), row, i);
    }
  }
  void check_vector(const Value& shown, Row& row, std::size_t column) {
    const Value& written = row.written[column];
    REQUIRE(shown.is_null() == written.is_null());
    if (same(shown, written)) {
      CHECK(row.coded[column].is_null());
      return;
    }
    if (row.coded[column].is_null()) {
      row.coded[column] = shown;
      ++decoded_;
      // Under cosine it is a unit vector; else it is no farther away than another cluster.
      if (column == 0 || column == 3) CHECK(square_distance(shown, written) < 8 * 20 * 20);
    }
    CHECK(same(shown, row.coded[column]));
  }

  void check_search(const View& view) {
    const auto column = static_cast<std::size_t>(pick(kColumns));
    Question question{.column = column, .k = static_cast<std::size_t>(1 + pick(40)),
                      .queries = 1, .seed = static_cast<unsigned>(random_()),
                      .nprobe = 1u + static_cast<unsigned>(pick(4))};
    if (pick(2) == 0) question.below = pick(50);
    std::size_t passing = 0;
    for (const auto& [rowid, row] : rows_) {
      if (row.written[column].is_null()) continue;
      passing += !question.below || row.number < *question.below;
    }
    const Hits hits = ask(view, session_.table(), question);
    CHECK(hits[0].size() == std::min(question.k, passing));
    std::set<RowId> different;
    for (const auto& [distance, rowid] : hits[0]) {
      different.insert(rowid);
      const Row& row = rows_.at(rowid);
      CHECK(!row.written[column].is_null());
      CHECK((!question.below || row.number < *question.below));
    }
    CHECK(different.size() == hits[0].size());
    question.exact = true;
    CHECK(thrown(ErrorKind::kInvalid, [&] { ask(view, session_.table(), question); })
              .find("\"exact\" needs vectors") != std::string::npos);
  }

  std::mt19937 random_;
  TemporaryFile file_;
  IvfSession session_;
  Rows rows_, committed_;
  RowId next_rowid_ = 1;
  int decoded_ = 0;
  std::shared_ptr<const View> held_;
  unsigned held_seed_ = 0;
  Hits held_hits_;
};

}  // namespace

TEST_CASE("store=codes: rows stay what they were when they were coded") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Machine machine(seed);
    for (int i = 0; i < 160; ++i) machine.step();
    machine.finish();
  }
}

TEST_CASE("store=codes: a reader keeps the vectors that training takes away") {
  TemporaryFile file;
  IvfSession session(file.path(), codes_options(), true);
  std::mt19937 random(4);
  session.begin();
  session.insert_many(random, 500);
  session.commit();
  const auto view = session.table().view();
  const Hits exact = everything(*view, session.table(), 0, 9);
  session.begin();
  session.train();
  session.commit();
  Residency::instance().clear();
  CHECK(everything(*view, session.table(), 0, 9) == exact);
  CHECK(ask(*view, session.table(), {.k = 500, .queries = 1, .seed = 9})[0] == exact[0]);
  const auto later = session.table().view();
  CHECK(everything(*later, session.table(), 0, 9) != exact);
  std::size_t stored = 0;
  for (std::size_t i = 0; i < later->parts(); ++i) {
    stored += later->part(i).chunk() == nullptr && !later->part(i).decodes(0) ? 1 : 0;
  }
  CHECK(stored <= 1);  // the tail alone
  check_no_faults(session);
}

TEST_CASE("an index learns in the transaction that brings the rows, when an earlier one failed") {
  TemporaryFile file;
  IvfSession session(file.path(), codes_options(128), true);
  std::mt19937 random(6);
  for (const bool comes_back : {true, false}) {
    session.begin();
    session.insert_many(random, 1500);
    session.table().sync();
    CHECK_FALSE(session.table().view()->model(0).is_null());
    comes_back ? session.rollback() : session.commit();
  }
  CHECK_FALSE(session.table().view()->model(0).is_null());
}

TEST_CASE("store=codes: once nothing is coded any more, a table may learn again") {
  TemporaryFile file;
  IvfSession session(file.path(), codes_options(), true);
  std::mt19937 random(7);
  session.begin();
  session.insert_many(random, 300);
  session.train();
  session.commit();
  const Stamp model = session.table().view()->model(0);
  session.begin();
  for (RowId rowid = 1; rowid <= 300; ++rowid) session.table().erase(rowid);
  session.commit();
  session.begin();
  session.insert_many(random, 7);  // stay in the tail
  session.train();
  session.commit();
  CHECK(session.table().view()->model(0) != model);
  check_no_faults(session);
}

TEST_CASE("store=codes: searches by codes agree with what is shown") {
  TemporaryFile file;
  IvfSession session(file.path(), codes_options(256), true);
  std::mt19937 random(8);
  session.begin();
  session.insert_many(random, 3000);
  session.train();
  session.commit();
  const auto view = session.table().view();
  for (unsigned seed = 1; seed < 10; ++seed) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      CAPTURE(column);
      const Hits all = everything(*view, session.table(), column, seed);
      const Hits some = ask(*view, session.table(),
                            {.column = column, .k = 50, .queries = 1, .seed = seed, .nprobe = 4});
      REQUIRE(some[0].size() == 50);
      std::map<RowId, double> distances;
      for (const auto& [distance, rowid] : all[0]) distances[rowid] = distance;
      // Tables of 8 bits round each of m parts by half a step at most.
      const double most = std::abs(all[0].back().first) + std::abs(all[0].front().first);
      for (const auto& [distance, rowid] : some[0]) {
        CHECK(distances.at(rowid) <= all[0][49].first + 0.2 * most);
        CHECK(std::abs(distance - distances.at(rowid)) < 0.2 * most);
      }
    }
  }
}

}  // namespace warplite::engine
