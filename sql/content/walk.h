// Rows of a content table one after another, by a statement that goes on from row to row; for
// ContentTable's own files.
//
// Each answer is what a look-up of its own would say at that moment. A statement that steps to a
// row sees it as it is now, even when it was begun before the row was written: that is how SQLite's
// cursors are. What an earlier step said (that there is nothing between two rows, or that there is
// a row beyond) is taken as long as nothing can have changed since, else asked anew.
// Threads: as the connection. Errors: as ContentTable's.
#pragma once

#include <optional>
#include <vector>

#include "sql/content/use.h"

namespace warplite::sql {

class ContentTable::RowWalk final : public engine::ContentSource::Walk {
 public:
  // `sql`: kFrom, kIndexedFrom, or kAuxFrom with the +columns wanted.
  RowWalk(ContentTable& table, Sql sql, Columns aux = {});

  bool to(RowId rowid) override;
  const Row* row() override;
  void rest() override;
  // Returns the i-th of the +columns. REQUIRES: to() said true.
  Value aux(std::size_t i);

 private:
  bool step_to(RowId rowid);
  void seek(RowId rowid);
  bool step();
  bool unchanged() const;
  void land(RowId rowid);

  ContentTable& table_;
  const Sql sql_;
  const Columns aux_;
  const int most_steps_;
  std::optional<Use> use_;  // while it stands at a row; of kAuxFrom from the first row on
  // Where it stands. No row is from first_ up to there, which is at at_ or at the table's end.
  enum class Position { kNowhere, kRow, kEnd } place_ = Position::kNowhere;
  RowId first_ = 0, at_ = 0;
  // The moment when it came there: what the connection had changed, and more if that is beyond what
  // was asked.
  std::uint64_t changes_ = 0;
  Moment moment_;
  bool beyond_ = false;
  int answers_ = 0;          // that came of an earlier step
  int seeks_left_ = 0;       // to come before the next attempt to step
  int seeks_after_miss_ = 0;
  Row row_{};
};

}  // namespace warplite::sql
