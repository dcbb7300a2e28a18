// A collection against a model, on a real SQLite: random statements, savepoints and
// transactions, made with the calls SQLite makes, compared after every step with a map.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "tests/support/engine_fixture.h"

namespace warplite::engine {
namespace {

// The model of one connection's table, and the calls that change both.
class Machine {
 public:
  Machine(unsigned seed, const Variant& variant)
      : random_(seed),
        variant_(variant),
        options_(make_options(variant)),
        db_(file_.path()),
        other_db_(file_.path()) {
    if (seed % 2 == 0) db_.run("PRAGMA journal_mode = WAL");
    db_.run("BEGIN");
    table_ = Collection::create(db_.get(), "main", "t", options_);
    table_->sync();
    db_.run("COMMIT");
    table_->commit();
    other_ = Collection::open(other_db_.get(), "main", "t", options_);
  }

  ~Machine() {
    if (in_transaction_) rollback();
    held_.reset();
  }

  void step() {
    const int action = pick(100);
    if (action < 30) {
      insert();
    } else if (action < 45) {
      update();
    } else if (action < 60) {
      erase();
    } else if (action < 70) {
      savepoint();
    } else if (action < 77) {
      rollback_to();
    } else if (action < 82) {
      release();
    } else if (action < 90) {
      commit();
    } else if (action < 93) {
      rollback();
    } else {
      rare();
    }
    compare();
  }

  void check_integrity() {
    const std::vector<std::string> faults = table_->integrity_check();
    for (const std::string& fault : faults) FAIL_CHECK(fault);
  }

 private:
  struct Savepoint {
    Contents contents;
    bool announced;
  };

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  OnConflict any_conflict() { return static_cast<OnConflict>(pick(3)); }

  void begin() {
    if (in_transaction_) return;
    db_.run("BEGIN IMMEDIATE");
    in_transaction_ = true;
    // Savepoints that the table does not hear of, because it was not written yet.
    for (int unheard = pick(3); unheard > 0; --unheard) open_savepoint(false);
    table_->begin();
    if (!savepoints_.empty()) announce(static_cast<int>(savepoints_.size()) - 1);
  }

  void open_savepoint(bool announced) {
    db_.run("SAVEPOINT s" + std::to_string(savepoints_.size()));
    savepoints_.push_back({now_, announced});
    if (announced) table_->savepoint(static_cast<int>(savepoints_.size()) - 1);
  }

  void announce(int n) {
    savepoints_[static_cast<std::size_t>(n)].announced = true;
    table_->savepoint(n);
  }

  TestRow random_row() {
    TestRow row;
    for (std::size_t size : {16u, 8u}) {
      std::string bytes(size, '\0');
      if (size == 8) {
        for (char& c : bytes) c = static_cast<char>(pick(256));
      } else {
        for (std::size_t i = 0; i < 4; ++i) {
          const float value = static_cast<float>(pick(1000)) / 8;
          std::memcpy(&bytes[i * 4], &value, 4);
        }
      }
      row.vectors.push_back(pick(6) == 0 ? std::nullopt : std::optional(bytes));
    }
    row.plains.push_back(pick(5) == 0 ? std::nullopt : std::optional(std::to_string(pick(50))));
    row.plains.push_back(pick(5) == 0 ? std::nullopt
                                      : std::optional(std::string(pick(30), 'a' + pick(26))));
    if (variant_.text_key) row.plains.push_back("key " + std::to_string(pick(120)));
    if (variant_.partition) {
      row.plains.push_back(pick(9) == 0 ? std::nullopt
                                        : std::optional("tenant " + std::to_string(pick(7))));
    }
    for (std::size_t i = 0; i < variant_.aux; ++i) {
      row.aux.push_back(pick(4) == 0 ? std::nullopt : std::optional(std::to_string(pick(1000))));
    }
    return row;
  }

  std::set<RowId> with_key(const TestRow& row) const {
    std::set<RowId> out;
    if (!variant_.text_key) return out;
    for (const auto& [rowid, other] : now_) {
      if (other.plains[2] == row.plains[2]) out.insert(rowid);
    }
    return out;
  }

  void insert() {
    begin();
    for (int count = pick(4) == 0 ? pick(40) : 1; count > 0; --count) insert_one();
  }

  void insert_one() {
    const TestRow row = random_row();
    std::optional<RowId> rowid;
    if (pick(3) == 0) rowid = pick(150) - 20;
    const OnConflict conflict = any_conflict();
    std::set<RowId> taken = with_key(row);
    if (rowid && now_.contains(*rowid)) taken.insert(*rowid);
    const BorrowedRow borrowed(options_.layout, row, rowid);
    if (!taken.empty() && conflict == OnConflict::kAbort) {
      CHECK_THROWS_AS(table_->insert(borrowed.get(), conflict), Error);
      return;
    }
    const std::optional<RowId> got = table_->insert(borrowed.get(), conflict);
    if (!taken.empty() && conflict == OnConflict::kIgnore) {
      CHECK(!got);
      return;
    }
    const RowId expected = rowid ? *rowid : now_.empty() ? 1 : now_.rbegin()->first + 1;
    for (RowId other : taken) now_.erase(other);
    REQUIRE(got);
    CHECK(*got == expected);
    now_[expected] = row;
  }

  RowId any_rowid() {
    if (now_.empty() || pick(10) == 0) return pick(200) - 25;
    auto at = now_.begin();
    std::advance(at, pick(static_cast<int>(now_.size())));
    return at->first;
  }

