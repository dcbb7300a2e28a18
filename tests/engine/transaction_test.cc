// The savepoint state machine alone, fuzzed against a simple model: a table is what is
// committed, minus what was erased, plus what is pending, at every point it can come back to.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/table/snapshot.h"
#include "engine/table/transaction.h"

namespace warplite::engine {
namespace {

Layout make_layout() {
  Layout layout;
  layout.plains = {PlainType::kText, PlainType::kInteger};
  layout.text_key = 0;
  layout.segment_rows = 4;
  return layout;
}

constexpr std::int64_t kSegment = 7;  // every committed row of even rowid, by rowid + 1000
using Table = std::map<RowId, std::int64_t>;

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed), transaction_(layout_) {
    base_ = std::make_shared<Snapshot>();
    transaction_.set_base(base_);
  }

  void step() {
    const int action = pick(20);
    if (action < 8) {
      insert();
    } else if (action < 11) {
      erase();
    } else if (action < 14) {
      savepoint();
    } else if (action < 16) {
      rollback_to();
    } else if (action < 17) {
      release();
    } else if (action < 19) {
      flush(static_cast<std::size_t>(pick(4)));
    } else {
      finish();
    }
    check();
  }

 private:
  struct Savepoint {
    Table stored, now;
    std::shared_ptr<const Snapshot> base;
    bool announced;
  };

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void begin() {
    if (active_) return;
    active_ = true;
    before_ = {stored_, now_, base_, true};
    for (int n = pick(3); n > 0; --n) savepoints_.push_back({stored_, now_, base_, false});
    transaction_.begin();
  }

  static std::int64_t source_of(RowId rowid) { return rowid % 2 == 0 ? kSegment : Pending::kTail; }

  void insert() {
    begin();
    for (int n = pick(6); n >= 0; --n) {
      const RowId rowid = pick(60);
      if (now_.contains(rowid)) continue;
      const std::string key = "k" + std::to_string(rowid);
      const Cell cells[] = {Cell::text(key), Cell::of(++counter_)};
      transaction_.check_writable();
      transaction_.pending().append({rowid, nullptr, cells, nullptr});
      now_[rowid] = counter_;
    }
  }

  void erase() {
    begin();
    const RowId rowid = pick(60);
    Pending& pending = transaction_.pending();
    if (const auto row = pending.find(rowid)) {
      REQUIRE(now_.contains(rowid));
      pending.erase_pending(*row);
    } else if (stored_.contains(rowid) && !pending.erased(source_of(rowid), rowid + 1000)) {
      REQUIRE(now_.contains(rowid));
      pending.erase_committed({source_of(rowid), rowid + 1000, rowid});
    } else {
      REQUIRE(!now_.contains(rowid));
    }
    now_.erase(rowid);
  }

  void savepoint() {
    begin();
    savepoints_.push_back({stored_, now_, base_, true});
    transaction_.savepoint(static_cast<int>(savepoints_.size()) - 1);
  }

  void rollback_to() {
    if (!active_) return;
    const int n = pick(static_cast<int>(savepoints_.size()) + 1) - 1;
    Savepoint target = before_;
    if (n >= 0) {
      savepoints_.resize(static_cast<std::size_t>(n) + 1);
      if (savepoints_.back().announced) target = savepoints_.back();
    } else {
      savepoints_.clear();
    }
    stored_ = target.stored;
    now_ = target.now;
    base_ = target.base;
    transaction_.rollback_to(n);
    CHECK(transaction_.base() == base_);
  }

  void release() {
    if (savepoints_.empty()) return;
    const int n = pick(static_cast<int>(savepoints_.size()));
    savepoints_.resize(static_cast<std::size_t>(n));
    transaction_.release(n);
  }

  // The rows of the last slots stay pending, as in the middle of a load.
  void flush(std::size_t left) {
    begin();
    const auto frozen = transaction_.freeze();
    Pending& pending = transaction_.pending();
    left = std::min(left, pending.slots().size());
    Pending rest = pending.last_slots(left);
    for (const Pending::Erasure& erasure : pending.log()) {
      if (erasure.source != Pending::kPending) CHECK(stored_.erase(erasure.rowid) == 1);
    }
    for (std::size_t i = 0; i < pending.slots().size() - left; ++i) {
      for (const auto& [rowid, value] : rows_of(pending.slots()[i])) stored_[rowid] = value;
    }
    auto next = std::make_shared<Snapshot>();
    transaction_.finish_flush(frozen, std::move(rest), next);
    base_ = next;
  }

