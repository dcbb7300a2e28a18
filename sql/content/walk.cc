#include "sql/content/walk.h"

#include <algorithm>
#include <utility>

#include "sql/host/older_hosts.h"

namespace warplite::sql {
namespace {

// Seeking costs about as much as this many steps; steps that read values cost more.
constexpr int kSteps = 8;
constexpr int kStepsWithAux = 4;
constexpr int kStepsWithValues = 2;
// If steps lead to nothing, they are tried less and less often.
constexpr int kMostSeeks = 1024;
// If no step is made, SQLite sees no interrupt and calls no progress handler.
constexpr int kMostAnswers = 1024;

}  // namespace

ContentTable::RowWalk::RowWalk(ContentTable& table, Sql sql, Columns aux)
    : table_(table), sql_(sql), aux_(std::move(aux)),
      most_steps_(sql == Sql::kFrom      ? kSteps
                  : sql == Sql::kAuxFrom ? kStepsWithAux
                                         : kStepsWithValues) {}

bool ContentTable::RowWalk::to(RowId rowid) {
  const bool behind = place_ == Position::kRow && at_ < rowid;
  const bool told = !behind && place_ != Position::kNowhere && rowid >= first_ &&
                    ++answers_ % kMostAnswers != 0 && unchanged();
  if (!told) {
    if (!behind || !step_to(rowid)) seek(rowid);
    land(rowid);
  }
  return place_ == Position::kRow && at_ == rowid;
}

// False: it is too far away, or cannot be gone to like that. REQUIRES: at_ < rowid
bool ContentTable::RowWalk::step_to(RowId rowid) {
  const auto distance = static_cast<std::uint64_t>(rowid) - static_cast<std::uint64_t>(at_);
  if (distance > static_cast<std::uint64_t>(most_steps_) && seeks_left_ > 0) {
    --seeks_left_;
    return false;
  }
  for (int i = 0; i < most_steps_; ++i) {
    first_ = at_ + 1;
    if (!step()) return false;
    if (place_ == Position::kEnd || at_ >= rowid) {
      seeks_after_miss_ = 0;
      return true;
    }
  }
  seeks_left_ = seeks_after_miss_ = std::min(2 * seeks_after_miss_ + 1, kMostSeeks);
  return false;
}

void ContentTable::RowWalk::seek(RowId rowid) {
  first_ = rowid;
  if (use_) {
    use_->restart(rowid);
  } else {
    use_.emplace(table_, sql_, rowid, aux_);
  }
  place_ = Position::kNowhere;
  step();
}

// False: a rollback took the statement's place in the table from it. (One that takes more than that
// from the statement's cursors ends the search as well: then seek() fails too.)
bool ContentTable::RowWalk::step() {
  const bool seeking = place_ == Position::kNowhere;
  bool more = false;
  try {
    more = use_->step();
  } catch (const Error& error) {
    rest();
    const bool lost_place = error.kind() == ErrorKind::kHost &&
                            (error.host_code() & 0xff) == SQLITE_ABORT;
    if (seeking || !lost_place) throw;
    return false;
  }
  if (more) {
    place_ = Position::kRow;
    at_ = sqlite3_column_int64(use_->get(), 0);
  } else {
    rest();
    place_ = Position::kEnd;
  }
  return true;
}

void ContentTable::RowWalk::land(RowId rowid) {
  beyond_ = place_ == Position::kEnd || at_ != rowid;
  changes_ = total_changes(table_.db_);
  if (beyond_) moment_ = table_.moment();
}

// The row that was asked for stays what it is until somebody writes; whether a row beyond, or none
// at all, may be there by now is a question of more: statements that still go on count nothing.
bool ContentTable::RowWalk::unchanged() const {
  if (total_changes(table_.db_) != changes_) return false;
  return !beyond_ || table_.moment().same(moment_);
}

const ContentTable::Row* ContentTable::RowWalk::row() {
  const std::optional<Row> row = table_.taken_row_of(use_->get());
  if (!row) return nullptr;
  row_ = *row;
  return &row_;
}

Value ContentTable::RowWalk::aux(std::size_t i) {
  return aux_of(use_->get(), static_cast<int>(i) + 1, *aux_[i]);
}

// A statement that is kept for all must not be held by one to whom it says nothing.
void ContentTable::RowWalk::rest() {
  place_ = Position::kNowhere;
  if (sql_ == Sql::kAuxFrom && use_) {
    use_->pause();
  } else {
    use_.reset();
  }
}

}  // namespace warplite::sql