  void update() {
    begin();
    const RowId old = any_rowid();
    const RowId rowid = pick(3) == 0 ? any_rowid() : old;
    const TestRow row = random_row();
    const OnConflict conflict = any_conflict();
    const BorrowedRow borrowed(options_.layout, row, rowid);
    if (!now_.contains(old)) {
      CHECK(table_->update(old, borrowed.get(), conflict));
      return;
    }
    std::set<RowId> taken = with_key(row);
    if (now_.contains(rowid)) taken.insert(rowid);
    taken.erase(old);
    if (!taken.empty() && conflict == OnConflict::kAbort) {
      CHECK_THROWS_AS(table_->update(old, borrowed.get(), conflict), Error);
      return;
    }
    const bool done = table_->update(old, borrowed.get(), conflict);
    CHECK(done == (taken.empty() || conflict != OnConflict::kIgnore));
    if (!done) return;
    for (RowId other : taken) now_.erase(other);
    now_.erase(old);
    now_[rowid] = row;
  }

  void erase() {
    begin();
    for (int count = pick(5) == 0 ? pick(40) : 1; count > 0; --count) {
      const RowId rowid = any_rowid();
      CHECK(table_->erase(rowid) == (now_.erase(rowid) == 1));
    }
  }

  void savepoint() {
    begin();
    open_savepoint(true);
  }

  void rollback_to() {
    if (!in_transaction_) return;
    if (savepoints_.empty()) return;
    const int n = pick(static_cast<int>(savepoints_.size()));
    db_.run("ROLLBACK TO s" + std::to_string(n));
    savepoints_.resize(static_cast<std::size_t>(n) + 1);
    now_ = savepoints_.back().contents;
    table_->rollback_to(n);
  }

  void release() {
    if (!in_transaction_ || savepoints_.empty()) return;
    const int n = pick(static_cast<int>(savepoints_.size()));
    db_.run("RELEASE s" + std::to_string(n));
    savepoints_.resize(static_cast<std::size_t>(n));
    table_->release(n);
  }

  void commit() {
    if (!in_transaction_) return;
    table_->sync();
    if (pick(4) == 0) return;  // COMMIT failed with BUSY: the transaction goes on
    db_.run("COMMIT");
    table_->commit();
    in_transaction_ = false;
    savepoints_.clear();
    committed_ = now_;
  }

  void rollback() {
    if (!in_transaction_) return;
    db_.run("ROLLBACK");
    table_->rollback();
    in_transaction_ = false;
    savepoints_.clear();
    now_ = committed_;
  }

  void rare() {
    switch (pick(6)) {
      case 0:
        begin();
        table_->optimize();
        break;
      case 1:
        begin();
        table_->rebuild();
        break;
      case 2:
        if (in_transaction_) break;
        held_ = nullptr;  // views do not outlive their collection
        table_ = Collection::open(db_.get(), "main", "t", options_);
        break;
      case 3:
        check_integrity();
        break;
      case 4:
        held_ = table_->view();
        held_contents_ = now_;
        for (auto& [rowid, row] : held_contents_) {
          for (auto& aux : row.aux) aux = std::nullopt;
        }
        held_in_transaction_ = in_transaction_;
        break;
      case 5:
        Residency::instance().clear();
        break;
    }
  }

  void compare() {
    const std::shared_ptr<const View> view = table_->view();
    CHECK(contents_of(*view) == now_);
    CHECK(view->live_rows() == now_.size());
    const std::optional<RowId> largest = view->max_rowid();
    CHECK(largest == (now_.empty() ? std::nullopt : std::optional(now_.rbegin()->first)));
    for (int i = 0; i < 3; ++i) {
      const RowId rowid = any_rowid();
      const std::optional<Location> at = view->find(rowid);
      REQUIRE(at.has_value() == now_.contains(rowid));
      if (at) CHECK(view->rowid(*at) == rowid);
    }
    if (variant_.text_key) {
      TestRow row = random_row();
      const std::set<RowId> expected = with_key(row);
      const std::optional<RowId> found = table_->find_key(*row.plains[2]);
      CHECK(found == (expected.empty() ? std::nullopt : std::optional(*expected.begin())));
    }
    compare_other();
    // A view that was made outside a transaction survives whatever comes later.
    if (held_ != nullptr && !held_in_transaction_) {
      CHECK(contents_of(*held_, false) == held_contents_);
    }
  }

  void compare_other() {
    if (pick(4) != 0) return;
    other_db_.run("BEGIN");
    CHECK(contents_of(*other_->view()) == committed_);
    other_db_.run("COMMIT");
  }

  std::mt19937 random_;
  Variant variant_;
  TableOptions options_;
  TemporaryFile file_;
  Database db_, other_db_;
  std::shared_ptr<Collection> table_, other_;
  bool in_transaction_ = false;
  Contents now_, committed_;
  std::vector<Savepoint> savepoints_;
  std::shared_ptr<const View> held_;
  Contents held_contents_;
  bool held_in_transaction_ = false;
};

void run_machine(unsigned seed, const Variant& variant, int steps) {
  INFO("seed " << seed);
  Machine machine(seed, variant);
  for (int step = 0; step < steps; ++step) {
    INFO("step " << step);
    machine.step();
  }
  machine.check_integrity();
}

TEST_CASE("a collection does what a map does, through transactions and savepoints") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    run_machine(seed, {}, 250);
    run_machine(100 + seed, {.text_key = true, .aux = 2}, 250);
    run_machine(200 + seed, {.partition = true, .aux = 1, .tail_rows = 4}, 250);
    run_machine(
        300 + seed,
        {.text_key = true, .partition = true, .tail_rows = 16, .flush_bytes = std::size_t{1} << 20},
        250);
    run_machine(400 + seed, {.tail_rows = 1, .flush_bytes = 200}, 250);
  }
}

}  // namespace
}  // namespace warplite::engine