  void finish() {
    if (!active_) return;
    if (pick(2) == 0) {
      flush(0);
      transaction_.commit();
      CHECK(stored_ == now_);
    } else {
      stored_ = before_.stored;
      now_ = before_.now;
      base_ = before_.base;
      transaction_.rollback();
    }
    CHECK(transaction_.base() == base_);
    savepoints_.clear();
    active_ = false;
  }

  static Table rows_of(const Pending::Slot& slot) {
    Table rows;
    for (std::uint32_t row = 0; row < slot.used; ++row) {
      if (!slot.alive(row)) continue;
      rows[slot.chunk->rowids()[row]] = slot.chunk->plain(1).integers()[row];
    }
    return rows;
  }

  // What a View would show.
  Table visible() {
    Table rows = stored_;
    Pending& pending = transaction_.pending();
    for (const Pending::Erasure& erasure : pending.log()) {
      if (erasure.source != Pending::kPending) rows.erase(erasure.rowid);
    }
    for (const Pending::Slot& slot : pending.slots()) {
      for (const auto& [rowid, value] : rows_of(slot)) CHECK(rows.emplace(rowid, value).second);
    }
    return rows;
  }

  void check() {
    CHECK(visible() == now_);
    Pending& pending = transaction_.pending();
    Table live;
    std::size_t from_segment = 0, from_tail = 0;
    for (const Pending::Slot& slot : pending.slots()) live.merge(rows_of(slot));
    for (const Pending::Erasure& erasure : pending.log()) {
      from_segment += erasure.source == kSegment;
      from_tail += erasure.source == Pending::kTail;
    }
    CHECK(pending.live_rows() == live.size());
    if (!live.empty()) CHECK(pending.rowid_bound() >= live.rbegin()->first);
    CHECK(pending.tail().size() == from_tail);
    const auto* erasures = pending.segment(kSegment);
    CHECK((erasures == nullptr ? 0 : erasures->rows.count()) == from_segment);
    CHECK(pending.has_changes() == (!live.empty() || from_segment + from_tail > 0));
    const RowId rowid = pick(60);
    const auto by_key = pending.find_key("k" + std::to_string(rowid));
    CHECK(by_key == pending.find(rowid));
    CHECK(by_key.has_value() == live.contains(rowid));
    if (by_key) CHECK(pending.rowid(*by_key) == rowid);
    // Like a view: holds chunks for a while, which must not change under it.
    if (pick(3) == 0) hold();
    for (const auto& [slot, rows] : held_) CHECK(rows_of(slot) == rows);
  }

  void hold() {
    held_.clear();
    for (const Pending::Slot& slot : transaction_.pending().slots()) {
      held_.emplace_back(slot, rows_of(slot));
    }
  }

  Layout layout_ = make_layout();
  std::mt19937 random_;
  Transaction transaction_;
  bool active_ = false;
  std::int64_t counter_ = 0;
  Table stored_, now_;  // in the shadow tables; as seen
  std::shared_ptr<const Snapshot> base_;
  Savepoint before_;
  std::vector<Savepoint> savepoints_;
  std::vector<std::pair<Pending::Slot, Table>> held_;
};

TEST_CASE("pending rows come back as they were at any savepoint") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Model model(seed);
    for (int step = 0; step < 400; ++step) model.step();
  }
}

TEST_CASE("a torn flush lets nothing be written until it is rolled back") {
  const Layout layout = make_layout();
  Transaction transaction(layout);
  transaction.begin();
  transaction.savepoint(0);
  const Cell cells[] = {Cell::text("k"), Cell::of(std::int64_t{1})};
  transaction.pending().append({1, nullptr, cells, nullptr});
  transaction.mark_torn();
  CHECK_THROWS_AS(transaction.check_writable(), Error);
  CHECK_THROWS_AS(transaction.check_readable(), Error);
  CHECK(transaction.pending().live_rows() == 1);
  // A savepoint of after the failure has no more than what was half-written.
  transaction.savepoint(1);
  transaction.rollback_to(1);
  CHECK_THROWS_AS(transaction.check_writable(), Error);
  transaction.release(1);
  CHECK_THROWS_AS(transaction.check_readable(), Error);
  SUBCASE("to a savepoint") {
    transaction.rollback_to(0);
  }
  SUBCASE("wholly") {
    transaction.rollback();
  }
  transaction.check_writable();
  transaction.check_readable();
  CHECK(transaction.pending().empty());
  CHECK(transaction.base() == nullptr);
}

}  // namespace
}  // namespace warplite::engine
